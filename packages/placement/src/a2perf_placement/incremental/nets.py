"""The part of nets in the incremental evaluation: their lengths, their routes, and the smoothed congestion map."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.net_routing import SKIPPED, route, unpacked
from a2perf.domains.circuit_training.engine.wirelength import net_length
from a2perf.domains.compilation import compiled_part
from a2perf_placement.incremental.state import NOWHERE, CostRules, Ints, Places, Wiring, clear, rounded, widen
from a2perf_placement.incremental.top_sum import TopSum, add_to


@compiled_part
def mark(nets: NDArray[np.int32], sign: float, wiring: Wiring, places: Places) -> None:
    """Marks the routes of some nets."""
    for net in nets:
        _note_lines(net, wiring, places)
    route(
        nets,
        sign,
        wiring.net_start,
        wiring.net_pins,
        wiring.units,
        places.cells,
        places.marks_rows,
        places.marks_columns,
        places.stamps,
        places.distinct,
    )


@compiled_part
def measure(nets: NDArray[np.int32], wiring: Wiring, terms: CostRules, places: Places) -> None:
    """Brings the lengths of some nets up to date."""
    for net in nets:
        share = net_length(
            net,
            wiring.net_start,
            wiring.net_pins,
            wiring.weight,
            places.x,
            places.y,
            places.placed,
            terms.half_perimeter,
        )
        units = rounded(share * terms.length_unit)
        places.length[0] += units - places.lengths[net]
        places.lengths[net] = units


@compiled_part
def _note_lines(net: int, wiring: Wiring, places: Places) -> None:
    """Notes the rows and columns in which `route` may mark something for a net."""
    first, after = wiring.net_start[net], wiring.net_start[net + 1]
    low_row = low_column = NOWHERE
    high_row = high_column = 0
    for i in range(first, after):
        cell = places.cells[wiring.net_pins[i]]
        if cell == SKIPPED:
            return
        row, column = unpacked(cell)
        row, column = max(row, 0), max(column, 0)
        low_row, high_row = min(low_row, row), max(high_row, row)
        low_column, high_column = min(low_column, column), max(high_column, column)
    if low_row == high_row and low_column == high_column:
        return
    if after - first == 2:
        row, _ = unpacked(places.cells[wiring.net_pins[first]])
        _, column = unpacked(places.cells[wiring.net_pins[first + 1]])
        widen(places.row_span, max(row, 0), low_column, high_column)
        widen(places.column_span, max(column, 0), low_row, high_row)
        return
    for i in range(first, after):
        row, column = unpacked(places.cells[wiring.net_pins[i]])
        widen(places.row_span, max(row, 0), low_column, high_column)
        widen(places.column_span, max(column, 0), low_row, high_row)


@compiled_part
def settle(wiring: Wiring, terms: CostRules, places: Places) -> None:
    """Turns marked routes into changes of the congestion map, which is smoothed."""
    columns, rows, reach = terms.columns, terms.rows, terms.smooth_range
    vertical = columns * rows  # where the vertical map starts
    for row in range(rows):
        start, end = places.row_span[row, 0], places.row_span[row, 1]
        first, last = max(0, row - reach), min(rows - 1, row + reach)
        running = 0.0
        for column in range(start, end + 1):
            running += places.marks_rows[row, column]
            places.marks_rows[row, column] = 0.0
            if running != 0.0:
                before = places.usage_rows[row, column]
                places.usage_rows[row, column] = before + running
                share = wiring.spread_rows[row]
                change = rounded((before + running) * share) - rounded(before * share)
                for at in range(column * rows + first, column * rows + last + 1):
                    places.value_change[at] += change
                widen(places.horizontal_span, column, first, last)
    for column in range(columns):
        start, end = places.column_span[column, 0], places.column_span[column, 1]
        first, last = max(0, column - reach), min(columns - 1, column + reach)
        running = 0.0
        for row in range(start, end + 1):
            running += places.marks_columns[row, column]
            places.marks_columns[row, column] = 0.0
            if running != 0.0:
                before = places.usage_columns[row, column]
                places.usage_columns[row, column] = before + running
                share = wiring.spread_columns[column]
                change = rounded((before + running) * share) - rounded(before * share)
                for at in range(vertical + row * columns + first, vertical + row * columns + last + 1):
                    places.value_change[at] += change
                widen(places.vertical_span, row, first, last)
    clear(places.row_span)
    clear(places.column_span)


@compiled_part
def write_lines(start: int, size: int, span: Ints, places: Places, congestion: TopSum) -> None:
    """Adds the changes of a map to its values; its lines have a size and begin at a start."""
    for line in range(span.shape[0]):
        for at in range(start + line * size + span[line, 0], start + line * size + span[line, 1] + 1):
            change = places.value_change[at]
            if change != 0:
                places.value_change[at] = 0
                add_to(congestion, at, change)
    clear(span)
