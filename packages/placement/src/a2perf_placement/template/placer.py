"""Places a chip design: every node moves between its neighbours, then hard macros go to the nearest free places.

`place` is all that the evaluator calls. NumPy is enough; `benchmark.engine()` gives the exact cost where a2perf's
circuit training is installed.
"""

from __future__ import annotations

import numpy as np

SPACING = 0.1  # um between hard macros; rounding then makes no overlap
STEPS = 60
RASTER = 96  # places per side that are tried for each macro


def place(benchmark):
    """Returns the centre of every node, um, shape (benchmark.num_nodes, 2)."""
    positions = spread(benchmark, attract(benchmark))
    return legalise(benchmark, positions)


def attract(benchmark):
    """Moves each node to the mean of the centres of its nets, again and again; ports and fixed nodes pull."""
    ends = benchmark.pin_owners[benchmark.net_pins]
    net = np.repeat(np.arange(len(benchmark.net_weights)), np.diff(benchmark.net_starts))
    pins = np.diff(benchmark.net_starts)
    pull = benchmark.net_weights[net] / np.maximum(pins[net] - 1, 1)
    places = np.concatenate((benchmark.positions, benchmark.port_positions))
    places[: benchmark.num_nodes][~benchmark.fixed] = np.array(benchmark.canvas) / 2
    total = np.bincount(ends, pull, len(places))
    movable = np.zeros(len(places), bool)
    movable[: benchmark.num_nodes] = ~benchmark.fixed
    movable &= total > 0
    for _ in range(STEPS):
        for axis in range(2):
            centres = np.bincount(net, places[ends, axis], len(pins)) / np.maximum(pins, 1)
            mean = np.bincount(ends, pull * centres[net], len(places)) / np.maximum(total, 1e-12)
            places[movable, axis] = mean[movable]
    return places[: benchmark.num_nodes]


def spread(benchmark, positions):
    """Fills the canvas: along each axis, a mix of the position and of its rank."""
    low = np.minimum(benchmark.node_sizes, np.array(benchmark.canvas)) / 2
    high = np.array(benchmark.canvas) - low
    ranks = positions.argsort(axis=0).argsort(axis=0) / max(len(positions) - 1, 1)
    mixed = 0.3 * positions + 0.7 * (low + ranks * (high - low))
    mixed = np.clip(mixed, low, high)
    return np.where(benchmark.fixed[:, None], benchmark.positions, mixed)


def legalise(benchmark, positions):
    """Puts hard macros, the largest first, to the nearest place of a raster that is free."""
    canvas = np.array(benchmark.canvas)
    hard = np.arange(benchmark.num_hard)
    done = [node for node in hard if benchmark.fixed[node]]
    area = benchmark.node_sizes[hard].prod(axis=1)
    for node in hard[np.argsort(-area, kind="stable")]:
        if benchmark.fixed[node]:
            continue
        half = benchmark.node_sizes[node] / 2 + SPACING / 2
        axes = [np.linspace(half[k], canvas[k] - half[k], RASTER) for k in range(2)]
        at = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
        reach = half + benchmark.node_sizes[done] / 2 + SPACING / 2
        apart = np.abs(at[:, None] - positions[done][None]) >= reach
        free = at[apart.any(axis=2).all(axis=1)]
        if not len(free):
            raise RuntimeError(f"no free place for {benchmark.node_names[node]}")
        positions[node] = free[np.abs(free - positions[node]).sum(axis=1).argmin()]
        done.append(node)
    return positions
