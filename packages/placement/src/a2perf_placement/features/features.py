"""Features of every cell for the macro to place next: what a placement policy learns from.

A row describes the macro's box centred in one cell: how much wire it adds, what it covers, how it lies in the canvas
and beside its neighbours. Lengths are relative to the canvas, the macro or the cluster of soft macros, and sums are
relative to their mean over the design. The same policy then applies to designs of other sizes and grids.

Nodes that are not placed yet count where an estimate puts them: at first the mixed-size force-directed run before the
episode, as in ``examples/greedy_placer``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.density import add_box
from a2perf.domains.circuit_training.mask import macro_mask
from a2perf_placement.features.design import PlacementDesign
from a2perf_placement.features.kernels import box_sum, cell_features, cell_sums, wire_growth

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FEATURES = (
    "wire",
    "wire to placed ends",
    "wire per net",
    "soft area covered",
    "crowding covered",
    "gap to the soft disc",
    "distance to the soft centre",
    "gap in x",
    "gap in y",
    "gap to the border",
    "near rim filled",
    "wide rim filled",
    "soft area in the wide rim",
    "distance to the estimate in x",
    "distance to the estimate in y",
    "horizontal demand covered",
    "vertical demand covered",
    "fullness of covered cells",
    "share placed",
    "macro width",
    "macro height",
    "utilization",
    "share of wires",
    "cell size",
    "x",
    "y",
)
"""Names of the columns, in order."""

SUMMARY = (
    "share placed",
    "wire so far",
    "soft area covered so far",
    "feasible share",
    "least wire",
    "least soft area",
    "utilization",
    "cell size",
)
"""Names of the numbers that describe the episode as a whole, for a value function."""

_BOUND = 4.0  # features are clipped to this
_REACH = 0.3  # of the grid; crowding is smoothed over it


class PositionEstimate:
    """Where soft macros and macros that are not placed yet will be, and what follows from it for every cell.

    Args:
        x, y: estimated centre of each node, um, shape (nodes,).

    Attributes:
        soft_sums, crowding_sums: integral images of the density of soft macros, and of its smoothed form relative to
            the mean, shape (rows + 1, columns + 1).
        demand_sums: of the estimated horizontal and vertical wiring relative to the mean, shape (2, rows + 1,
            columns + 1).
        centre, radius: of the disc that the soft macros would fill, um.
    """

    def __init__(self, design: PlacementDesign, x: Floats, y: Floats) -> None:
        self.x, self.y = x.copy(), y.copy()
        columns, rows = design.columns, design.rows
        soft = np.zeros((rows, columns))
        width, height = design.canvas
        for node in design.soft.tolist():
            add_box(*design.box(node, x[node], y[node]), 1.0, *design.cell_size, columns, rows, soft.reshape(-1))
        self.soft_sums = cell_sums(soft)
        self.crowding_sums = cell_sums(_smoothed(soft))
        self.demand_sums = np.stack([cell_sums(part) for part in _demand(design, x, y)])
        areas = design.box_width[design.soft] * design.box_height[design.soft]
        total = max(float(areas.sum()), 1e-9)
        if len(design.soft):
            self.centre = (float((x[design.soft] * areas).sum() / total), float((y[design.soft] * areas).sum() / total))
        else:
            self.centre = (width / 2, height / 2)
        self.radius = max(float(np.sqrt(total / np.pi)), 0.05 * max(width, height))


def _smoothed(area: Floats) -> Floats:
    """Returns a map smoothed with a hat over ``_REACH`` of the grid, relative to its mean."""
    result = area
    for axis, count in enumerate(area.shape):
        kernel = np.ones(max(1, round(_REACH * count)))
        kernel = np.convolve(kernel, kernel)
        result = np.apply_along_axis(np.convolve, axis, result, kernel, mode="same")
    smoothed: Floats = result / max(float(result.mean()), 1e-12)
    return smoothed


def _demand(design: PlacementDesign, x: Floats, y: Floats) -> list[Floats]:
    """Returns horizontal and vertical wiring per cell, spread evenly over each net's box, relative to the mean."""
    width, height = design.cell_size
    at_x, at_y = x[design.net_owner], y[design.net_owner]
    starts = design.net_start[:-1]
    maps = [np.zeros((design.rows + 1, design.columns + 1)) for _ in range(2)]
    if len(starts):
        columns, rows = design.columns - 1, design.rows - 1
        left = np.clip(np.minimum.reduceat(at_x, starts) / width, 0, columns).astype(np.int64)
        right = np.clip(np.maximum.reduceat(at_x, starts) / width, 0, columns).astype(np.int64)
        low = np.clip(np.minimum.reduceat(at_y, starts) / height, 0, rows).astype(np.int64)
        top = np.clip(np.maximum.reduceat(at_y, starts) / height, 0, rows).astype(np.int64)
        for values, area in zip(
            maps, (design.net_weight / (top - low + 1), design.net_weight / (right - left + 1)), strict=True
        ):
            np.add.at(values, (low, left), area)
            np.add.at(values, (top + 1, left), -area)
            np.add.at(values, (low, right + 1), -area)
            np.add.at(values, (top + 1, right + 1), area)
    demand = []
    for values in maps:
        usage = values.cumsum(axis=0).cumsum(axis=1)[:-1, :-1]
        demand.append(usage / max(float(usage.mean()), 1e-12))
    return demand


