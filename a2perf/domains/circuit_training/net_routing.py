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

SKIPPED = -1  # packed cell of a node that is not placed or beyond the grid: its nets are not routed
BELOW = -2  # packed cell of a node left of or below the grid
ROW_STEP = 1024  # a packed cell is row * ROW_STEP + column; grids have at most 1000 columns
_FEW = 12  # up to so many cells a linear search is quicker than a stamped grid


@compiled
def find_cells(
    nodes: Cells,
    x: Floats,
    y: Floats,
    placed: NDArray[np.uint8],
    cell_width: float,
    cell_height: float,
    columns: int,
    rows: int,
    cells: Cells,
) -> None:
    """Fills in the cells of the given nodes, shape (all nodes, 3): column, row, and both packed or why not.

    Positions are truncated towards zero, so that those just below the canvas fall into its first cells.
    """
    for node in nodes:
        cells[node, 2] = SKIPPED
        if not placed[node]:
            continue
        column, row = int(x[node] / cell_width), int(y[node] / cell_height)
        cells[node, 0], cells[node, 1] = column, row
        if column >= columns or row >= rows:
            continue
        cells[node, 2] = row * ROW_STEP + column if column >= 0 and row >= 0 else BELOW


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
def _mark(horizontal: Floats, vertical: Floats, source: int, sink: int, weight: float) -> None:
    """Marks an L between two cells inside the grid: along the source's row, then along the sink's column."""
    source_row, source_column = source // ROW_STEP, source % ROW_STEP
    row, column = sink // ROW_STEP, sink % ROW_STEP
    # nothing to do for equal ones, but marking twice at one place is quicker than asking
    horizontal[source_row, min(source_column, column)] += weight
    horizontal[source_row, max(source_column, column)] -= weight
    vertical[min(source_row, row), column] += weight
    vertical[max(source_row, row), column] -= weight


@compiled
def _route_inside(
    distinct: Cells, count: int, weight: float, horizontal: Floats, vertical: Floats, rows: Cells, columns: Cells
) -> None:
    if count == 3:
        for j in range(3):
            rows[j], columns[j] = distinct[j] // ROW_STEP, distinct[j] % ROW_STEP
        _three(rows, columns, weight, horizontal, vertical)
    else:
        for j in range(1, count):
            _mark(horizontal, vertical, distinct[0], distinct[j], weight)


@compiled
def _route_below(
    first: int, after: int, net_pins: Cells, cells: Cells, weight: float, horizontal: Floats, vertical: Floats
) -> None:
    """Routes a net with pins left of or below the grid: they stay there until something is marked."""
    rows = np.empty(after - first, dtype=np.int32)
    columns = np.empty(after - first, dtype=np.int32)
    count = 0
    for i in range(first, after):
        column, row = cells[net_pins[i], 0], cells[net_pins[i], 1]
        known = False
        for j in range(count):
            known = known or (columns[j] == column and rows[j] == row)
        if not known:
            columns[count], rows[count] = column, row
            count += 1
    if count == 3:
        _three(rows, columns, weight, horizontal, vertical)
    else:
        for j in range(1, count):
            _mark_row(horizontal, rows[0], columns[0], columns[j], weight)
            _mark_column(vertical, columns[j], rows[0], rows[j], weight)


@compiled
def route(
    nets: Cells,
    sign: float,
    net_start: NDArray[np.int64],
    net_pins: Cells,
    weights: Floats,
    cells: Cells,
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
        cells: cell of each node, from `find_cells`.
        horizontal: usage differences along columns, shape (rows, columns + 1).
        vertical: usage differences along rows, shape (rows + 1, columns).
        stamps: scratch, shape (rows * columns + 1,): the last used stamp behind the cells' stamps.
    """
    columns = vertical.shape[1]
    last = stamps.size - 1
    distinct = np.empty(_FEW + 1, dtype=np.int32)
    own_rows = np.empty(3, dtype=np.int32)
    own_columns = np.empty(3, dtype=np.int32)
    for net in nets:
        first, after = net_start[net], net_start[net + 1]
        weight = sign * weights[net_pins[first]]
        source = cells[net_pins[first], 2]
        if after - first == 2:
            sink = cells[net_pins[first + 1], 2]
            if source >= 0 and sink >= 0:
                _mark(horizontal, vertical, source, sink, weight)
                continue
        lowest = 0
        routed = True
        for i in range(first, after):
            cell = cells[net_pins[i], 2]
            lowest = min(lowest, cell)
            routed = routed and cell != SKIPPED
        if not routed:
            continue
        if lowest < 0:
            _route_below(first, after, net_pins, cells, weight, horizontal, vertical)
            continue
        distinct[0] = source
        count = 1
        if after - first <= _FEW:
            for i in range(first + 1, after):
                cell = cells[net_pins[i], 2]
                known = False
                for j in range(count):
                    known = known or distinct[j] == cell
                distinct[count] = cell
                count += 0 if known else 1
            _route_inside(distinct, count, weight, horizontal, vertical, own_rows, own_columns)
            continue
        stamps[last] += 1
        stamps[source // ROW_STEP * columns + source % ROW_STEP] = stamps[last]
        for i in range(first + 1, after):
            cell = cells[net_pins[i], 2]
            at = cell // ROW_STEP * columns + cell % ROW_STEP
            if stamps[at] != stamps[last]:
                stamps[at] = stamps[last]
                if count < 3:
                    distinct[count] = cell
                else:
                    if count == 3:
                        _mark(horizontal, vertical, source, distinct[1], weight)
                        _mark(horizontal, vertical, source, distinct[2], weight)
                    _mark(horizontal, vertical, source, cell, weight)
                count += 1
        if count <= 3:
            _route_inside(distinct, count, weight, horizontal, vertical, own_rows, own_columns)
