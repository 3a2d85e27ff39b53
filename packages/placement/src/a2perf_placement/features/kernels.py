"""Kernels of the placement features: the growth of wires by column and row, and sums over boxes by integral images."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.compilation import compiled_part, compiled_without_allocation
from a2perf_placement.features.design import MacroNets

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def cell_sums(values: Floats) -> Floats:
    """Returns the sums over all cells below and left of each grid corner, shape (rows + 1, columns + 1)."""
    sums = np.zeros((values.shape[0] + 1, values.shape[1] + 1))
    sums[1:, 1:] = values.cumsum(axis=0).cumsum(axis=1)
    return sums


@compiled_without_allocation
def wire_growth(
    nets: MacroNets,
    number: int,
    x: Floats,
    y: Floats,
    known: NDArray[np.uint8],
    cell_width: float,
    cell_height: float,
    columns: int,
    rows: int,
    growth: Floats,
) -> None:
    """Fills in by how much the nets of a macro grow if its centre is in a column, and in a row.

    The half-perimeter is a sum over both axes, so the growth in a cell is that of its column plus that of its row.

    Args:
        nets: of all macros.
        number: of the macro in the order of placing.
        x: centre of each node, um.
        y: centre of each node, um.
        known: 1 for nodes that are placed.
        growth: result, um, shape (2, 2, columns or rows): over all ends and over placed ends; in x and in y.
    """
    growth[:] = 0.0
    weight, own, end_start, end_node, end_offset = nets.weight, nets.own, nets.end_start, nets.end_node, nets.end_offset
    for net in range(nets.macro_start[number], nets.macro_start[number + 1]):
        for sort in range(2):
            low_x = low_y = np.inf
            high_x = high_y = -np.inf
            for end in range(end_start[net], end_start[net + 1]):
                node = end_node[end]
                if sort == 1 and not known[node]:
                    continue
                low_x = min(low_x, x[node] + end_offset[end, 0])
                high_x = max(high_x, x[node] + end_offset[end, 0])
                low_y = min(low_y, y[node] + end_offset[end, 1])
                high_y = max(high_y, y[node] + end_offset[end, 1])
            if low_x > high_x:
                continue
            for column in range(columns):
                centre = (column + 0.5) * cell_width
                grown = max(low_x - (centre + own[net, 0]), 0.0) + max(centre + own[net, 1] - high_x, 0.0)
                growth[sort, 0, column] += weight[net] * grown
            for row in range(rows):
                centre = (row + 0.5) * cell_height
                grown = max(low_y - (centre + own[net, 2]), 0.0) + max(centre + own[net, 3] - high_y, 0.0)
                growth[sort, 1, row] += weight[net] * grown


@compiled_part
def _up_to(sums: Floats, x: float, y: float) -> float:
    """Returns the sum left of and below a point in units of cells; cells are even inside, so this is exact."""
    columns, rows = sums.shape[1] - 1, sums.shape[0] - 1
    x, y = min(max(x, 0.0), float(columns)), min(max(y, 0.0), float(rows))
    column, row = min(int(x), columns - 1), min(int(y), rows - 1)
    fx, fy = x - column, y - row
    low = sums[row, column] * (1.0 - fx) + sums[row, column + 1] * fx
    high = sums[row + 1, column] * (1.0 - fx) + sums[row + 1, column + 1] * fx
    return float(low * (1.0 - fy) + high * fy)


@compiled_part
def _in_box(sums: Floats, left: float, low: float, right: float, top: float) -> float:
    """Returns the sum over a box in units of cells."""
    return float(
        _up_to(sums, right, top) - _up_to(sums, left, top) - _up_to(sums, right, low) + _up_to(sums, left, low)
    )


@compiled_without_allocation
def box_sum(sums: Floats, left: float, low: float, right: float, top: float) -> float:
    """Returns the sum over a box, given in units of cells, from an integral image."""
    return _in_box(sums, left, low, right, top)


@compiled_part
def _filled(sums: Floats, left: float, low: float, right: float, top: float) -> float:
    """Returns the filled area of a box in units of cells; what lies beyond the canvas counts as filled."""
    columns, rows = sums.shape[1] - 1, sums.shape[0] - 1
    inside = (min(right, columns) - max(left, 0.0)) * (min(top, rows) - max(low, 0.0))
    return float((right - left) * (top - low) - inside + _in_box(sums, left, low, right, top))


@compiled_without_allocation
def cell_features(
    mask: NDArray[np.int32],
    growth: Floats,
    wire_unit: float,
    net_unit: float,
    canvas: Floats,
    size: Floats,
    rims: Floats,
    filled_sums: Floats,
    density: Floats,
    soft_sums: Floats,
    crowding_sums: Floats,
    demand_sums: Floats,
    targets: Floats,
    constants: Floats,
    bound: float,
    table: NDArray[np.float32],
) -> None:
    """Fills in the features of the feasible cells, and zeros for the others.

    Args:
        mask: 1 for feasible cells, shape (cells,).
        growth: from `wire_growth`.
        wire_unit: factor on wires, 1/um.
        net_unit: factor on wires for the mean per net, 1/um.
        canvas: width and height, um.
        size: width and height of the macro, um.
        rims: widths of the near and the wide rim, and side of the mean macro, um.
        filled_sums: integral image of the density of macros, at most 1 per cell.
        soft_sums: integral image of the estimated density of soft macros.
        targets: centre (x, y) and radius of the soft disc, estimated place (x, y) of the macro, um.
        constants: columns that are equal for all cells, from "share placed" to "cell size".
        table: result, shape (cells, features).
    """
    rows, columns = soft_sums.shape[0] - 1, soft_sums.shape[1] - 1
    cell_width, cell_height = canvas[0] / columns, canvas[1] / rows
    half_width, half_height = size[0] / 2, size[1] / 2
    area = size[0] / cell_width * (size[1] / cell_height)
    least_all = least_known = np.inf
    for cell in range(mask.size):
        if mask[cell]:
            row, column = cell // columns, cell % columns
            least_all = min(least_all, growth[0, 0, column] + growth[0, 1, row])
            least_known = min(least_known, growth[1, 0, column] + growth[1, 1, row])
    for cell in range(mask.size):
        out = table[cell]
        if not mask[cell]:
            out[:] = 0.0
            continue
        row, column = cell // columns, cell % columns
        x, y = (column + 0.5) * cell_width, (row + 0.5) * cell_height
        left, right = (x - half_width) / cell_width, (x + half_width) / cell_width
        low, top = (y - half_height) / cell_height, (y + half_height) / cell_height
        wire = growth[0, 0, column] + growth[0, 1, row] - least_all
        out[0] = wire * wire_unit
        out[1] = (growth[1, 0, column] + growth[1, 1, row] - least_known) * wire_unit
        out[2] = wire * net_unit
        out[3] = _in_box(soft_sums, left, low, right, top) / area
        out[4] = _in_box(crowding_sums, left, low, right, top) / area
        dx, dy = abs(x - targets[0]), abs(y - targets[1])
        nearest = np.sqrt(max(dx - half_width, 0.0) ** 2 + max(dy - half_height, 0.0) ** 2)
        out[5] = nearest / targets[2] - 1.0
        out[6] = np.sqrt(dx * dx + dy * dy) / targets[2] - 1.0
        gap_x = min(x, canvas[0] - x) - half_width
        gap_y = min(y, canvas[1] - y) - half_height
        out[7] = 2.0 * gap_x / canvas[0]
        out[8] = 2.0 * gap_y / canvas[1]
        out[9] = min(gap_x, gap_y) / rims[2]
        for k in range(2):
            across, along = rims[k] / cell_width, rims[k] / cell_height
            outer = (right - left + 2.0 * across) * (top - low + 2.0 * along)
            full = _filled(filled_sums, left - across, low - along, right + across, top + along)
            # A feasible box is empty but for slivers thinner than the engine's tolerance.
            out[10 + k] = full / (outer - area)
            if k == 1:
                soft = _in_box(soft_sums, left - across, low - along, right + across, top + along)
                out[12] = (soft - _in_box(soft_sums, left, low, right, top)) / (outer - area)
        out[13] = 2.0 * abs(x - targets[3]) / canvas[0]
        out[14] = 2.0 * abs(y - targets[4]) / canvas[1]
        out[15] = _in_box(demand_sums[0], left, low, right, top) / area
        out[16] = _in_box(demand_sums[1], left, low, right, top) / area
        total, squares = 0.0, 0.0
        for r in range(max(int(low), 0), min(int(top), rows - 1) + 1):
            overlap_y = min(top, r + 1.0) - max(low, float(r))
            for c in range(max(int(left), 0), min(int(right), columns - 1) + 1):
                share = max(overlap_y * (min(right, c + 1.0) - max(left, float(c))), 0.0)
                total += share
                squares += share * (density[r * columns + c] + share)
        out[17] = squares / max(total, 1e-12)
        for k in range(6):
            out[18 + k] = constants[k]
        out[24] = 2.0 * x / canvas[0] - 1.0
        out[25] = 2.0 * y / canvas[1] - 1.0
        for k in range(26):
            out[k] = min(max(out[k], -bound), bound)
