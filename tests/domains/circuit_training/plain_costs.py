"""The costs once more, written straight from their definitions: slow, short, and without a line in common.

They are what the compiled kernels are checked against where no recorded value exists, and the yardstick of their speed.
All functions take a `Placement` and return what the engine's function of that name returns.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.placement import Placement
from a2perf.domains.circuit_training.netlists.netlist import KIND_MACRO, KIND_STDCELL

Floats = NDArray[np.float64]


def mean_of_top(values: Floats, share: float) -> float:
    """Returns the mean of the largest share of the values, at least of one."""
    count = max(1, int(len(values) * share + 1e-9))
    return float(np.sort(values)[::-1][:count].mean())


def wirelength(state: Placement, canvas: tuple[float, float]) -> float:
    """Returns the weighted half-perimeter wirelength, um."""
    netlist, total = state.netlist, 0.0
    for first, after in zip(netlist.net_start[:-1], netlist.net_start[1:], strict=True):
        pins = netlist.net_pins[first:after]
        weight = netlist.weight[pins[0]]
        if not state.placed[pins[0]]:
            total += sum(canvas)
        elif not state.placed[pins].all():
            total += weight * sum(canvas)
        else:
            total += weight * (np.ptp(state.x[pins]) + np.ptp(state.y[pins]))
    return float(total)


def density_map(
    state: Placement, canvas: tuple[float, float], grid: tuple[int, int], blockages: Floats | None = None
) -> Floats:
    """Returns the density of each cell, shape (rows * columns,)."""
    columns, rows = grid
    left = np.arange(columns) * canvas[0] / columns
    low = np.arange(rows) * canvas[1] / rows
    width, height = canvas[0] / columns, canvas[1] / rows

    def overlaps(start: float, end: float, starts: Floats, size: float) -> Floats:
        touched = (starts + size > start + 1e-3) & (starts < end - 1e-3)
        return np.where(touched, np.minimum(end, starts + size) - np.maximum(start, starts), 0.0).clip(0)

    total = np.zeros((rows, columns))
    boxes = [(*box, 1.0) for box in state.boxes(state.macros[state.placed[state.macros] == 1])]
    for low_x, low_y, high_x, high_y, rate in [*boxes, *(blockages if blockages is not None else [])]:
        total += rate * np.outer(overlaps(low_y, high_y, low, height), overlaps(low_x, high_x, left, width))
    for cell in np.flatnonzero((state.netlist.kind == KIND_STDCELL) & (state.placed == 1)):
        column, row = int(state.x[cell] / width), int(state.y[cell] / height)
        if 0 <= column < columns and 0 <= row < rows:
            total[row, column] += state.width[cell] * state.height[cell]
    return (total / (width * height)).ravel()


def _tree(cells: list[tuple[int, int]]) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    """Returns the runs (row; columns from, to) and (column; rows from, to) that connect cells (row, column)."""
    if len(cells) == 3:
        (x1, y1), (x2, y2), (x3, y3) = sorted((column, row) for row, column in cells)
        if x1 < x2 < x3 and min(y1, y3) < y2 < max(y1, y3):
            return [(y1, x1, x2), (y2, x2, x3)], [(x2, y1, y2), (x3, y2, y3)]
        if x2 == x3 and x1 < x2 and y1 < min(y2, y3):
            return [(y1, x1, x2)], [(x2, y1, max(y2, y3))]
        if y2 == y3:
            return [(y1, x1, x2), (y2, x2, x3)], [(x2, y1, y2)]
        (y1, x1), (y2, x2), (y3, x3) = sorted(cells)
        return [(y2, min(x1, x2, x3), max(x1, x2, x3))], [(x1, y1, y2), (x3, y2, y3)]
    source_row, source_column = cells[0]
    rows = [(source_row, source_column, column) for _, column in cells[1:]]
    columns = [(column, source_row, row) for row, column in cells[1:]]
    return rows, columns


def net_usage(state: Placement, canvas: tuple[float, float], grid: tuple[int, int]) -> tuple[Floats, Floats]:
    """Returns the weights of the nets that cross each cell, horizontally and vertically, shape (rows, columns)."""
    netlist, (columns, rows) = state.netlist, grid
    horizontal, vertical = np.zeros((rows, columns)), np.zeros((rows, columns))
    for first, after in zip(netlist.net_start[:-1], netlist.net_start[1:], strict=True):
        pins = netlist.net_pins[first:after]
        cells = list(
            dict.fromkeys(
                (int(state.y[pin] / (canvas[1] / rows)), int(state.x[pin] / (canvas[0] / columns))) for pin in pins
            )
        )
        if not state.placed[pins].all() or any(row >= rows or column >= columns for row, column in cells):
            continue
        along_rows, along_columns = _tree(cells)
        for row, one, other in along_rows:
            horizontal[max(row, 0), max(min(one, other), 0) : max(one, other, 0)] += netlist.weight[pins[0]]
        for column, one, other in along_columns:
            vertical[max(min(one, other), 0) : max(one, other, 0), max(column, 0)] += netlist.weight[pins[0]]
    return horizontal, vertical


def smoothed(usage: Floats, reach: int) -> Floats:
    """Spreads each value evenly over the cells up to ``reach`` away along the last axis that exist."""
    result, length = np.zeros_like(usage), usage.shape[1]
    for column in range(length):
        near = slice(max(0, column - reach), min(length, column + reach + 1))
        result[:, near] += usage[:, column : column + 1] / (near.stop - near.start)
    return result


def macro_usage(
    state: Placement, canvas: tuple[float, float], grid: tuple[int, int], allocation: tuple[float, float]
) -> tuple[Floats, Floats]:
    """Returns the tracks that hard macros take in each cell, horizontally and vertically, shape (rows, columns)."""
    columns, rows = grid
    width, height = canvas[0] / columns, canvas[1] / rows
    horizontal, vertical = np.zeros((rows, columns)), np.zeros((rows, columns))
    for low_x, low_y, high_x, high_y in state.boxes(state.hard[state.placed[state.hard] == 1]):
        c0, c1, r0, r1 = int(low_x / width), int(high_x / width), int(low_y / height), int(high_y / height)
        if c1 < 0 or r1 < 0:
            continue
        column_range = range(max(c0, 0), min(c1, columns - 1) + 1)
        row_range = range(max(r0, 0), min(r1, rows - 1) + 1)
        over_x = {c: min(high_x, (c + 1) * width) - max(low_x, c * width) for c in column_range}
        over_y = {r: min(high_y, (r + 1) * height) - max(low_y, r * height) for r in row_range}
        for row, column in product(row_range, column_range):
            vertical[row, column] += over_x[column] * allocation[1]
            horizontal[row, column] += over_y[row] * allocation[0]
        if len(column_range) > 1:
            last = column_range[-1]
            if over_x[column_range[0]] != width or c1 != last or over_x[last] != width:
                for row in row_range:
                    horizontal[row, last] -= over_y[row] * allocation[0]
        if len(row_range) > 1:
            last = row_range[-1]
            if over_y[row_range[0]] != height or r1 != last or over_y[last] != height:
                for column in column_range:
                    vertical[last, column] -= over_x[column] * allocation[1]
    return horizontal, vertical


def congestion_maps(
    state: Placement,
    canvas: tuple[float, float],
    grid: tuple[int, int],
    routes: tuple[float, float],
    allocation: tuple[float, float],
    reach: int,
) -> tuple[Floats, Floats]:
    """Returns the horizontal and the vertical congestion of each cell, shape (rows, columns)."""
    capacity = canvas[1] / grid[1] * routes[0], canvas[0] / grid[0] * routes[1]
    horizontal, vertical = net_usage(state, canvas, grid)
    macro_horizontal, macro_vertical = macro_usage(state, canvas, grid, allocation)
    horizontal = smoothed(horizontal.T / capacity[0], reach).T + macro_horizontal / capacity[0]
    return horizontal, smoothed(vertical / capacity[1], reach) + macro_vertical / capacity[1]


def mask(
    state: Placement,
    node: int,
    canvas: tuple[float, float],
    grid: tuple[int, int],
    spacing: tuple[float, float],
    blockages: Floats,
) -> NDArray[np.int32]:
    """Returns where an unplaced macro may go, shape (rows * columns,)."""
    columns, rows = grid
    width, height = canvas[0] / columns, canvas[1] / rows
    half_x, half_y = state.box_width[node] / 2, state.box_height[node] / 2
    is_hard = state.netlist.soft[node] == 0
    halo_x, halo_y = (spacing[0] / 2, spacing[1] / 2) if is_hard else (0.0, 0.0)
    density = density_map(state, canvas, grid, blockages)
    others = state.hard[(state.placed[state.hard] == 1) & (state.netlist.kind[state.hard] == KIND_MACRO)]
    result = np.zeros(columns * rows, dtype=np.int32)

    def span(low: float, high: float, size: float, count: int) -> tuple[int, int]:
        return max(int((low + 1e-3) / size), 0), min(int((high - 1e-3) / size), count - 1)

    for cell in range(columns * rows):
        x, y = (cell % columns + 0.5) * width, (cell // columns + 0.5) * height
        box = (x - half_x, y - half_y, x + half_x, y + half_y)
        if box[0] - halo_x < -1e-3 or box[1] - halo_y < -1e-3:
            continue
        if box[2] + halo_x > canvas[0] + 1e-3 or box[3] + halo_y > canvas[1] + 1e-3:
            continue
        c0, c1 = span(box[0], box[2], width, columns)
        r0, r1 = span(box[1], box[3], height, rows)
        free = True
        for row, column in product(range(r0, r1 + 1), range(c0, c1 + 1)):
            over_x = min(box[2], (column + 1) * width) - max(box[0], column * width)
            over_y = min(box[3], (row + 1) * height) - max(box[1], row * height)
            free &= bool(density[row * columns + column] + over_x * over_y / (width * height) <= 1.001)
        for low_x, low_y, high_x, high_y in state.boxes(others) if is_hard else ():
            near = (low_x - halo_x, low_y - halo_y, high_x + halo_x, high_y + halo_y)
            apart = box[0] - halo_x >= near[2] or box[2] + halo_x <= near[0]
            apart |= box[1] - halo_y >= near[3] or box[3] + halo_y <= near[1]
            d0, d1 = span(near[0], near[2], width, columns)
            q0, q1 = span(near[1], near[3], height, rows)
            free &= bool(apart or c0 > d1 or c1 < d0 or r0 > q1 or r1 < q0)
        for low_x, low_y, high_x, high_y, _ in blockages if is_hard else ():
            free &= bool(box[0] >= high_x or box[2] <= low_x or box[1] >= high_y or box[3] <= low_y)
        result[cell] = free
    return result