class PlacementState:
    """One episode: the macros placed so far, the feasible cells of the next one, and their features.

    Args:
        estimate: of the nodes that are not placed; by default that of the force-directed start.
    """

    def __init__(self, design: PlacementDesign, estimate: PositionEstimate | None = None) -> None:
        self.design = design
        self.estimate = PositionEstimate(design, design.start_x, design.start_y) if estimate is None else estimate
        nodes = len(design.start_x)
        self.x, self.y = np.zeros(nodes), np.zeros(nodes)
        self.known = np.zeros(nodes, np.uint8)
        self.density = np.zeros(design.cells)
        self.mask = np.zeros(design.cells, np.int32)
        self.placed: list[int] = []
        self.wire = self.covered = 0.0
        self._growth = np.zeros((2, 2, max(design.columns, design.rows)))
        self._table = np.zeros((design.cells, len(FEATURES)), np.float32)
        self.reset()

    @property
    def done(self) -> bool:
        """Whether all macros are placed."""
        return len(self.placed) == len(self.design.order)

    def reset(self, estimate: PositionEstimate | None = None) -> None:
        """Takes all macros off the canvas."""
        design = self.design
        if estimate is not None:
            self.estimate = estimate
        self.x[:], self.y[:] = self.estimate.x, self.estimate.y
        self.known[:] = design.known
        self.x[design.known == 1], self.y[design.known == 1] = (
            design.start_x[design.known == 1],
            design.start_y[design.known == 1],
        )
        self.density[:] = 0.0
        self.placed, self.wire, self.covered = [], 0.0, 0.0
        for low_x, low_y, high_x, high_y, rate in design.blockages:
            self._add(low_x, low_y, high_x, high_y, rate)
        for node in design.fixed_macros.tolist():
            self._add_macro(node)
        self._find_feasible()

    def place(self, cell: int) -> None:
        """Places the next macro in a cell, whether feasible or not."""
        design = self.design
        node = int(design.order[len(self.placed)])
        row, column = divmod(cell, design.columns)
        self.wire += float(self._growth[0, 0, column] + self._growth[0, 1, row])
        self.x[node], self.y[node] = design.centre(cell)
        self.known[node] = 1
        self.covered += self._soft_area(node)
        self._add_macro(node)
        self.placed.append(cell)
        self._find_feasible()

    def table(self) -> NDArray[np.float32]:
        """Returns the features of each cell for the next macro, shape (cells, features); overwritten by the next call.

        Rows of cells that are not feasible hold zeros.
        """
        design, estimate, number = self.design, self.estimate, len(self.placed)
        node = int(design.order[number])
        macros = len(design.order)
        weight = max(float(design.weight[number]), 1e-9)
        cell_features(
            self.mask,
            self._growth,
            10.0 * macros / design.wire_scale,
            4.0 / (weight * (design.canvas[0] + design.canvas[1])),
            design.canvas_array,
            design.size[number],
            design.rims,
            cell_sums(np.minimum(self.density, 1.0).reshape(design.rows, design.columns)),
            self.density,
            estimate.soft_sums,
            estimate.crowding_sums,
            estimate.demand_sums,
            np.array([*estimate.centre, estimate.radius, estimate.x[node], estimate.y[node]]),
            design.constants[number],
            _BOUND,
            self._table,
        )
        return self._table

    def summary(self) -> NDArray[np.float32]:
        """Returns numbers that describe the episode so far, shape (len(SUMMARY),); call `table` first."""
        design, number = self.design, len(self.placed)
        feasible = self.mask > 0
        rows = self._table[feasible]
        constants = design.constants[number]
        lowest = self._growth[0, 0, : design.columns].min() + self._growth[0, 1, : design.rows].min()
        return np.array(
            [
                constants[0],
                10.0 * self.wire / design.wire_scale,
                4.0 * self.covered / max(design.soft_area, 1e-9),
                feasible.mean(),
                10.0 * len(design.order) * lowest / design.wire_scale,
                rows[:, 3].min() if len(rows) else 0.0,
                constants[3],
                constants[5],
            ],
            np.float32,
        )

    def _find_feasible(self) -> None:
        """Computes the mask and the growth of the wirelength for the next macro."""
        design = self.design
        if self.done:
            self.mask[:] = 0
            return
        number = len(self.placed)
        node = int(design.order[number])
        macro_mask(
            design.box_width[node],
            design.box_height[node],
            True,
            *design.spacing,
            *design.canvas,
            design.columns,
            design.rows,
            self.density,
            design.hard,
            self.x,
            self.y,
            design.box_width,
            design.box_height,
            self.known,
            design.blockages,
            self.mask,
        )
        wire_growth(
            design.nets,
            number,
            self.x,
            self.y,
            self.known,
            *design.cell_size,
            design.columns,
            design.rows,
            self._growth,
        )

    def _soft_area(self, node: int) -> float:
        """Estimated area of soft macros under a macro, um^2."""
        design, sums = self.design, self.estimate.soft_sums
        width, height = design.cell_size
        left, low, right, top = design.box(node, self.x[node], self.y[node])
        covered = box_sum(sums, left / width, low / height, right / width, top / height)
        return float(covered) * width * height

    def _add_macro(self, node: int) -> None:
        self._add(*self.design.box(node, self.x[node], self.y[node]), 1.0)

    def _add(self, low_x: float, low_y: float, high_x: float, high_y: float, rate: float) -> None:
        design = self.design
        add_box(low_x, low_y, high_x, high_y, rate, *design.cell_size, design.columns, design.rows, self.density)
