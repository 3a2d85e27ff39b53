"""Placement density: the share of each grid cell that macros, standard cells and blockages cover.

The cost is half the mean density of the fullest tenth of the cells.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.placement import Placement
from a2perf.domains.compilation import compiled_without_allocation

Floats = NDArray[np.float64]

EDGE_TOLERANCE = 1e-3  # um; a thinner overlap with a cell does not count
_BINS = 1024
_STEEPEST = 1e300  # bins per unit of density


def mean_of_largest(values: Floats, count: int) -> float:
    """Returns the mean of the ``count`` largest values, without sorting them."""
    # Copied because the kernel overwrites its input, and the maps are kept and updated.
    return float(_mean_of_largest(values.copy(), count, np.empty(_BINS + 1, dtype=np.int64)))


@compiled_without_allocation
def _mean_of_largest(rest: Floats, missing: int, bins: NDArray[np.int64]) -> float:
    """Sorts values into bins, adds up the full ones and continues inside the bin that contains the limit.

    Args:
        bins: scratch, shape (bins + 1,).
    """
    count, size = missing, rest.size
    total = 0.0
    while missing > 0:
        low = high = rest[0]
        for i in range(size):
            low = min(low, rest[i])
            high = max(high, rest[i])
        limit = min(_BINS, size)
        scale = limit / (high - low)
        if not scale < _STEEPEST:  # all equal, or too near to each other to tell apart
            return float((total + missing * high) / count)
        for i in range(limit + 1):
            bins[i] = 0
        for i in range(size):
            bins[int((rest[i] - low) * scale)] += 1
        while bins[limit] <= missing and limit > 0:
            missing -= bins[limit]
            limit -= 1
        kept = 0
        for i in range(size):
            at = int((rest[i] - low) * scale)  # the same expression as above: each value must get the same bin again
            if at > limit:
                total += rest[i]
            elif at == limit:
                rest[kept] = rest[i]
                kept += 1
        size = kept
    return total / count


@compiled_without_allocation
def add_box(
    low_x: float,
    low_y: float,
    high_x: float,
    high_y: float,
    rate: float,
    cell_width: float,
    cell_height: float,
    columns: int,
    rows: int,
    density: Floats,
) -> None:
    """Adds a box to the cells that it overlaps."""
    first_column = max(int((low_x + EDGE_TOLERANCE) / cell_width), 0)
    last_column = min(int((high_x - EDGE_TOLERANCE) / cell_width), columns - 1)
    first_row = max(int((low_y + EDGE_TOLERANCE) / cell_height), 0)
    last_row = min(int((high_y - EDGE_TOLERANCE) / cell_height), rows - 1)
    area = cell_width * cell_height
    for row in range(first_row, last_row + 1):
        overlap_y = min(high_y, (row + 1) * cell_height) - max(low_y, row * cell_height)
        # int() truncates towards zero, so a box just outside the canvas also reaches its first row.
        if overlap_y <= 0:
            continue
        for column in range(first_column, last_column + 1):
            overlap_x = min(high_x, (column + 1) * cell_width) - max(low_x, column * cell_width)
            if overlap_x > 0:
                density[row * columns + column] += rate * (overlap_x * overlap_y / area)


@compiled_without_allocation
def add_nodes(
    nodes: NDArray[np.int64],
    is_cell: bool,
    x: Floats,
    y: Floats,
    width: Floats,
    height: Floats,
    placed: NDArray[np.uint8],
    cell_width: float,
    cell_height: float,
    columns: int,
    rows: int,
    density: Floats,
) -> None:
    """Adds nodes that are placed; a standard cell counts completely in the grid cell of its centre."""
    for node in nodes:
        if not placed[node]:
            continue
        if is_cell:
            column = int(x[node] / cell_width)
            row = int(y[node] / cell_height)
            if 0 <= column < columns and 0 <= row < rows:
                density[row * columns + column] += width[node] * height[node] / (cell_width * cell_height)
        else:
            half_width, half_height = width[node] / 2, height[node] / 2
            add_box(
                x[node] - half_width,
                y[node] - half_height,
                x[node] + half_width,
                y[node] + half_height,
                1.0,
                cell_width,
                cell_height,
                columns,
                rows,
                density,
            )


class Density:
    """The density map of a placement, kept up to date."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._map = np.zeros(0)
        self._version = -1
        self._present = np.zeros(placement.netlist.num_nodes, dtype=np.uint8)  # what the map contains
        self._grid: tuple[float, float, int, int] = (0.0, 0.0, 0, 0)
        self._one = np.zeros(1, dtype=np.int64)

    def forget(self) -> None:
        """Discards the map because the blockages changed."""
        self._version = -1

    def map(self, canvas: tuple[float, float], grid: tuple[int, int], blockages: Floats) -> Floats:
        """Returns the density of each cell, row by row from below; a live array.

        Args:
            blockages: low x, low y, high x, high y (um) and rate of each, shape (n, 5).
        """
        placement = self._placement
        columns, rows = grid
        cell = (canvas[0] / columns, canvas[1] / rows, columns, rows)
        changed = placement.changed_since(self._version)
        if cell != self._grid:
            changed = None
        if changed is not None and not changed:
            return self._map
        arrays = (placement.x, placement.y, placement.box_width, placement.box_height, placement.placed)
        added = [] if changed is None else list(dict.fromkeys(changed))
        # Only new nodes can be added to the map: subtracting a moved node would leave a rounding residue.
        if changed is None or len(added) > 8 or self._present[added].any():
            self._map = np.zeros(columns * rows)
            for low_x, low_y, high_x, high_y, rate in blockages:
                add_box(low_x, low_y, high_x, high_y, rate, *cell, self._map)
            add_nodes(placement.macros, False, *arrays, *cell, self._map)
            add_nodes(placement.standard_cells, True, *arrays, *cell, self._map)
            self._present[:] = placement.placed
        else:
            for node in added:
                # Ports are in the log of changes, too, but have no size.
                if placement.width[node] > 0:
                    self._one[0] = node
                    add_nodes(self._one, placement.netlist.kind[node] != 0, *arrays, *cell, self._map)
                self._present[node] = placement.placed[node]
        self._version = placement.version
        self._grid = cell
        return self._map


def density_cost(density: Floats) -> float:
    """Returns half the mean of the fullest tenth of the cells (at least one), zeros included."""
    return 0.5 * mean_of_largest(density, max(1, density.size // 10))
