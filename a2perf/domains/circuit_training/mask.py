"""Feasible grid cells of an unplaced node: inside the canvas, without overlap, with spacing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.density import EDGE_TOLERANCE
from a2perf.domains.compilation import compiled_part, compiled_without_allocation

Floats = NDArray[np.float64]

CANVAS_TOLERANCE = 1e-3  # um
MAX_DENSITY = 1.001
MAX_DENSITY_FOR_STANDARD_CELL = 0.9


@compiled_part
def _span(low: float, high: float, size: float, count: int) -> tuple[int, int]:
    """Returns the first and the last line of cells that an interval touches."""
    # Shrunk as in the density map: both must agree on the cells that a macro covers.
    return max(int((low + EDGE_TOLERANCE) / size), 0), min(int((high - EDGE_TOLERANCE) / size), count - 1)


@compiled_without_allocation
def macro_mask(
    width: float,
    height: float,
    is_hard: bool,
    spacing_x: float,
    spacing_y: float,
    canvas_width: float,
    canvas_height: float,
    columns: int,
    rows: int,
    density: Floats,
    hard: NDArray[np.int64],
    x: Floats,
    y: Floats,
    box_width: Floats,
    box_height: Floats,
    placed: NDArray[np.uint8],
    blockages: Floats,
    mask: NDArray[np.int32],
) -> None:
    """Writes 1 for each cell where the macro may be centred, 0 for the others.

    Args:
        width, height: of the macro as it lies, um.
        is_hard: hard macros keep the spacing and stay off blockages.
        spacing_x, spacing_y: wanted distances between hard macros, um; half of it also to the canvas's edge.
        density: of each cell, shape (rows * columns,).
        x, y: centre of each node, um.
        box_width, box_height: of each node as it lies, um.
        blockages: shape (n, 5): low x, low y, high x, high y (um), rate.
        mask: result, shape (rows * columns,).
    """
    cell_width, cell_height = canvas_width / columns, canvas_height / rows
    area = cell_width * cell_height
    halo_x = spacing_x / 2 if is_hard else 0.0
    halo_y = spacing_y / 2 if is_hard else 0.0
    half_width, half_height = width / 2, height / 2
    for row in range(rows):
        # The same expression as in place_node: the mask judges exactly the position that the macro would get.
        low_y = (row + 0.5) * cell_height - half_height
        high_y = (row + 0.5) * cell_height + half_height
        fits_y = low_y - halo_y >= -CANVAS_TOLERANCE and high_y + halo_y <= canvas_height + CANVAS_TOLERANCE
        first_row, last_row = _span(low_y, high_y, cell_height, rows)
        for column in range(columns):
            cell = row * columns + column
            mask[cell] = 0
            if not fits_y:
                continue
            low_x = (column + 0.5) * cell_width - half_width
            high_x = (column + 0.5) * cell_width + half_width
            if low_x - halo_x < -CANVAS_TOLERANCE or high_x + halo_x > canvas_width + CANVAS_TOLERANCE:
                continue
            first_column, last_column = _span(low_x, high_x, cell_width, columns)
            free = True
            for r in range(first_row, last_row + 1):
                overlap_y = min(high_y, (r + 1) * cell_height) - max(low_y, r * cell_height)
                for c in range(first_column, last_column + 1):
                    overlap_x = min(high_x, (c + 1) * cell_width) - max(low_x, c * cell_width)
                    if density[r * columns + c] + overlap_x * overlap_y / area > MAX_DENSITY:
                        free = False
                        break
                if not free:
                    break
            mask[cell] = 1 if free else 0
    for i in range(hard.size + blockages.shape[0] if is_hard else 0):
        is_macro = i < hard.size
        if is_macro:
            other = hard[i]
            if not placed[other]:
                continue
            # Half of the spacing here, the other half around the macro itself in _forbid.
            low_x = x[other] - box_width[other] / 2 - halo_x
            high_x = x[other] + box_width[other] / 2 + halo_x
            low_y = y[other] - box_height[other] / 2 - halo_y
            high_y = y[other] + box_height[other] / 2 + halo_y
        else:
            low_x, low_y = blockages[i - hard.size, 0], blockages[i - hard.size, 1]
            high_x, high_y = blockages[i - hard.size, 2], blockages[i - hard.size, 3]
        halo = (halo_x, halo_y) if is_macro else (0.0, 0.0)
        box, half, cell_size = (low_x, low_y, high_x, high_y), (half_width, half_height), (cell_width, cell_height)
        _forbid(box, is_macro, half, halo, cell_size, columns, rows, mask)


@compiled_part
def _forbid(
    box: tuple[float, float, float, float],
    is_macro: bool,
    half: tuple[float, float],
    halo: tuple[float, float],
    cell_size: tuple[float, float],
    columns: int,
    rows: int,
    mask: NDArray[np.int32],
) -> None:
    """Clears the cells where the macro, with its halo, would overlap a box.

    For the box of another macro, only those where the macro without its halo touches one of that box's cells.
    """
    low_x, low_y, high_x, high_y = box
    half_width, half_height = half
    halo_x, halo_y = halo
    cell_width, cell_height = cell_size
    other_first_column, other_last_column = _span(low_x, high_x, cell_width, columns)
    other_first_row, other_last_row = _span(low_y, high_y, cell_height, rows)
    # Too wide by a cell on each side: rounding must not lose one, and the comparisons in the loops decide.
    first_column = max(int((low_x - half_width - halo_x) / cell_width) - 1, 0)
    last_column = min(int((high_x + half_width + halo_x) / cell_width) + 1, columns - 1)
    first_row = max(int((low_y - half_height - halo_y) / cell_height) - 1, 0)
    last_row = min(int((high_y + half_height + halo_y) / cell_height) + 1, rows - 1)
    for row in range(first_row, last_row + 1):
        own_low_y = (row + 0.5) * cell_height - half_height
        own_high_y = (row + 0.5) * cell_height + half_height
        if own_low_y - halo_y >= high_y or own_high_y + halo_y <= low_y:
            continue
        own_first, own_last = _span(own_low_y, own_high_y, cell_height, rows)
        if is_macro and (own_first > other_last_row or own_last < other_first_row):
            continue
        for column in range(first_column, last_column + 1):
            own_low_x = (column + 0.5) * cell_width - half_width
            own_high_x = (column + 0.5) * cell_width + half_width
            if own_low_x - halo_x >= high_x or own_high_x + halo_x <= low_x:
                continue
            own_first, own_last = _span(own_low_x, own_high_x, cell_width, columns)
            if not is_macro or (own_first <= other_last_column and own_last >= other_first_column):
                mask[row * columns + column] = 0


def standard_cell_mask(density: Floats) -> NDArray[np.int32]:
    """Returns the feasible cells of a standard cell: those that are not nearly full."""
    return (density < MAX_DENSITY_FOR_STANDARD_CELL).astype(np.int32)


def port_mask(side: str, columns: int, rows: int) -> NDArray[np.int32]:
    """Returns the feasible cells of a port: its side of the canvas, or the whole border if it has no side."""
    mask = np.zeros((rows, columns), dtype=np.int32)
    if side in ("LEFT", ""):
        mask[:, 0] = 1
    if side in ("RIGHT", ""):
        mask[:, -1] = 1
    if side in ("BOTTOM", ""):
        mask[0] = 1
    if side in ("TOP", ""):
        mask[-1] = 1
    return mask.reshape(-1)
