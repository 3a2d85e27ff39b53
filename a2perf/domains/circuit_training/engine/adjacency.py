"""The weighted graph of connections between macros and clusters of ports, which a policy observes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.placement import Placement, PlacementError
from a2perf.domains.circuit_training.netlists.netlist import KIND_PORT
from a2perf.domains.compilation import compiled_without_allocation

Floats = NDArray[np.float64]


@compiled_without_allocation
def _connect(
    net_start: NDArray[np.int64],
    net_pins: NDArray[np.int32],
    vertex: NDArray[np.int64],
    from_port: NDArray[np.bool_],
    weight: Floats,
    adjacency: Floats,
) -> None:
    for net in range(net_start.size - 1):
        first = net_start[net]
        driver = net_pins[first]
        one = vertex[driver]
        if one < 0:
            continue
        strength = 1.0 if from_port[driver] else np.trunc(weight[driver])
        for i in range(first + 1, net_start[net + 1]):
            other = vertex[net_pins[i]]
            if other >= 0:
                adjacency[one, other] += strength
                adjacency[other, one] += strength


def _adjacency(placement: Placement, vertex: NDArray[np.int64], count: int) -> Floats:
    netlist = placement.netlist
    adjacency = np.zeros((count, count))
    _connect(netlist.net_start, netlist.net_pins, vertex, netlist.kind == KIND_PORT, netlist.weight, adjacency)
    return adjacency


def _macro_vertices(placement: Placement) -> NDArray[np.int64]:
    """Returns the vertex of each node: its position among the macros for macros and their pins, else -1."""
    vertex = np.full(placement.netlist.num_nodes, -1, dtype=np.int64)
    vertex[placement.macros] = np.arange(len(placement.macros))
    owner = placement.netlist.owner
    # An owner of -1 reads the last entry here; np.where discards it.
    return np.where(owner >= 0, vertex[owner], vertex)


def macro_adjacency(placement: Placement) -> Floats:
    """Returns the symmetric weights between all macros in index order, shape (macros, macros).

    A net from one pin of a macro to another counts twice on the diagonal; a net from a port counts as 1.
    """
    return _adjacency(placement, _macro_vertices(placement), len(placement.macros))


def macro_and_port_adjacency(
    placement: Placement, canvas: tuple[float, float], grid: tuple[int, int]
) -> tuple[Floats, list[int]]:
    """Returns the weights between macros and, behind them, clusters of ports, and the clusters' grid cells.

    The ports of one placement cell make one cluster; clusters are in the order of their cells.

    Raises:
        PlacementError: a port is not placed.
    """
    ports, (columns, rows) = placement.ports, grid
    if not placement.placed[ports].all():
        port = int(ports[np.argmin(placement.placed[ports])])
        raise PlacementError(
            f"port {placement.netlist.names[port]!r} is not placed, so it belongs to no cluster",
            hint="restore a placement that has all ports",
        )
    # Clipped because a port on the right or upper edge would fall into a cell beyond the grid.
    column = np.clip(np.trunc(placement.x[ports] / (canvas[0] / columns)), 0, columns - 1).astype(np.int64)
    row = np.clip(np.trunc(placement.y[ports] / (canvas[1] / rows)), 0, rows - 1).astype(np.int64)
    cells, cluster = np.unique(row * columns + column, return_inverse=True)
    vertex = _macro_vertices(placement)
    vertex[ports] = len(placement.macros) + cluster
    return _adjacency(placement, vertex, len(placement.macros) + len(cells)), cells.tolist()
