"""The settings of the engine: canvas, grids, routing resources, names; each with its limits."""

from __future__ import annotations

import math

from a2perf.domains.circuit_training.engine.congestion import RoutingRules
from a2perf.domains.circuit_training.engine.placement import PlacementError

MIN_SIDE, MAX_SIDE = 0.001, 1e7  # um
MAX_GRID = 1000
DEFAULT_UTILISATION = 0.6


def _number(name: str, value: float, low: float, high: float = math.inf) -> float:
    if not low <= value <= high:
        limits = f"from {low:g} to {high:g}" if high < math.inf else f"from {low:g} on"
        raise PlacementError(f"{name} is {value!r}", hint=f"give a number {limits}")
    return float(value)


def _count(name: str, value: int, low: int, high: int) -> int:
    number = _number(name, value, low, high)
    if number != int(number):
        raise PlacementError(f"{name} is {value!r}", hint="give a whole number")
    return int(number)


def _pair(names: str, values: tuple[float, float], low: float, high: float = math.inf) -> tuple[float, float]:
    """Checks two numbers; ``names`` has a comma between theirs."""
    first, second = names.split(", ")
    return _number(first, values[0], low, high), _number(second, values[1], low, high)


def _grid(columns: int, rows: int) -> tuple[int, int]:
    return _count("the number of columns", columns, 1, MAX_GRID), _count("the number of rows", rows, 1, MAX_GRID)


class EngineAccessors:
    """Getters and setters under the names of the earlier client; a setter returns True, or raises."""

    def __init__(self, area: float, source: str) -> None:
        side = min(max(math.sqrt(area / DEFAULT_UTILISATION), MIN_SIDE), MAX_SIDE)
        self._canvas = (side, side)
        self._grid = (10, 10)
        self._congestion_grid = (10, 10)
        self._routes_per_micron = (57.031, 56.818)
        self._macro_allocation = (39.583, 30.303)
        self._smooth_range = 2
        self._overlap_threshold = 0.004
        self._boundary_check = True
        self._incremental = True
        self._project = "unset_project"
        self._block = "unset_block"
        self._source = source
        self._rules: RoutingRules | None = None

    @property
    def routing_rules(self) -> RoutingRules:
        """What congestion depends on besides the placement."""
        if self._rules is None:
            self._rules = RoutingRules(
                self._canvas, self._congestion_grid, self._routes_per_micron, self._macro_allocation, self._smooth_range
            )
        return self._rules

    def get_canvas_width_height(self) -> tuple[float, float]:
        """Returns the canvas's size, um."""
        return self._canvas

    def set_canvas_size(self, width: float, height: float) -> bool:
        """Sets the canvas's size, um.

        Raises:
            PlacementError: a side is not in 0.001 ... 1e7.
        """
        self._canvas = _pair("the canvas's width, the canvas's height", (width, height), MIN_SIDE, MAX_SIDE)
        self._rules = None
        return True

    def get_grid_num_columns_rows(self) -> tuple[int, int]:
        """Returns columns and rows of the placement grid."""
        return self._grid

    def set_placement_grid(self, columns: int, rows: int) -> bool:
        """Sets the placement grid.

        Raises:
            PlacementError: a number is not in 1 ... 1000.
        """
        self._grid = _grid(columns, rows)
        return True

    def get_congestion_grid_num_columns_rows(self) -> tuple[int, int]:
        """Returns columns and rows of the congestion grid."""
        return self._congestion_grid

    get_congestion_grid = get_congestion_grid_num_columns_rows

    def set_congestion_grid(self, columns: int, rows: int) -> bool:
        """Sets the congestion grid.

        Raises:
            PlacementError: a number is not in 1 ... 1000.
        """
        self._congestion_grid = _grid(columns, rows)
        self._rules = None
        return True

    set_congestion_grid_num_columns_rows = set_congestion_grid

    def get_routes_per_micron(self) -> tuple[float, float]:
        """Returns horizontal and vertical tracks per um."""
        return self._routes_per_micron

    def set_routes_per_micron(self, horizontal: float, vertical: float) -> bool:
        """Sets the tracks per um; both must be positive."""
        names = "horizontal routes per micron, vertical routes per micron"
        self._routes_per_micron = _pair(names, (horizontal, vertical), 1e-9)
        self._rules = None
        return True

    def get_macro_routing_allocation(self) -> tuple[float, float]:
        """Returns the tracks per um that hard macros take, horizontally and vertically."""
        return self._macro_allocation

    def set_macro_routing_allocation(self, horizontal: float, vertical: float) -> bool:
        """Sets the tracks per um that hard macros take."""
        names = "the horizontal allocation, the vertical allocation"
        self._macro_allocation = _pair(names, (horizontal, vertical), 0.0)
        self._rules = None
        return True

    def get_congestion_smooth_range(self) -> int:
        """Returns the cells to either side over which usage is spread."""
        return self._smooth_range

    def set_congestion_smooth_range(self, cells: int) -> bool:
        """Sets the cells to either side over which usage is spread."""
        self._smooth_range = _count("the smoothing range", cells, 0, MAX_GRID)
        self._rules = None
        return True

    def get_overlap_threshold(self) -> float:
        """Returns the overlap threshold, which is printed and has no effect."""
        return self._overlap_threshold

    def set_overlap_threshold(self, threshold: float) -> bool:
        """Sets the overlap threshold, which is printed and has no effect."""
        self._overlap_threshold = _number("the overlap threshold", threshold, 0.0)
        return True

    def get_canvas_boundary_check(self) -> bool:
        """Returns whether macros that stick out of the canvas are refused."""
        return self._boundary_check

    def set_canvas_boundary_check(self, check: bool) -> bool:
        """Sets whether macros that stick out of the canvas are refused."""
        self._boundary_check = bool(check)
        return True

    def get_use_incremental_cost(self) -> bool:
        """Returns what was set; costs are the same either way."""
        return self._incremental

    def set_use_incremental_cost(self, use: bool) -> bool:
        """Accepted for callers of the earlier client; costs are always kept up to date from what changed."""
        self._incremental = bool(use)
        return True

    def get_project_name(self) -> str:
        """Returns the project's name."""
        return self._project

    def set_project_name(self, name: str) -> bool:
        """Sets the project's name."""
        self._project = str(name)
        return True

    def get_block_name(self) -> str:
        """Returns the block's name."""
        return self._block

    def set_block_name(self, name: str) -> bool:
        """Sets the block's name."""
        self._block = str(name)
        return True

    def get_source_filename(self) -> str:
        """Returns the netlist's path or comma list."""
        return self._source
