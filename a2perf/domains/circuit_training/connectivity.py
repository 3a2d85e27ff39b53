"""Nets that obey Rent's rule: how far a net reaches in a binary hierarchy of blocks.

Rent's rule says that a block of g leaves has T = k g^p terminals. In a complete binary hierarchy a net is a terminal of
a block of 2^l leaves when its lowest common block is larger, so that share must be 2^(-l (1 - p)): a net's level is
drawn from that distribution, its sinks uniformly from the block of that level. Nets that would lie above the whole
design belong to its topmost block.
(B. S. Landman and R. L. Russo, "On a pin versus block relationship for partitions of logic graphs", 1971.)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


def level_probabilities(levels: int, rent_exponent: float) -> NDArray[np.float64]:
    """Returns the probability of levels 1..``levels`` for a net, shape (levels,)."""
    above = 2.0 ** (-np.arange(levels) * (1.0 - rent_exponent))
    probabilities: NDArray[np.float64] = above - np.append(above[1:], 0.0)
    return probabilities


def rent_nets(
    generator: np.random.Generator,
    leaves: int,
    drivers: NDArray[np.int64],
    fan_outs: NDArray[np.int64],
    rent_exponent: float,
) -> Iterator[list[int]]:
    """Draws the sinks of nets.

    Args:
        generator: of random numbers.
        leaves: how many leaves the hierarchy has, at least 2.
        drivers: leaf of each net's driver, shape (nets,).
        fan_outs: number of sinks of each net, shape (nets,).
        rent_exponent: p, 0..1.

    Yields:
        For each net its sink leaves, distinct and other than the driver; fewer than asked where there are no more.
    """
    depth = max(1, int(np.ceil(np.log2(leaves))))
    levels = generator.choice(depth, size=len(drivers), p=level_probabilities(depth, rent_exponent)) + 1
    uniform = _uniform(generator)
    for driver, fan_out, level in zip(drivers.tolist(), fan_outs.tolist(), levels.tolist(), strict=True):
        wanted = min(fan_out, leaves - 1)
        while True:
            start = driver >> level << level
            end = min(start + (1 << level), leaves)
            sibling = ((driver >> (level - 1)) ^ 1) << (level - 1)
            # one sink lies across the middle of the block, or the net would belong to a lower level
            if sibling < leaves and end - start > wanted:
                break
            level += 1
        sibling_end = min(sibling + (1 << (level - 1)), leaves)
        sinks = [sibling + int(next(uniform) * (sibling_end - sibling))]
        taken = {driver, sinks[0]}
        while len(sinks) < wanted:
            sink = start + int(next(uniform) * (end - start))
            if sink not in taken:
                taken.add(sink)
                sinks.append(sink)
        yield sinks


def _uniform(generator: np.random.Generator) -> Iterator[float]:
    while True:
        yield from generator.random(4096).tolist()


def hilbert_positions(count: int) -> NDArray[np.float64]:
    """Returns where leaves lie in the unit square, so that blocks of the hierarchy are compact; shape (count, 2)."""
    order = max(1, int(np.ceil(np.log2(max(count, 2)) / 2)))
    side = 1 << order
    index = (np.arange(count) * (side * side) // count).astype(np.int64)
    x, y = np.zeros(count, np.int64), np.zeros(count, np.int64)
    size = 1
    while size < side:
        rx = (index // 2) & 1
        ry = (index ^ rx) & 1
        turned = ry == 0
        flipped = turned & (rx == 1)
        x, y = np.where(flipped, size - 1 - x, x), np.where(flipped, size - 1 - y, y)
        x, y = np.where(turned, y, x), np.where(turned, x, y)
        x, y = x + size * rx, y + size * ry
        index //= 4
        size *= 2
    return (np.stack([x, y], axis=1) + 0.5) / side
