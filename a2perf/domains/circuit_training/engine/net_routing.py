"""Kernels that route nets over the congestion grid as L and T shapes, without regard to each other.

Usage is marked as differences: a run of cells costs two additions, and prefix sums give the usage. Weights are single
precision numbers, so with moderate weights every sum is exact and a net can be taken out again without residue.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.compilation import compiled_part, compiled_without_allocation

Floats = NDArray[np.float64]
Pins = NDArray[np.int32]
Cells = NDArray[np.int64]

# A packed cell holds row and column, each shifted to be positive. Packed cells sort by row, then column.
_BITS = 31
_SHIFT = 1 << 30
_LOW = (1 << _BITS) - 1
SKIPPED = -1  # packed cell of a node that is not placed or beyond the grid: its nets are not routed
_FEW = 12  # up to this number of cells a linear search is faster than a stamped grid


@compiled_part
def _packed(high: int, low: int) -> int:
    return ((high + _SHIFT) << _BITS) + (low + _SHIFT)


@compiled_part
def unpacked(cell: int) -> tuple[int, int]:
    """Returns row and column of a packed cell."""
    return (cell >> _BITS) - _SHIFT, (cell & _LOW) - _SHIFT


@compiled_part
def cell_at(x: float, y: float, cell_width: float, cell_height: float, columns: int, rows: int, nearest: bool) -> int:
    """Returns the packed cell of a position.

    Positions are truncated towards zero, as in the earlier engine: just below the canvas means in its first cells. A
    position beyond the last cell is `SKIPPED`, or belongs to the ``nearest`` cell.
    """
    column, row = x / cell_width, y / cell_height
    if nearest:
        return _packed(int(min(max(row, 0.0), rows - 1.0)), int(min(max(column, 0.0), columns - 1.0)))
    if column >= columns or row >= rows:
        return SKIPPED
    # The limit keeps nodes far below the canvas within the bits of a packed part (_SHIFT is 1.07e9).
    return _packed(int(max(row, -1e9)), int(max(column, -1e9)))


@compiled_without_allocation
def find_cells(
    nodes: Pins,
    x: Floats,
    y: Floats,
    placed: NDArray[np.uint8],
    cell_width: float,
    cell_height: float,
    columns: int,
    rows: int,
    cells: Cells,
) -> None:
    """Fills in the packed cells of the given nodes."""
    for node in nodes:
        if placed[node]:
            cells[node] = cell_at(x[node], y[node], cell_width, cell_height, columns, rows, False)
        else:
            cells[node] = SKIPPED


@compiled_part
def _mark_row(usage: Floats, row: int, one: int, other: int, weight: float) -> None:
    """Marks the columns from the lower to before the higher one; cells below the grid count as its first."""
    row = max(row, 0)
    # For equal columns the marks cancel; that is faster than a branch.
    usage[row, max(min(one, other), 0)] += weight
    usage[row, max(max(one, other), 0)] -= weight


@compiled_part
def _mark_column(usage: Floats, column: int, one: int, other: int, weight: float) -> None:
    column = max(column, 0)
    usage[max(min(one, other), 0), column] += weight
    usage[max(max(one, other), 0), column] -= weight


@compiled_part
def _route_two(source: int, sink: int, weight: float, horizontal: Floats, vertical: Floats) -> None:
    """Marks an L: along the source's row, then along the sink's column."""
    source_row, source_column = unpacked(source)
    row, column = unpacked(sink)
    _mark_row(horizontal, source_row, source_column, column, weight)
    _mark_column(vertical, column, source_row, row, weight)


@compiled_part
def _sorted_three(a: int, b: int, c: int) -> tuple[int, int, int, int, int, int]:
    """Returns the parts of three packed values in ascending order: the high parts, then the low parts."""
    first, third = min(a, min(b, c)), max(a, max(b, c))
    h1, l1 = unpacked(first)
    h2, l2 = unpacked(max(min(a, b), min(max(a, b), c)))
    h3, l3 = unpacked(third)
    return h1, h2, h3, l1, l2, l3


@compiled_part
def _route_three(a: int, b: int, c: int, weight: float, horizontal: Floats, vertical: Floats) -> None:
    """Marks a tree over three distinct cells: up to two runs along rows and two along columns."""
    ya, xa = unpacked(a)
    yb, xb = unpacked(b)
    yc, xc = unpacked(c)
    # Packed with the column in front, because this sort is by column, then row.
    x1, x2, x3, y1, y2, y3 = _sorted_three(_packed(xa, ya), _packed(xb, yb), _packed(xc, yc))
    row1, from1, to1, row2, from2, to2 = y1, x1, x2, y2, x2, x3
    column1, low1, high1, column2, low2, high2 = x2, y1, y2, x3, y2, y3
    if not (x1 < x2 and x2 < x3 and min(y1, y3) < y2 and y2 < max(y1, y3)):  # a staircase keeps all four runs
        if x2 == x3 and x1 < x2 and y1 < min(y2, y3):
            to2, high1, low2 = from2, max(y2, y3), high2
        elif y2 == y3:
            low2 = high2
        else:
            y1, y2, y3, x1, x2, x3 = _sorted_three(a, b, c)
            row1, from1, to1, to2 = y2, min(x1, min(x2, x3)), max(x1, max(x2, x3)), from2
            column1, low1, high1, column2, low2, high2 = x1, y1, y2, x3, y2, y3
    _mark_row(horizontal, row1, from1, to1, weight)
    _mark_row(horizontal, row2, from2, to2, weight)
    _mark_column(vertical, column1, low1, high1, weight)
    _mark_column(vertical, column2, low2, high2, weight)


@compiled_without_allocation
def route(
    nets: Pins,
    sign: float,
    net_start: NDArray[np.int64],
    net_pins: Pins,
    weights: Floats,
    cells: Cells,
    horizontal: Floats,
    vertical: Floats,
    stamps: NDArray[np.int64],
    distinct: Cells,
) -> None:
    """Marks the routes of some nets.

    Args:
        sign: 1 to add the routes, -1 to take them out.
        net_pins: the nets' pins, the driver first.
        cells: packed cell of each node, from `find_cells`.
        horizontal: usage differences along columns, shape (rows, columns + 1).
        vertical: usage differences along rows, shape (rows + 1, columns).
        stamps: scratch, shape (rows * columns + 1,): the last used stamp behind the cells' stamps.
    """
    columns = vertical.shape[1]
    last = stamps.size - 1
    for net in nets:
        first, after = net_start[net], net_start[net + 1]
        source = cells[net_pins[first]]
        distinct[0] = source
        count = 1
        routed = source != SKIPPED
        stamped = after - first > _FEW
        if stamped:
            for i in range(first, after):
                row, column = unpacked(cells[net_pins[i]])
                # Cells below the grid, and SKIPPED, unpack to negative numbers, which the stamped grid cannot hold.
                stamped = stamped and row >= 0 and column >= 0
            # A new stamp for each net saves clearing the grid.
            stamps[last] += 1
        for i in range(first if stamped else first + 1, after):
            cell = cells[net_pins[i]]
            known = False
            if stamped:
                row, column = unpacked(cell)
                at = row * columns + column
                known = i > first and stamps[at] == stamps[last]
                stamps[at] = stamps[last]
                # The driver is stamped as well; one step back stores it in entry 0 again.
                count -= 1 if i == first else 0
            else:
                for j in range(count):
                    known = known or distinct[j] == cell
            routed = routed and cell != SKIPPED
            distinct[count] = cell
            count += 0 if known else 1
        if not routed:
            continue
        weight = sign * weights[net_pins[first]]
        if count == 3:
            _route_three(distinct[0], distinct[1], distinct[2], weight, horizontal, vertical)
        else:
            for j in range(1, count):
                _route_two(source, distinct[j], weight, horizontal, vertical)
