"""What placement features need of a design: canvas, macros in their order, their nets, and the estimated start.

All episodes on a design share one `PlacementDesign`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.cost_model import engine_settings
from a2perf.domains.circuit_training.netlists.netlist import KIND_PORT
from a2perf.domains.circuit_training.starting_point import place_everything

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NEAR_RIM, WIDE_RIM = 0.15, 1.0  # of the mean macro's side


class MacroNets(NamedTuple):
    """The nets of all macros to place, the macros in their order.

    Attributes:
        macro_start: first net of each macro, shape (macros + 1,).
        weight: of each net, shape (nets,).
        own: lowest and highest x offset, lowest and highest y offset of the macro's pins, um, shape (nets, 4).
        end_start: first other end of each net, shape (nets + 1,).
        end_node: node that each other pin follows, shape (ends,).
        end_offset: offset of the pin from that node, um, shape (ends, 2).
    """

    macro_start: Ints
    weight: Floats
    own: Floats
    end_start: Ints
    end_node: Ints
    end_offset: Floats


class PlacementDesign:
    """The parts of a design that features need; shared by all episodes on it.

    Args:
        env: a circuit training environment; its design is read, its episode stays as it is.

    Attributes:
        canvas: width and height, um.
        order: nodes of the macros, in the order of placing.
        size: width and height of each macro in that order, um, shape (macros, 2).
        weight: sum of the weights of each macro's nets, shape (macros,).
        start_x, start_y: where each node is estimated to be before an episode, um.
    """

    def __init__(self, env: Any) -> None:
        core = env.unwrapped
        plc = core.plc
        state, netlist = plc.state, plc.netlist
        self.canvas: tuple[float, float] = plc.get_canvas_width_height()
        self.columns, self.rows = int(core.grid_cols), int(core.grid_rows)
        self.order: Ints = np.array(core.macro_order, np.int64)
        self.hard: Ints = state.hard.copy()
        self.box_width, self.box_height = state.box_width.copy(), state.box_height.copy()
        self.size: Floats = np.stack([self.box_width[self.order], self.box_height[self.order]], axis=1)
        settings = engine_settings()
        self.spacing = (settings.macro_macro_x_spacing, settings.macro_macro_y_spacing)
        self.blockages: Floats = np.array(plc.get_blockages(), np.float64).reshape(-1, 5)
        # Fixed macros keep their places in every episode.
        self.fixed_macros: Ints = self.hard[state.fixed[self.hard] == 1]
        self.start_x, self.start_y = self._start(core)
        self.known: NDArray[np.uint8] = (netlist.kind == KIND_PORT).astype(np.uint8)
        self.known[self.fixed_macros] = 1
        self.owner: Ints = np.where(netlist.owner >= 0, netlist.owner, np.arange(netlist.num_nodes)).astype(np.int64)
        self.soft: Ints = np.concatenate([state.soft, state.standard_cells])
        self.soft_area: float = float((self.box_width[self.soft] * self.box_height[self.soft]).sum())
        self.nets = self._macro_nets(netlist, state)
        self.net_weight: Floats = netlist.weight[netlist.net_pins[netlist.net_start[:-1]]].astype(np.float64)
        self.wire_scale = (self.canvas[0] + self.canvas[1]) * max(float(np.trunc(self.net_weight).sum()), 1.0)
        self.canvas_array = np.array(self.canvas)
        sums = np.concatenate([[0.0], np.cumsum(self.nets.weight)])
        self.weight: Floats = np.diff(sums[self.nets.macro_start])
        mean_side = float(np.sqrt(self.size.prod(axis=1).mean())) if len(self.size) else 1.0
        self.rims: Floats = np.array([NEAR_RIM * mean_side, WIDE_RIM * mean_side, mean_side])
        self.constants = self._constants(mean_side)
        self.net_start: Ints = netlist.net_start.astype(np.int64)
        self.net_owner: Ints = self.owner[netlist.net_pins]

    @property
    def cells(self) -> int:
        """Cells of the placement grid."""
        return self.columns * self.rows

    @property
    def cell_size(self) -> tuple[float, float]:
        """Width and height of a cell, um."""
        return self.canvas[0] / self.columns, self.canvas[1] / self.rows

    def box(self, node: int, x: float, y: float) -> tuple[float, float, float, float]:
        """Returns low x, low y, high x and high y of a node with its centre at a position, um."""
        half_width, half_height = self.box_width[node] / 2, self.box_height[node] / 2
        return x - half_width, y - half_height, x + half_width, y + half_height

    def centre(self, cell: int) -> tuple[float, float]:
        """Returns the centre of a cell, um, to the last bit where the engine puts a macro."""
        row, column = divmod(cell, self.columns)
        return (column + 0.5) * (self.canvas[0] / self.columns), (row + 0.5) * (self.canvas[1] / self.rows)

    def _start(self, core: Any) -> tuple[Floats, Floats]:
        """Where each node is at the start: macros as observed, standard cells where the same forces put them."""
        plc, static, macros = core.plc, core.get_static_obs(), np.asarray(core.plc.get_macro_indices())
        cells = plc.state.standard_cells
        x, y = plc.state.x.copy(), plc.state.y.copy()
        if len(cells):
            # The engine of the environment has them there only until the end of its first episode.
            own = type(plc)(plc.netlist, *self.spacing)
            own.make_soft_macros_square()
            own.set_canvas_size(*self.canvas)
            own.set_placement_grid(self.columns, self.rows)
            standing = np.concatenate([plc.state.ports, self.fixed_macros])
            own.state.x[standing], own.state.y[standing] = x[standing], y[standing]
            own.state.placed[standing] = own.state.fixed[standing] = 1
            own.state.place_all_pins()
            place_everything(own)
            x[cells], y[cells] = own.state.x[cells], own.state.y[cells]
        scale = self.canvas[0] + self.canvas[1]
        x[macros] = static["locations_x"][: len(macros)].astype(np.float64) * scale
        y[macros] = static["locations_y"][: len(macros)].astype(np.float64) * scale
        return x, y

    def _constants(self, mean_side: float) -> Floats:
        """For each macro the columns from "share placed" to "cell size", shape (macros, 6)."""
        macros = len(self.order)
        areas = self.size.prod(axis=1)
        table = np.zeros((macros, 6))
        table[:, 0] = (np.cumsum(areas) - areas) / max(float(areas.sum()), 1e-12)
        table[:, 1:3] = self.size / self.canvas_array * np.sqrt(macros)
        table[:, 3] = 2.0 * (areas.sum() + self.soft_area) / (self.canvas[0] * self.canvas[1]) - 1.0
        table[:, 4] = self.weight * macros / max(float(self.weight.sum()), 1e-9) - 1.0
        table[:, 5] = np.sqrt(self.cell_size[0] * self.cell_size[1]) / mean_side
        return table

    def _macro_nets(self, netlist: Any, state: Any) -> MacroNets:
        """Collects the nets of each macro with more than its own pins on them."""
        net_of_pin = np.repeat(np.arange(netlist.num_nets), np.diff(netlist.net_start))
        owners = self.owner[netlist.net_pins]
        by_owner = np.argsort(owners, kind="stable")
        first = np.searchsorted(owners[by_owner], self.order, "left")
        after = np.searchsorted(owners[by_owner], self.order, "right")
        starts, weights, own, ends, nodes, offsets = [0], [], [], [0], [], []
        for macro, low, high in zip(self.order.tolist(), first.tolist(), after.tolist(), strict=True):
            for net in np.unique(net_of_pin[by_owner[low:high]]).tolist():
                pins = netlist.net_pins[netlist.net_start[net] : netlist.net_start[net + 1]]
                mine = self.owner[pins] == macro
                if mine.all():
                    continue
                x, y = state.offset_x[pins], state.offset_y[pins]
                weights.append(float(netlist.weight[pins[0]]))
                own.append((x[mine].min(), x[mine].max(), y[mine].min(), y[mine].max()))
                nodes.append(self.owner[pins[~mine]])
                offsets.append(np.stack([x[~mine], y[~mine]], axis=1))
                ends.append(ends[-1] + int((~mine).sum()))
            starts.append(len(weights))
        return MacroNets(
            np.array(starts, np.int64),
            np.array(weights, np.float64),
            np.array(own, np.float64).reshape(-1, 4),
            np.array(ends, np.int64),
            np.concatenate([*nodes, np.zeros(0, np.int64)]).astype(np.int64),
            np.concatenate([*offsets, np.zeros((0, 2))]),
        )
