"""Kernels that route nets over the congestion grid as L and T shapes, without regard to each other.

Usage is marked as differences: a run of cells costs two additions, and prefix sums give the usage. Weights are single
precision numbers, so with moderate weights every sum is exact and a net can be taken out again without residue.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.compilation import compiled

Floats = NDArray[np.float64]
Cells = NDArray[np.int32]

UNPLACED = np.int32(-(2**31))
_FEW = 12  # up to so many cells a linear search is quicker than a stamped grid


@compiled
def cells_of(
    x: Floats,
    y: Floats,
    placed: NDArray[np.uint8],
    cell_width: float,
    cell_height: float,
    column: Cells,
    row: Cells,
) -> None:
    """Fills in the cell of every node, truncated towards zero; beyond the canvas included."""
    for node in range(x.size):
        if placed[node]:
            column[node] = int(x[node] / cell_width)
            row[node] = int(y[node] / cell_height)
        else:
            column[node] = UNPLACED


@compiled
def cells_of_some(
    nodes: Cells,
    x: Floats,
    y: Floats,
    placed: NDArray[np.uint8],
    cell_width: float,
    cell_height: float,
    column: Cells,
    row: Cells,
) -> None:
    """Fills in the cells of the given nodes."""
    for node in nodes:
        if placed[node]:
            column[node] = int(x[node] / cell_width)
            row[node] = int(y[node] / cell_height)
        else:
            column[node] = UNPLACED


@compiled
def _mark_row(usage: Floats, row: int, one: int, other: int, weight: float) -> None:
    """Marks the columns from the lower to before the higher one; cells below the grid count as its first."""
    row = max(row, 0)
    usage[row, max(min(one, other), 0)] += weight
    usage[row, max(max(one, other), 0)] -= weight


@compiled
def _mark_column(usage: Floats, column: int, one: int, other: int, weight: float) -> None:
    column = max(column, 0)
    usage[max(min(one, other), 0), column] += weight
    usage[max(max(one, other), 0), column] -= weight


@compiled
def _two(
    source_row: int, source_column: int, row: int, column: int, weight: float, horizontal: Floats, vertical: Floats
) -> None:
    if source_column != column:
        _mark_row(horizontal, source_row, source_column, column, weight)
    if source_row != row:
        _mark_column(vertical, column, source_row, row, weight)


@compiled
def _three(rows: Cells, columns: Cells, weight: float, horizontal: Floats, vertical: Floats) -> None:
    # sorted by column, then row
    for i in range(2):
        for j in range(2 - i):
            if columns[j] > columns[j + 1] or (columns[j] == columns[j + 1] and rows[j] > rows[j + 1]):
                columns[j], columns[j + 1] = columns[j + 1], columns[j]
                rows[j], rows[j + 1] = rows[j + 1], rows[j]
    y1, y2, y3 = rows[0], rows[1], rows[2]
    x1, x2, x3 = columns[0], columns[1], columns[2]
    if x1 < x2 < x3 and min(y1, y3) < y2 < max(y1, y3):
        _mark_row(horizontal, y1, x1, x2, weight)
        _mark_row(horizontal, y2, x2, x3, weight)
        _mark_column(vertical, x2, y1, y2, weight)
        _mark_column(vertical, x3, y2, y3, weight)
    elif x2 == x3 and x1 < x2 and y1 < min(y2, y3):
        _mark_row(horizontal, y1, x1, x2, weight)
        _mark_column(vertical, x2, y1, max(y2, y3), weight)
    elif y2 == y3:
        _mark_row(horizontal, y1, x1, x2, weight)
        _mark_row(horizontal, y2, x2, x3, weight)
        _mark_column(vertical, x2, y1, y2, weight)
    else:
        for i in range(2):
            for j in range(2 - i):
                if rows[j] > rows[j + 1] or (rows[j] == rows[j + 1] and columns[j] > columns[j + 1]):
                    columns[j], columns[j + 1] = columns[j + 1], columns[j]
                    rows[j], rows[j + 1] = rows[j + 1], rows[j]
        low = min(columns[0], columns[1], columns[2])
        high = max(columns[0], columns[1], columns[2])
        _mark_row(horizontal, rows[1], low, high, weight)
        _mark_column(vertical, columns[0], rows[0], rows[1], weight)
        _mark_column(vertical, columns[2], rows[1], rows[2], weight)


@compiled
def route(
    nets: Cells,
    sign: float,
    net_start: NDArray[np.int64],
    net_pins: NDArray[np.int32],
    weights: Floats,
    column: Cells,
    row: Cells,
    horizontal: Floats,
    vertical: Floats,
    stamps: NDArray[np.int64],
) -> None:
    """Marks the routes of some nets.

    Args:
        nets: the nets.
        sign: 1 to add the routes, -1 to take them out.
        net_start: where each net starts in ``net_pins``.
        net_pins: the nets' pins, the driver first.
        weights: weight of the net that a node drives.
        column: column of each node's cell; ``UNPLACED`` where it is not placed.
        row: row of each node's cell.
        horizontal: usage differences along columns, shape (rows, columns + 1).
        vertical: usage differences along rows, shape (rows + 1, columns).
        stamps: scratch, shape (rows * columns + 1,): the last used stamp behind the cells' stamps.
    """
    columns, rows = vertical.shape[1], horizontal.shape[0]
    own_rows = np.empty(_FEW, dtype=np.int32)
    own_columns = np.empty(_FEW, dtype=np.int32)
    for net in nets:
        first, after = net_start[net], net_start[net + 1]
        routed = True
        inside = True
        for i in range(first, after):
            c, r = column[net_pins[i]], row[net_pins[i]]
            if c == UNPLACED or c >= columns or r >= rows:
                routed = False
                break
            inside = inside and c >= 0 and r >= 0
        if not routed:
            continue
        driver = net_pins[first]
        weight = sign * weights[driver]
        driver_column, driver_row = column[driver], row[driver]
        distinct = 0
        if after - first <= _FEW or not inside:
            if after - first > own_rows.size:
                own_rows = np.empty(after - first, dtype=np.int32)
                own_columns = np.empty(after - first, dtype=np.int32)
            for i in range(first, after):
                c, r = column[net_pins[i]], row[net_pins[i]]
                known = False
                for j in range(distinct):
                    if own_columns[j] == c and own_rows[j] == r:
                        known = True
                        break
                if not known:
                    own_columns[distinct], own_rows[distinct] = c, r
                    distinct += 1
            if distinct == 3:
                _three(own_rows, own_columns, weight, horizontal, vertical)
            else:
                for j in range(1, distinct):
                    _two(driver_row, driver_column, own_rows[j], own_columns[j], weight, horizontal, vertical)
            continue
        stamps[rows * columns] += 1
        stamp = stamps[rows * columns]
        for i in range(first, after):
            c, r = column[net_pins[i]], row[net_pins[i]]
            if stamps[r * columns + c] != stamp:
                stamps[r * columns + c] = stamp
                if distinct < _FEW:
                    own_columns[distinct], own_rows[distinct] = c, r
                distinct += 1
        if distinct == 3:
            _three(own_rows, own_columns, weight, horizontal, vertical)
            continue
        stamps[rows * columns] += 1
        stamp = stamps[rows * columns]
        for i in range(first, after):
            c, r = column[net_pins[i]], row[net_pins[i]]
            if stamps[r * columns + c] != stamp:
                stamps[r * columns + c] = stamp
                _two(driver_row, driver_column, r, c, weight, horizontal, vertical)
