"""The part of nodes in the incremental evaluation: the density of what they cover, and the tracks that macros take.

The rules are those of ``density`` and ``congestion``, with the conventions of a profile.
"""

from __future__ import annotations

from a2perf.domains.circuit_training.engine.congestion import is_partial
from a2perf.domains.compilation import compiled_part
from a2perf_placement.incremental.state import STANDARD_CELL, CostRules, Places, Wiring, rounded, widen
from a2perf_placement.incremental.top_sum import TopSum, add_to


@compiled_part
def add_box(box: tuple[float, float, float, float], rate: float, sign: int, terms: CostRules, density: TopSum) -> None:
    """Adds a box (low x, low y, high x, high y) to the density of the cells that it overlaps, or takes it out."""
    low_x, low_y, high_x, high_y = box
    width, height, edge = terms.density_cell_width, terms.density_cell_height, terms.conventions.density_tolerance
    area = width * height
    first_column = max(int((low_x + edge) / width), 0)
    last_column = min(int((high_x - edge) / width), terms.density_columns - 1)
    first_row = max(int((low_y + edge) / height), 0)
    last_row = min(int((high_y - edge) / height), terms.density_rows - 1)
    for row in range(first_row, last_row + 1):
        overlap_y = min(high_y, (row + 1) * height) - max(low_y, row * height)
        if overlap_y <= 0:
            continue
        for column in range(first_column, last_column + 1):
            overlap_x = min(high_x, (column + 1) * width) - max(low_x, column * width)
            if overlap_x > 0:
                share = rounded(rate * (overlap_x * overlap_y / area) * terms.density_unit)
                add_to(density, row * terms.density_columns + column, sign * share)


@compiled_part
def add_node(node: int, sign: int, wiring: Wiring, terms: CostRules, places: Places, density: TopSum) -> None:
    """Adds a placed node to the density, or takes it out."""
    x, y, width, height = places.x[node], places.y[node], places.box_width[node], places.box_height[node]
    if wiring.kind[node] == STANDARD_CELL:
        column, row = int(x / terms.density_cell_width), int(y / terms.density_cell_height)
        if 0 <= column < terms.density_columns and 0 <= row < terms.density_rows:
            share = width * height / (terms.density_cell_width * terms.density_cell_height)
            add_to(density, row * terms.density_columns + column, sign * rounded(share * terms.density_unit))
    else:
        add_box((x - width / 2, y - height / 2, x + width / 2, y + height / 2), 1.0, sign, terms, density)


@compiled_part
def add_blockage(node: int, sign: int, terms: CostRules, places: Places) -> None:
    """Adds the tracks that a hard macro takes to the changes of the congestion map, or takes them out."""
    width, height, columns, rows = terms.cell_width, terms.cell_height, terms.columns, terms.rows
    low_x, high_x = places.x[node] - places.box_width[node] / 2, places.x[node] + places.box_width[node] / 2
    low_y, high_y = places.y[node] - places.box_height[node] / 2, places.y[node] + places.box_height[node] / 2
    true_column, true_row = int(high_x / width), int(high_y / height)
    if true_column < 0 or true_row < 0:
        return
    first_column, last_column = max(int(low_x / width), 0), min(true_column, columns - 1)
    first_row, last_row = max(int(low_y / height), 0), min(true_row, rows - 1)
    if first_column > last_column or first_row > last_row:
        return
    if not terms.conventions.beyond_is_partial:
        true_column, true_row = last_column, last_row
    edge = terms.conventions.line_tolerance
    spare_column = is_partial(first_column, last_column, true_column, low_x, high_x, width, edge)
    spare_row = is_partial(first_row, last_row, true_row, low_y, high_y, height, edge)
    for row in range(first_row, last_row + 1):
        overlap_y = min(high_y, (row + 1) * height) - max(low_y, row * height)
        horizontal = sign * rounded(overlap_y * terms.horizontal_share * terms.congestion_unit)
        for column in range(first_column, last_column + 1):
            overlap_x = min(high_x, (column + 1) * width) - max(low_x, column * width)
            if terms.conventions.overlaps_only and (overlap_x <= 0 or overlap_y <= 0):
                continue
            if not (spare_column and column == last_column):
                places.value_change[column * rows + row] += horizontal
            if not (spare_row and row == last_row):
                share = rounded(overlap_x * terms.vertical_share * terms.congestion_unit)
                places.value_change[columns * rows + row * columns + column] += sign * share
        widen(places.vertical_span, row, first_column, last_column)
    for column in range(first_column, last_column + 1):
        widen(places.horizontal_span, column, first_row, last_row)
