"""Greedy placing: each macro goes to the allowed cell where the cost grows least, as far as it is known by then.

The cost of a cell is the growth of the half-perimeter wirelength of the macro's nets, plus a price for covering cells
where soft macros crowd, since these are placed last and pile up where hard macros leave no room. What is known of the
other ends are ports, the macros placed so far, and for all others the places at which the environment's
force-directed run puts them before the episode. NumPy alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass
class Nets:
    """The nets of one macro.

    Attributes:
        ends: other nodes of each net, one row per net, padded with -1; int64, shape (nets, most ends).
        weight: of each net, shape (nets,).
        offset: of the macro's pin from its centre, um, shape (nets, 2).
    """

    ends: NDArray[np.int64]
    weight: Floats
    offset: Floats


class GreedyPlacer:
    """Places macros by the nets of one design.

    Args:
        env: a circuit training environment; only its design is looked at.
        crowding_price: wire that covering cells of the mean crowding is worth, as a share of the canvas's half
            perimeter per net.
        reach: cells over which crowding is smoothed, as a share of the grid.
    """

    def __init__(self, env, crowding_price: float = 0.3, reach: float = 0.3) -> None:
        core = env.unwrapped
        plc, netlist = core.plc, core.plc.netlist
        self.columns, self.rows = core.grid_cols, core.grid_rows
        self.size = core.observation_config.max_grid_size
        self.low_row, self.low_column = (self.size - self.rows) // 2, (self.size - self.columns) // 2
        self.width, self.height = plc.get_canvas_width_height()
        self.macros = np.asarray(plc.get_macro_indices())
        self.order = list(core.macro_order)
        self.price = crowding_price * (self.width + self.height)
        self.start = plc.state.x.copy(), plc.state.y.copy()
        owner = np.where(netlist.owner >= 0, netlist.owner, np.arange(netlist.num_nodes))
        self.nets = {node: self._nets_of(node, plc, owner) for node in self.order}
        row, column = np.divmod(np.arange(self.rows * self.columns), self.columns)
        self.cell_x = (column + 0.5) * self.width / self.columns
        self.cell_y = (row + 0.5) * self.height / self.rows
        self.sizes = {node: plc.get_node_width_height(node) for node in self.order}
        self.crowding = self._crowding(core, reach)

    def _crowding(self, core, reach: float) -> Floats:
        """Area of soft macros around each cell relative to the mean, from where forces alone would put them.

        Returns:
            Sums over rows and columns from the lower left corner, shape (rows + 1, columns + 1).
        """
        plc, placed = core.plc, core.get_static_obs()
        scale = self.width + self.height
        area = np.zeros((self.rows, self.columns))
        for position, node in enumerate(self.macros.tolist()):
            if plc.is_node_soft_macro(node):
                column = int(placed["locations_x"][position] * scale / self.width * self.columns)
                row = int(placed["locations_y"][position] * scale / self.height * self.rows)
                width, height = plc.get_node_width_height(node)
                area[min(row, self.rows - 1), min(column, self.columns - 1)] += width * height
        for axis, count in enumerate(area.shape):
            cells = max(1, round(reach * count))
            kernel = np.convolve(np.ones(cells), np.ones(cells))  # a hat: two box filters
            area = np.apply_along_axis(np.convolve, axis, area, kernel, mode="same")
        area /= max(area.mean(), 1e-12)
        return np.pad(area.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))

    def _covered_crowding(self, node: int, cells: NDArray[np.int64]) -> Floats:
        """Mean crowding of the cells that a macro would cover, for each cell of its centre."""
        width, height = self.sizes[node]
        row, column = np.divmod(cells, self.columns)
        wide, high = width / self.width * self.columns / 2, height / self.height * self.rows / 2
        left = np.clip(np.floor(column + 0.5 - wide), 0, self.columns).astype(int)
        right = np.clip(np.ceil(column + 0.5 + wide), 0, self.columns).astype(int)
        low = np.clip(np.floor(row + 0.5 - high), 0, self.rows).astype(int)
        top = np.clip(np.ceil(row + 0.5 + high), 0, self.rows).astype(int)
        sums = self.crowding
        total = sums[top, right] - sums[low, right] - sums[top, left] + sums[low, left]
        return total / ((right - left) * (top - low))

    def _nets_of(self, node: int, plc, owner: NDArray[np.int64]) -> Nets:
        netlist = plc.netlist
        net_of_pin = np.repeat(np.arange(netlist.num_nets), np.diff(netlist.net_start))
        mine = np.flatnonzero(owner[netlist.net_pins] == node)
        rows, weights, offsets = [], [], []
        for place in mine.tolist():
            net = net_of_pin[place]
            pins = netlist.net_pins[netlist.net_start[net] : netlist.net_start[net + 1]]
            others = np.unique(owner[pins])
            others = others[others != node]
            if len(others):
                pin = netlist.net_pins[place]
                rows.append(others)
                weights.append(netlist.weight[pins[0]])
                offsets.append((netlist.x_offset[pin], netlist.y_offset[pin]))
        most = max((len(row) for row in rows), default=1)
        ends = np.full((len(rows), most), -1, np.int64)
        for k, row in enumerate(rows):
            ends[k, : len(row)] = row
        return Nets(ends, np.array(weights), np.array(offsets).reshape(-1, 2))

    def choose(self, observation) -> int:
        """Returns the action for an observation."""
        mask = np.asarray(observation["mask"]).reshape(self.size, self.size)
        allowed = mask[
            self.low_row : self.low_row + self.rows, self.low_column : self.low_column + self.columns
        ].reshape(-1)
        cells = np.flatnonzero(allowed)
        if len(cells) == 0:
            return 0
        node = int(self.macros[int(np.asarray(observation["current_node"]).item())])
        x, y = self._positions(observation)
        nets = self.nets[node]
        cost = self._growth(nets, x, y, cells)
        cost += self.price * nets.weight.sum() * self._covered_crowding(node, cells)
        best = cells[int(np.argmin(cost))]
        row, column = divmod(int(best), self.columns)
        return (row + self.low_row) * self.size + column + self.low_column

    def _positions(self, observation) -> tuple[Floats, Floats]:
        """Positions of all nodes, um: of macros as observed, of all others as the design has them."""
        x, y = self.start[0].copy(), self.start[1].copy()
        scale = self.width + self.height
        x[self.macros] = np.asarray(observation["locations_x"][: len(self.macros)], np.float64) * scale
        y[self.macros] = np.asarray(observation["locations_y"][: len(self.macros)], np.float64) * scale
        return x, y

    def _growth(self, nets: Nets, x: Floats, y: Floats, cells: NDArray[np.int64]) -> Floats:
        """Growth of the wirelength by a macro's nets, um, for each cell."""
        present = nets.ends >= 0
        cost = np.zeros(len(cells))
        for at, offset, cell_at in ((x, nets.offset[:, 0], self.cell_x), (y, nets.offset[:, 1], self.cell_y)):
            ends = at[nets.ends]
            low = np.where(present, ends, np.inf).min(axis=1, initial=np.inf)
            high = np.where(present, ends, -np.inf).max(axis=1, initial=-np.inf)
            pin = cell_at[cells][:, None] + offset[None, :]
            cost += (np.maximum(low - pin, 0.0) + np.maximum(pin - high, 0.0)) @ nets.weight
        return cost
