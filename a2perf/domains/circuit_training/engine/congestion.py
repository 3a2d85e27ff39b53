"""Routing congestion: the share of horizontal and vertical tracks of each grid cell that nets and macros use.

The cost is the mean of the most congested twentieth of all values of both maps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.density import mean_of_largest
from a2perf.domains.circuit_training.engine.net_routing import find_cells, route
from a2perf.domains.circuit_training.engine.placement import Placement
from a2perf.domains.circuit_training.engine.wirelength import NetsOfNodes
from a2perf.domains.compilation import compiled_part, compiled_without_allocation

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RoutingRules:
    """What congestion depends on besides the placement.

    Attributes:
        canvas: width and height, um.
        routes_per_micron: horizontal and vertical tracks per um.
        macro_allocation: tracks per um that a hard macro takes, horizontally and vertically.
        smooth_range: cells to either side over which the nets' usage is spread.
    """

    canvas: tuple[float, float]
    grid: tuple[int, int]
    routes_per_micron: tuple[float, float]
    macro_allocation: tuple[float, float]
    smooth_range: int


@compiled_without_allocation
def _smoothed_usage(
    horizontal_differences: Floats,
    vertical_differences: Floats,
    horizontal_capacity: float,
    vertical_capacity: float,
    smooth_range: int,
    maps: Floats,
    spread: Floats,
    usages: Floats,
    line: Floats,
) -> None:
    """Fills in the nets' share of both maps, shape (2, rows, columns): horizontal, vertical.

    The last three arguments are scratch, shape (columns,).
    """
    rows, columns = maps.shape[1], maps.shape[2]
    for column in range(columns):
        usages[column] = 0.0
        spread[column] = min(columns - 1, column + smooth_range) - max(0, column - smooth_range) + 1
    for row in range(rows):
        for column in range(columns):
            maps[0, row, column] = maps[1, row, column] = 0.0
    # Usage is stored as differences along a line of cells: a segment of a net costs two updates, however long it is.
    # Running sums restore the usage here.
    for row in range(rows):
        first, last = max(0, row - smooth_range), min(rows - 1, row + smooth_range)
        usage = 0.0
        for column in range(columns):
            usage += horizontal_differences[row, column]
            line[column] = usage / horizontal_capacity / (last - first + 1)
        for other in range(first, last + 1):
            for column in range(columns):
                maps[0, other, column] += line[column]
    for row in range(rows):
        for column in range(columns):
            usages[column] += vertical_differences[row, column]
            line[column] = usages[column] / vertical_capacity / spread[column]
        for shift in range(-min(smooth_range, columns - 1), min(smooth_range, columns - 1) + 1):
            for column in range(max(0, -shift), min(columns, columns - shift)):
                maps[1, row, column + shift] += line[column]


@compiled_part
def is_partial(first: int, last: int, true_last: int, low: float, high: float, size: float, tolerance: float) -> bool:
    """Returns whether a box over several lines of cells leaves a part of its first or last line free.

    The earlier engine compares with the cell size without a tolerance.
    """
    if first == last:
        return False
    if true_last != last:
        return True
    if abs(min(high, (first + 1) * size) - max(low, first * size) - size) > tolerance:
        return True
    return abs(min(high, (last + 1) * size) - max(low, last * size) - size) > tolerance


@compiled_without_allocation
def _add_macros(
    macros: NDArray[np.int64],
    x: Floats,
    y: Floats,
    width: Floats,
    height: Floats,
    placed: NDArray[np.uint8],
    cell_width: float,
    cell_height: float,
    horizontal_allocation: float,
    vertical_allocation: float,
    horizontal_capacity: float,
    vertical_capacity: float,
    maps: Floats,
) -> None:
    """Adds the tracks that hard macros take."""
    rows, columns = maps.shape[1], maps.shape[2]
    for node in macros:
        if not placed[node]:
            continue
        low_x, high_x = x[node] - width[node] / 2, x[node] + width[node] / 2
        low_y, high_y = y[node] - height[node] / 2, y[node] + height[node] / 2
        # Kept without a limit: is_partial must know that the macro extends beyond the grid.
        true_column, true_row = int(high_x / cell_width), int(high_y / cell_height)
        if true_column < 0 or true_row < 0:
            continue
        first_column, last_column = max(int(low_x / cell_width), 0), min(true_column, columns - 1)
        first_row, last_row = max(int(low_y / cell_height), 0), min(true_row, rows - 1)
        spare_column = is_partial(first_column, last_column, true_column, low_x, high_x, cell_width, 0.0)
        spare_row = is_partial(first_row, last_row, true_row, low_y, high_y, cell_height, 0.0)
        for row in range(first_row, last_row + 1):
            overlap_y = min(high_y, (row + 1) * cell_height) - max(low_y, row * cell_height)
            for column in range(first_column, last_column + 1):
                overlap_x = min(high_x, (column + 1) * cell_width) - max(low_x, column * cell_width)
                # like the earlier engine, the last line is skipped if the macro covers it only in part
                if not (spare_column and column == last_column):
                    maps[0, row, column] += overlap_y * horizontal_allocation / horizontal_capacity
                if not (spare_row and row == last_row):
                    maps[1, row, column] += overlap_x * vertical_allocation / vertical_capacity


def sums_are_exact(weights: Floats, pins: int) -> bool:
    """Returns whether sums of the weights over this number of pins are exact in any order.

    Only then can the routes of moved nets be subtracted again without a residue.
    """
    used = np.abs(weights[weights != 0])
    if used.size == 0:
        return True
    # A single precision number is an integer multiple of 2^(exponent - 24).
    _, exponent = np.frexp(used)
    scaled = np.ldexp(used, 24 - exponent).astype(np.int64)
    # x & -x keeps the lowest bit that is set, so its logarithm counts the zeros behind it.
    trailing = np.log2((scaled & -scaled).astype(np.float64))
    unit = float((exponent - 24 + trailing).min())
    # A sink is marked at most four times; a sum is exact while all its bits fit into the 53 of a double.
    largest = float(np.log2(used.max())) + float(np.log2(4 * max(pins, 1)))
    return largest - unit < 53


class Congestion:
    """The congestion maps of a placement, kept up to date."""

    def __init__(self, placement: Placement, nets_of_nodes: NetsOfNodes) -> None:
        netlist = placement.netlist
        self._placement = placement
        self._nets_of_nodes = nets_of_nodes
        self._all_nets = np.arange(netlist.num_nets, dtype=np.int32)
        drivers = netlist.net_pins[netlist.net_start[:-1]]
        self._incremental = sums_are_exact(netlist.weight[drivers], len(netlist.net_pins))
        self._all_nodes = np.arange(netlist.num_nodes, dtype=np.int32)
        self._cells = np.zeros(netlist.num_nodes, dtype=np.int64)
        longest = int(np.diff(netlist.net_start).max()) if netlist.num_nets else 0
        self._distinct = np.empty(longest + 1, dtype=np.int64)
        self._horizontal = np.zeros((0, 1))
        self._vertical = np.zeros((1, 0))
        self._stamps = np.zeros(1, dtype=np.int64)
        self.maps = np.zeros((2, 0, 0))  # horizontal and vertical, rows from below
        self._rules: RoutingRules | None = None
        self._version = -1
        self._cost = -1.0

    def update(self, rules: RoutingRules) -> None:
        """Brings the maps and the cost up to date."""
        placement = self._placement
        changed = placement.changed_since(self._version)
        if rules != self._rules:
            changed = None
        elif changed is not None and not changed:
            return
        columns, rows = rules.grid
        cell_width, cell_height = rules.canvas[0] / columns, rules.canvas[1] / rows
        self._route(changed, columns, rows, cell_width, cell_height)
        horizontal_capacity = cell_height * rules.routes_per_micron[0]
        vertical_capacity = cell_width * rules.routes_per_micron[1]
        _smoothed_usage(
            self._horizontal,
            self._vertical,
            horizontal_capacity,
            vertical_capacity,
            rules.smooth_range,
            self.maps,
            np.empty(columns),
            np.empty(columns),
            np.empty(columns),
        )
        _add_macros(
            placement.hard,
            placement.x,
            placement.y,
            placement.box_width,
            placement.box_height,
            placement.placed,
            cell_width,
            cell_height,
            *rules.macro_allocation,
            horizontal_capacity,
            vertical_capacity,
            self.maps,
        )
        self._cost = -1.0
        self._version = placement.version
        self._rules = rules

    def cost(self, rules: RoutingRules) -> float:
        """Returns the mean of the largest twentieth (at least one) of the values of both maps."""
        self.update(rules)
        if self._cost < 0:
            self._cost = mean_of_largest(self.maps.reshape(-1), max(1, self.maps.size // 20))
        return self._cost

    def _route(self, changed: list[int] | None, columns: int, rows: int, cell_width: float, cell_height: float) -> None:
        """Brings the usage by nets up to date."""
        placement, netlist = self._placement, self._placement.netlist
        where = (placement.x, placement.y, placement.placed, cell_width, cell_height, columns, rows, self._cells)
        arrays = (netlist.net_start, netlist.net_pins, netlist.weight, self._cells)
        nets = None if changed is None or not self._incremental else self._nets_of_nodes.at(changed)
        # A moved net is routed twice, once to subtract its old route; for many nets routing all of them is faster.
        if nets is not None and 4 * len(nets) <= netlist.num_nets:
            usage = (self._horizontal, self._vertical, self._stamps, self._distinct)
            # The old routes must go first: they follow the old cells, which find_cells overwrites.
            route(nets, -1.0, *arrays, *usage)
            for node in dict.fromkeys(changed or ()):
                # A plain int would make the array int64, and Numba would compile the kernel a second time.
                find_cells(np.append(placement.pins_of(node), np.int32(node)), *where)
            route(nets, 1.0, *arrays, *usage)
            return
        self.maps = np.zeros((2, rows, columns))
        self._horizontal = np.zeros((rows, columns + 1))
        self._vertical = np.zeros((rows + 1, columns))
        self._stamps = np.zeros(rows * columns + 1, dtype=np.int64)
        find_cells(self._all_nodes, *where)
        route(self._all_nets, 1.0, *arrays, self._horizontal, self._vertical, self._stamps, self._distinct)
