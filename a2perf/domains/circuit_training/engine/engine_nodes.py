"""Questions about and moves of single nodes, under the names of the earlier client.

A node is named by its index in the netlist or by its name. Cells are numbered row by row from below.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.engine_settings import EngineAccessors
from a2perf.domains.circuit_training.engine.placement import Placement, PlacementError
from a2perf.domains.circuit_training.netlists.netlist import (
    KIND_MACRO,
    KIND_MACRO_PIN,
    KIND_PORT,
    KINDS,
    ORIENTATIONS,
    SIDES,
    Netlist,
)
from a2perf.errors import did_you_mean

NetlistNode = int | str

PORT_INSET = 0.001  # um from the edge at which ports with a side lie


class EngineNodes(EngineAccessors):
    """The part of the engine that knows nodes and moves them.

    Attributes:
        state: positions, orientations, what is placed and fixed; not to be written to from outside.
    """

    def __init__(self, netlist: Netlist) -> None:
        self.netlist = netlist
        self.state = Placement(netlist)
        super().__init__(float((netlist.width * netlist.height).sum()), netlist.source)
        self._side = netlist.side.copy()

    # --- nodes -----------------------------------------------------------------------------------------------------

    def num_nodes(self) -> int:
        """Returns the number of nodes."""
        return self.netlist.num_nodes

    def get_macro_indices(self) -> list[int]:
        """Returns the indices of all macros, hard and soft, ascending."""
        macros: list[int] = self.state.macros.tolist()
        return macros

    @property
    def hard_macro_indices(self) -> NDArray[np.int64]:
        """Indices of the hard macros, ascending."""
        return self.state.hard

    @property
    def soft_macro_indices(self) -> NDArray[np.int64]:
        """Indices of the soft macros, ascending."""
        return self.state.soft

    def get_node_index(self, name: str) -> int:
        """Returns the index of the node of that name."""
        return self.netlist.names.find(name)

    def get_node_type(self, node: NetlistNode) -> str:
        """Returns MACRO, MACRO_PIN, STDCELL or PORT; empty behind the last node."""
        if not isinstance(node, str) and int(node) >= self.netlist.num_nodes:
            return ""
        return KINDS[self.netlist.kind[self._node(node)]]

    def get_node_name(self, node: NetlistNode) -> str:
        """Returns the name of a node."""
        return self.netlist.names[self._node(node)]

    def get_node_width_height(self, node: NetlistNode) -> tuple[float, float]:
        """Returns the size of a node in orientation N, um."""
        index = self._node(node)
        return float(self.state.width[index]), float(self.state.height[index])

    def get_node_location(self, node: NetlistNode) -> tuple[float, float]:
        """Returns the centre of a node, um; (-1, -1) if the node is not placed."""
        index = self._node(node)
        if not self.state.placed[index]:
            return -1.0, -1.0
        return float(self.state.x[index]), float(self.state.y[index])

    def get_node_weight(self, node: NetlistNode) -> float:
        """Returns the weight of the net that a node drives."""
        return float(self.netlist.weight[self._node(node)])

    def get_ref_node_id(self, node: NetlistNode) -> int:
        """Returns the macro of a macro pin, -1 for other nodes."""
        return int(self.netlist.owner[self._node(node)])

    def get_fan_outs_of_node(self, node: NetlistNode) -> list[int]:
        """Returns the distinct nodes that a node drives."""
        netlist, index = self.state.netlist, self._node(node)
        starts = netlist.net_start[:-1]
        net = np.flatnonzero(netlist.net_pins[starts] == index)
        if len(net) == 0:
            return []
        fan_outs: list[int] = netlist.net_pins[starts[net[0]] + 1 : netlist.net_start[net[0] + 1]].tolist()
        return fan_outs

    def is_node_soft_macro(self, node: NetlistNode) -> bool:
        """Returns whether a node is a soft macro."""
        return bool(self.netlist.soft[self._node(node)])

    def is_node_placed(self, node: NetlistNode) -> bool:
        """Returns whether a node is placed."""
        return bool(self.state.placed[self._node(node)])

    def is_node_fixed(self, node: NetlistNode) -> bool:
        """Returns whether a node is fixed."""
        return bool(self.state.fixed[self._node(node)])

    def has_area_constraint(self, node: NetlistNode | None = None) -> bool:
        """Returns False: no netlist of this format constrains a node to an area."""
        if node is not None:
            self._node(node)
        return False

    def fix_node_coord(self, node: NetlistNode) -> bool:
        """Forbids moving a node."""
        self.state.fixed[self._movable(node)] = 1
        return True

    def unfix_node_coord(self, node: NetlistNode) -> bool:
        """Allows moving a node."""
        self.state.fixed[self._movable(node)] = 0
        return True

    def node_boxes(self, nodes: Sequence[int]) -> NDArray[np.float64]:
        """Returns left, lower, right and upper edge of nodes as they lie, um, shape (n, 4)."""
        return self.state.boxes(nodes)

    def get_macro_bloat_width(self, node: NetlistNode) -> float:
        """Returns 0, as the earlier engine always did."""
        self._node(node)
        return 0.0

    get_macro_bloat_height = get_macro_bloat_width

    def _node(self, node: NetlistNode) -> int:
        if isinstance(node, str):
            return self.netlist.names.find(node)
        try:
            # Accepts NumPy integers and refuses floats, which int() would truncate.
            index = operator.index(node)
        except TypeError:
            raise PlacementError(f"{node!r} is neither an index nor a name of a node", hint="pass either") from None
        if not 0 <= index < self.netlist.num_nodes:
            raise PlacementError(
                f"there is no node {index}", hint=f"nodes are numbered from 0 to {self.netlist.num_nodes - 1}"
            )
        return index

    def _movable(self, node: NetlistNode) -> int:
        index = self._node(node)
        if self.netlist.kind[index] == KIND_MACRO_PIN:
            raise PlacementError(
                f"{self.netlist.names[index]!r} is a macro pin and goes where its macro goes", hint="name the macro"
            )
        return index

    def _unfixed(self, node: NetlistNode, what: str) -> int:
        index = self._movable(node)
        if self.state.fixed[index]:
            raise PlacementError(f"cannot {what} fixed node {self.netlist.names[index]!r}", hint="unfix it first")
        return index

    def _macro(self, node: NetlistNode) -> int:
        index = self._node(node)
        if self.netlist.kind[index] != KIND_MACRO:
            raise PlacementError(f"{self.netlist.names[index]!r} is not a macro", hint="name a macro")
        return index

    # --- placing ---------------------------------------------------------------------------------------------------

    def place_node(self, node: NetlistNode, cell: int) -> bool:
        """Moves the centre of a node to the centre of a cell, whether the cell is free or not.

        Raises:
            PlacementError: the node is fixed or a pin, there is no such cell, or (with the boundary check) the node
                would stick out of the canvas.
        """
        index = self._unfixed(node, "place")
        x, y = self.cell_centre(cell)
        self._check_boundary(index, x, y)
        self.state.put(index, x, y)
        return True

    def cell_centre(self, cell: int) -> tuple[float, float]:
        """Returns the centre of a cell of the placement grid, um.

        Raises:
            PlacementError: the cell does not exist.
        """
        columns, rows = self._grid
        if not 0 <= cell < columns * rows:
            raise PlacementError(f"there is no cell {cell}", hint=f"cells are numbered from 0 to {columns * rows - 1}")
        row, column = divmod(int(cell), columns)
        return (column + 0.5) * (self._canvas[0] / columns), (row + 0.5) * (self._canvas[1] / rows)

    def unplace_node(self, node: NetlistNode) -> bool:
        """Takes a node off the canvas."""
        self.state.take(self._unfixed(node, "unplace"))
        return True

    def unplace_all_nodes(self) -> bool:
        """Takes every node that is not fixed off the canvas."""
        self.state.take_all()
        return True

    def update_node_coords(self, node: NetlistNode, x: float, y: float) -> bool:
        """Places a node at a position; a port with a side is put onto that edge.

        Raises:
            PlacementError: the node is fixed or a pin, the position is not finite, or (with the boundary check) the
                node would stick out of the canvas.
        """
        index = self._unfixed(node, "move")
        if not (math.isfinite(x) and math.isfinite(y)):
            raise PlacementError(f"({x}, {y}) is not a position", hint="give finite coordinates")
        if self.netlist.kind[index] == KIND_PORT:
            x, y = self._snapped(index, x, y)
        self._check_boundary(index, x, y)
        self.state.put(index, float(x), float(y))
        return True

    def get_grid_cell_of_node(self, node: NetlistNode) -> int:
        """Returns the placement cell of a node's centre; -1 if the node is not placed or lies outside the grid."""
        index = self._node(node)
        columns, rows = self._grid
        if not self.state.placed[index]:
            return -1
        column = int(self.state.x[index] / (self._canvas[0] / columns))
        row = int(self.state.y[index] / (self._canvas[1] / rows))
        return row * columns + column if 0 <= column < columns and 0 <= row < rows else -1

    def get_macro_orientation(self, node: NetlistNode) -> str:
        """Returns the orientation of a macro."""
        return ORIENTATIONS[self.state.orientation[self._macro(node)]]

    def update_macro_orientation(self, node: NetlistNode, orientation: str) -> bool:
        """Turns a macro about its centre."""
        index = self._macro(node)
        if orientation not in ORIENTATIONS:
            raise PlacementError(
                f"{orientation!r} is not an orientation{did_you_mean(str(orientation), ORIENTATIONS)}",
                hint=f"choose one of: {', '.join(ORIENTATIONS)}",
            )
        self.state.turn(index, ORIENTATIONS.index(orientation))
        return True

    def make_soft_macros_square(self) -> bool:
        """Gives soft macros equal sides, their area kept."""
        soft = self.state.soft
        side = np.sqrt(self.state.width[soft] * self.state.height[soft])
        self.state.resize(soft, side, side)
        return True

    def _check_boundary(self, index: int, x: float, y: float) -> None:
        if not self._boundary_check or self.netlist.kind[index] != KIND_MACRO:
            return
        half_width, half_height = self.state.box_width[index] / 2, self.state.box_height[index] / 2
        width, height = self._canvas
        if x - half_width < 0 or y - half_height < 0 or x + half_width > width or y + half_height > height:
            raise PlacementError(
                f"macro {self.netlist.names[index]!r} at ({x:g}, {y:g}) sticks out of the canvas "
                f"({width:g} x {height:g} um)",
                hint="place it inside, or set_canvas_boundary_check(False)",
            )

    # --- ports -----------------------------------------------------------------------------------------------------

    def _snapped(self, index: int, x: float, y: float) -> tuple[float, float]:
        width, height = self._canvas
        side = SIDES[self._side[index]]
        if side in ("LEFT", "RIGHT"):
            return (PORT_INSET if side == "LEFT" else width - PORT_INSET), y
        if side in ("TOP", "BOTTOM"):
            return x, (PORT_INSET if side == "BOTTOM" else height - PORT_INSET)
        return x, y

    def update_port_sides(self) -> bool:
        """Gives each placed port without a side that of its sector of the canvas, as its diagonals cut it."""
        width, height = self._canvas
        for port in self.state.ports:
            if self._side[port] == 0 and self.state.placed[port]:
                x, y = self.state.x[port], self.state.y[port]
                rising = x * height / width
                falling = height - rising
                if y > rising:
                    side = "TOP" if y > falling else "LEFT"
                else:
                    side = "RIGHT" if y > falling else "BOTTOM"
                self._side[port] = SIDES.index(side)
        return True

    def snap_ports_to_edges(self) -> bool:
        """Puts placed ports onto the edge of their side."""
        for port in self.state.ports[self.state.placed[self.state.ports] == 1].tolist():
            self.state.put(port, *self._snapped(port, float(self.state.x[port]), float(self.state.y[port])))
        return True
