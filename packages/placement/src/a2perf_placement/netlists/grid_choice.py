"""The placement grid of a design, chosen from its canvas and its hard macros alone.

The rule of the publication's grouping step: of all grids with nearly square cells, take the coarsest one that is
nearly as good as the best. A grid is good if it leaves cells empty after the macros are packed greedily, and if macros
that stand side by side at the centres of cells waste little space between them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.density import EDGE_TOLERANCE
from a2perf.domains.circuit_training.mask import CANVAS_TOLERANCE, MAX_DENSITY
from a2perf.domains.compilation import compiled_part, compiled_without_allocation

Floats = NDArray[np.float64]

MIN_LINES, MAX_LINES = 10, 127
"""Least and largest number of columns and of rows."""
MIN_CELLS, MAX_CELLS = 500, 4096
MAX_ASPECT = 1.5
"""Longest side of a cell over its shortest."""
TOLERANCE = 0.05
"""Share of the best score that a coarser grid may lose."""
_ROUNDING = 1e-12


@dataclass(frozen=True)
class GridChoice:
    """A grid and how good it is.

    Attributes:
        empty: share of the cells that the packed macros leave empty.
        waste: mean share of the width, and of the height, that macros side by side leave unused.
        packed: whether the greedy packing found a place for every macro.
    """

    columns: int
    rows: int
    empty: float
    waste: tuple[float, float]
    packed: bool

    @property
    def score(self) -> float:
        """Sum of the empty share and the used shares of width and height, 0..3."""
        return self.empty + (1.0 - self.waste[0]) + (1.0 - self.waste[1])


def choose_grid(canvas: tuple[float, float], macros: Floats) -> GridChoice:
    """Returns the grid of a design; the same input gives the same grid.

    Args:
        canvas: width and height, um.
        macros: width and height of each hard macro as it lies, um, shape (n, 2).

    Returns:
        The coarsest grid, relative to its score, with a score within 5 % of the best. If no grid takes all macros,
        the packing does not count.
    """
    order = np.lexsort((macros[:, 1], macros[:, 0], -macros.prod(axis=1)))
    macros = np.ascontiguousarray(macros[order])
    candidates = sorted(_candidates(canvas, macros), key=lambda grid: -grid.score)
    scored: list[GridChoice] = []
    best = 0.0
    for grid in candidates:
        # The score so far assumes the least area that the macros can cover: no later grid can come within reach.
        if scored and grid.score < best * (1.0 - TOLERANCE):
            break
        packed = _packed(canvas, macros, grid)
        if packed is not None:
            scored.append(packed)
            best = max(best, packed.score)
    if not scored:
        scored, best = candidates, candidates[0].score
    near = [grid for grid in scored if grid.score >= best * (1.0 - TOLERANCE)]
    return max(near, key=lambda grid: (grid.score / (grid.columns * grid.rows), grid.columns))


def _candidates(canvas: tuple[float, float], macros: Floats) -> list[GridChoice]:
    """Returns all grids in the limits, with an upper bound of their empty share."""
    covered = float(macros.prod(axis=1).sum()) / (canvas[0] * canvas[1] * MAX_DENSITY)
    lines = np.arange(MIN_LINES, MAX_LINES + 1)
    wastes = [_waste(macros[:, axis], canvas[axis] / lines) for axis in (0, 1)]
    found: list[GridChoice] = []
    aspect = MAX_ASPECT
    while not found:
        for i, columns in enumerate(lines.tolist()):
            for j, rows in enumerate(lines.tolist()):
                width, height = canvas[0] / columns, canvas[1] / rows
                if MIN_CELLS <= columns * rows <= MAX_CELLS and max(width, height) <= aspect * min(width, height):
                    waste = (float(wastes[0][i]), float(wastes[1][j]))
                    found.append(GridChoice(columns, rows, max(0.0, 1.0 - covered), waste, False))
        aspect *= 2.0  # a very long canvas has no grid of nearly square cells
    return found


def _waste(sizes: Floats, cell: Floats) -> Floats:
    """Returns the mean share that macros waste, for each size of a cell.

    Centres of cells are whole cells apart, so neighbours of equal size are too.
    """
    spans = sizes[:, None] / cell[None, :]
    wasted: Floats = (1.0 - spans / np.ceil(spans - _ROUNDING)).mean(axis=0)
    return wasted


def _packed(canvas: tuple[float, float], macros: Floats, grid: GridChoice) -> GridChoice | None:
    """Returns the grid with its empty share after packing; None if a macro finds no cell."""
    density = np.zeros(grid.columns * grid.rows)
    owner = np.full(grid.columns * grid.rows, -1, np.int32)
    centres = np.empty_like(macros)
    if not _pack(canvas[0], canvas[1], grid.columns, grid.rows, macros, density, owner, centres):
        return None
    return replace(grid, empty=float((density == 0.0).mean()), packed=True)


@compiled_part
def _meet(x: float, y: float, width: float, height: float, centres: Floats, macros: Floats, j: int) -> bool:
    near: bool = abs(x - centres[j, 0]) < (width + macros[j, 0]) / 2
    return near and abs(y - centres[j, 1]) < (height + macros[j, 1]) / 2


@compiled_without_allocation
def _pack(
    canvas_width: float,
    canvas_height: float,
    columns: int,
    rows: int,
    macros: Floats,
    density: Floats,
    owner: NDArray[np.int32],
    centres: Floats,
) -> bool:
    """Puts each macro onto the first cell that the mask would allow without spacing; returns whether all found one."""
    cell_width, cell_height = canvas_width / columns, canvas_height / rows
    area = cell_width * cell_height
    start = 0
    for i in range(macros.shape[0]):
        width, height = macros[i, 0], macros[i, 1]
        # Cells only fill up: an equal macro cannot fit where the last one did not.
        if i > 0 and (macros[i - 1, 0] != width or macros[i - 1, 1] != height):
            start = 0
        found = False
        cell = start
        while cell < columns * rows and not found:
            x, y = (cell % columns + 0.5) * cell_width, (cell // columns + 0.5) * cell_height
            low_x, high_x, low_y, high_y = x - width / 2, x + width / 2, y - height / 2, y + height / 2
            step = 1
            free = low_x >= -CANVAS_TOLERANCE and high_x <= canvas_width + CANVAS_TOLERANCE
            free = free and low_y >= -CANVAS_TOLERANCE and high_y <= canvas_height + CANVAS_TOLERANCE
            first_column = max(int((low_x + EDGE_TOLERANCE) / cell_width), 0)
            last_column = min(int((high_x - EDGE_TOLERANCE) / cell_width), columns - 1)
            first_row = max(int((low_y + EDGE_TOLERANCE) / cell_height), 0)
            last_row = min(int((high_y - EDGE_TOLERANCE) / cell_height), rows - 1)
            # Backwards: the macro in the way that lies furthest to the right allows the longest step.
            for column in range(last_column, first_column - 1, -1):
                overlap = (min(high_x, (column + 1) * cell_width) - max(low_x, column * cell_width)) / area
                for row in range(first_row if free else rows, last_row + 1):
                    share = min(high_y, (row + 1) * cell_height) - max(low_y, row * cell_height)
                    here = row * columns + column
                    j = owner[here]
                    if j >= 0 and _meet(x, y, width, height, centres, macros, j):
                        # On this row the macro stays in the way until its right edge is passed.
                        beyond = int((centres[j, 0] + (macros[j, 0] + width) / 2) / cell_width - 0.5)
                        step = max(1, min(beyond, columns) - cell % columns)
                        free = False
                    elif density[here] + overlap * share > MAX_DENSITY:
                        free = False
                    if not free:
                        break
                if not free:
                    break
            for j in range(i if free else 0):
                if _meet(x, y, width, height, centres, macros, j):
                    free = False
                    break
            if not free:
                cell += step
                continue
            for column in range(first_column, last_column + 1):
                overlap = (min(high_x, (column + 1) * cell_width) - max(low_x, column * cell_width)) / area
                for row in range(first_row, last_row + 1):
                    share = min(high_y, (row + 1) * cell_height) - max(low_y, row * cell_height)
                    density[row * columns + column] += overlap * share
                    owner[row * columns + column] = i
            centres[i, 0], centres[i, 1] = x, y
            start = cell
            found = True
        if not found:
            return False
    return True
