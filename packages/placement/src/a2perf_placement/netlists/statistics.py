"""What a netlist looks like in numbers: counts, areas, fan-outs, and its physical Rent exponent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.netlists.netlist import (
    KIND_MACRO,
    KIND_MACRO_PIN,
    KIND_PORT,
    KIND_STDCELL,
    Netlist,
)

_LEAST_BLOCK = 4  # nodes; smaller blocks say little


@dataclass(frozen=True)
class NetlistStatistics:
    """Numbers on a netlist.

    Attributes:
        counts: nodes by kind, and nets and pins of nets.
        macro_area: of hard macros, um^2.
        soft_area: of soft macros and standard cells, um^2.
        rent_exponent: slope of terminals over nodes of blocks on log axes; None where nodes have no positions.
        rent_points: (nodes, terminals) averaged over the blocks of one size.
    """

    counts: dict[str, int]
    macro_area: float
    soft_area: float
    fan_out: dict[int, int]
    rent_exponent: float | None
    rent_points: tuple[tuple[float, float], ...]


def netlist_statistics(netlist: Netlist) -> NetlistStatistics:
    """Returns the numbers of a netlist."""
    kind, soft = netlist.kind, netlist.soft != 0
    area = netlist.width * netlist.height
    hard = (kind == KIND_MACRO) & ~soft
    clusters = (kind == KIND_MACRO) & soft
    cells = kind == KIND_STDCELL
    sinks = np.diff(netlist.net_start) - 1
    exponent, points = rent_exponent(netlist)
    return NetlistStatistics(
        counts={
            "hard macros": int(hard.sum()),
            "soft macros": int(clusters.sum()),
            "standard cells": int(cells.sum()),
            "ports": int((kind == KIND_PORT).sum()),
            "macro pins": int((kind == KIND_MACRO_PIN).sum()),
            "nodes": netlist.num_nodes,
            "nets": netlist.num_nets,
            "pins of nets": len(netlist.net_pins),
        },
        macro_area=float(area[hard].sum()),
        soft_area=float(area[clusters | cells].sum()),
        fan_out={int(count): int(nets) for count, nets in zip(*np.unique(sinks, return_counts=True), strict=True)},
        rent_exponent=exponent,
        rent_points=points,
    )


def rent_exponent(netlist: Netlist) -> tuple[float | None, tuple[tuple[float, float], ...]]:
    """Returns the Rent exponent of blocks that halve the nodes by their positions, and the points that it fits.

    Blocks larger than a quarter of the design are left out: there the rule bends (Rent's second region).
    """
    nodes = np.flatnonzero(
        ((netlist.kind == KIND_MACRO) | (netlist.kind == KIND_STDCELL)) & (netlist.has_location != 0)
    )
    if len(nodes) < 4 * _LEAST_BLOCK:
        return None, ()
    leaf = np.full(netlist.num_nodes, -1, np.int64)
    owner = np.where(netlist.owner >= 0, netlist.owner, np.arange(netlist.num_nodes))
    depth = int(np.log2(len(nodes) / _LEAST_BLOCK))
    leaf[nodes] = _blocks(netlist.x[nodes], netlist.y[nodes], depth)
    pin_leaf = leaf[owner[netlist.net_pins]]
    net = np.repeat(np.arange(netlist.num_nets), np.diff(netlist.net_start))
    points = []
    for level in range(depth, 1, -1):
        block = np.where(pin_leaf >= 0, pin_leaf >> (depth - level), -1)
        points.append((len(nodes) / 2**level, _terminals(net, block) / 2**level))
    if len(points) < 2 or min(terminals for _, terminals in points) <= 0.0:
        return None, tuple(points)
    sizes, terminals = np.log(np.array(points)).T
    return float(np.polyfit(sizes, terminals, 1)[0]), tuple(points)


def _blocks(x: NDArray[np.float64], y: NDArray[np.float64], depth: int) -> NDArray[np.int64]:
    """Returns the block of each node after halving ``depth`` times across the longer side, shape (nodes,)."""
    block = np.zeros(len(x), np.int64)
    parts = [np.arange(len(x))]
    for _ in range(depth):
        halves = []
        for part in parts:
            wide = np.ptp(x[part]) >= np.ptp(y[part])
            order = part[np.argsort((x if wide else y)[part], kind="stable")]
            halves += [order[: len(order) // 2], order[len(order) // 2 :]]
        parts = halves
    for index, part in enumerate(parts):
        block[part] = index
    return block


def _terminals(net: NDArray[np.int64], block: NDArray[np.int64]) -> int:
    """Returns how often a net touches a block that it does not lie in wholly; -1 is the outside."""
    touched = np.unique(np.stack([net, block], axis=1), axis=0)
    several = np.bincount(touched[:, 0])[touched[:, 0]] > 1
    return int((several & (touched[:, 1] >= 0)).sum())
