"""``PlacementCost``: the placement engine with the method names of the earlier client; code written for that runs here.

A node is named by its index in the netlist or by its name. Cells are numbered row by row from below. What the engine
refuses raises `PlacementError`.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.adjacency import macro_adjacency, macro_and_port_adjacency
from a2perf.domains.circuit_training.engine.congestion import Congestion
from a2perf.domains.circuit_training.engine.density import Density, density_cost
from a2perf.domains.circuit_training.engine.engine_nodes import EngineNodes, NetlistNode
from a2perf.domains.circuit_training.engine.force_directed import place_by_forces
from a2perf.domains.circuit_training.engine.placement import PlacementError
from a2perf.domains.circuit_training.engine.wirelength import NetsOfNodes, Wirelength
from a2perf.domains.circuit_training.mask import macro_mask, port_mask, standard_cell_mask
from a2perf.domains.circuit_training.netlists.netlist import (
    KIND_MACRO,
    KIND_MACRO_PIN,
    KIND_PORT,
    KIND_STDCELL,
    ORIENTATIONS,
    SIDES,
    Netlist,
)
from a2perf.domains.circuit_training.netlists.netlist_cache import load_netlist
from a2perf.domains.circuit_training.netlists.plc_file import (
    Blockage,
    Placed,
    PlacementFileError,
    format_placement,
    read_placement,
)
from a2perf.storage import write_atomic

Floats = NDArray[np.float64]


class PlacementCost(EngineNodes):
    """One placement of one netlist, and its cost.

    Args:
        netlist_file: path (or several, separated by commas), or a netlist that is loaded already.
        macro_macro_x_spacing, macro_macro_y_spacing: wanted distances between hard macros, um.

    Raises:
        NetlistError: the file is missing or is not a netlist.
    """

    def __init__(
        self, netlist_file: str | Path | Netlist, macro_macro_x_spacing: float = 0.0, macro_macro_y_spacing: float = 0.0
    ) -> None:
        super().__init__(netlist_file if isinstance(netlist_file, Netlist) else load_netlist(netlist_file))
        self._spacing = (float(macro_macro_x_spacing), float(macro_macro_y_spacing))
        if not all(math.isfinite(value) and value >= 0 for value in self._spacing):
            raise PlacementError(f"macro spacing {self._spacing}", hint="give finite distances from 0 on")
        self._blockages = np.zeros((0, 5))
        self._fake_nets: list[tuple[float, tuple[int, ...]]] = []
        self._start_costs()

    @property
    def macro_spacing(self) -> tuple[float, float]:
        """Wanted horizontal and vertical distance between hard macros, um."""
        return self._spacing

    def _start_costs(self) -> None:
        self.nets_of_nodes = NetsOfNodes(self.state.netlist)
        self._wirelength = Wirelength(self.state, self.nets_of_nodes)
        self._congestion = Congestion(self.state, self.nets_of_nodes)
        self._density = Density(self.state)

    # --- costs -----------------------------------------------------------------------------------------------------

    def get_cost(self) -> float:
        """Returns the wirelength relative to (width + height) for every net."""
        return self._wirelength.cost(*self._canvas)

    def get_wirelength(self) -> float:
        """Returns the weighted half-perimeter wirelength, um."""
        return self._wirelength.value(*self._canvas)

    def get_congestion_cost(self) -> float:
        """Returns the mean of the most congested twentieth of the congestion values."""
        return self._congestion.cost(self.routing_rules)

    def get_density_cost(self) -> float:
        """Returns half the mean density of the fullest tenth of the cells."""
        return density_cost(self._density_map())

    def get_area(self) -> float:
        """Returns the area of all macros and standard cells, um^2."""
        return float((self.state.width * self.state.height).sum())

    def get_overlap_cost(self) -> float:
        """Returns the area of overlaps between placed macros relative to the area of all macros.

        The earlier engine's number of that name is not documented; this one is our own.
        """
        macros = self.state.macros[self.state.placed[self.state.macros] == 1]
        boxes = self.state.boxes(macros)
        overlap = 0.0
        for i in range(len(boxes) - 1):
            width = np.minimum(boxes[i, 2], boxes[i + 1 :, 2]) - np.maximum(boxes[i, 0], boxes[i + 1 :, 0])
            height = np.minimum(boxes[i, 3], boxes[i + 1 :, 3]) - np.maximum(boxes[i, 1], boxes[i + 1 :, 1])
            overlap += float((np.maximum(width, 0) * np.maximum(height, 0)).sum())
        area = float((self.state.width[self.state.macros] * self.state.height[self.state.macros]).sum())
        return overlap / area if area else 0.0

    def get_grid_cells_density(self) -> Floats:
        """Returns the density of each placement cell."""
        # The next change may update the map in place.
        return self._density_map().copy()

    def get_horizontal_routing_congestion(self) -> Floats:
        """Returns the horizontal congestion of each congestion cell."""
        self._congestion.update(self.routing_rules)
        flat: Floats = self._congestion.maps[0].flatten()
        return flat

    def get_vertical_routing_congestion(self) -> Floats:
        """Returns the vertical congestion of each congestion cell."""
        self._congestion.update(self.routing_rules)
        flat: Floats = self._congestion.maps[1].flatten()
        return flat

    def _density_map(self) -> Floats:
        return self._density.map(self._canvas, self._grid, self._blockages)

    # --- mask ------------------------------------------------------------------------------------------------------

    def can_place_node(self, node: NetlistNode, cell: int) -> bool:
        """Returns whether the mask allows a cell."""
        mask = self.get_node_mask(node)
        return 0 <= cell < len(mask) and bool(mask[cell])

    def get_node_mask(self, node: NetlistNode) -> NDArray[np.int32]:
        """Returns 1 for each cell that a node may be placed at, 0 for the others."""
        index = self._movable(node)
        columns, rows = self._grid
        kind = self.netlist.kind[index]
        if kind == KIND_PORT:
            return port_mask(SIDES[self._side[index]], columns, rows)
        if kind == KIND_STDCELL:
            mask = standard_cell_mask(self._density_map())
        else:
            state = self.state
            mask = np.empty(columns * rows, dtype=np.int32)
            macro_mask(
                state.box_width[index],
                state.box_height[index],
                not self.netlist.soft[index],
                *self._spacing,
                *self._canvas,
                columns,
                rows,
                self._density_map(),
                state.hard,
                state.x,
                state.y,
                state.box_width,
                state.box_height,
                state.placed,
                self._blockages,
                mask,
            )
        own = self.get_grid_cell_of_node(index)
        if own >= 0:
            mask[own] = 0
        return mask

    # --- graph -----------------------------------------------------------------------------------------------------

    def get_macro_adjacency(self) -> Floats:
        """Returns the weights between all macros, row by row."""
        return macro_adjacency(self.state).reshape(-1)

    def get_macro_and_clustered_port_adjacency(self) -> tuple[Floats, list[int]]:
        """Returns the weights between macros and clusters of ports, row by row, and the clusters' cells."""
        adjacency, cells = macro_and_port_adjacency(self.state, self._canvas, self._grid)
        return adjacency.reshape(-1), cells

    def add_fake_net(self, weight: float, nodes: Sequence[NetlistNode]) -> bool:
        """Adds a net that only the fake net cost and the observation's heat map know of."""
        if not math.isfinite(weight) or len(nodes) < 2:
            raise PlacementError("a fake net needs a finite weight and two nodes", hint="give both")
        self._fake_nets.append((float(weight), tuple(self._node(node) for node in nodes)))
        return True

    def get_fake_nets(self) -> list[tuple[float, tuple[int, ...]]]:
        """Returns weight and nodes of each fake net."""
        return list(self._fake_nets)

    def get_fake_net_cost(self) -> float:
        """Returns sum(weight * half-perimeter) / sum(weight * (width + height)) over the fake nets; 0 without any.

        A net with a node that is not placed adds no length, but counts in the denominator.
        """
        length = 0.0
        total = sum(weight for weight, _ in self._fake_nets)
        if total == 0.0:
            return 0.0
        for weight, nodes in self._fake_nets:
            at = list(nodes)
            if self.state.placed[at].all():
                length += weight * float(np.ptp(self.state.x[at]) + np.ptp(self.state.y[at]))
        return length / (total * sum(self._canvas))

    def disconnect_nets(self, drivers: Sequence[NetlistNode] | None = None) -> bool:
        """Removes the nets that the given nodes drive; without any argument, all nets."""
        netlist = self.state.netlist
        keep = np.zeros(netlist.num_nets, dtype=bool)
        if drivers is not None:
            keep = ~np.isin(netlist.net_pins[netlist.net_start[:-1]], [self._node(node) for node in drivers])
        counts = np.diff(netlist.net_start)
        self.netlist = self.state.netlist = dataclasses.replace(
            netlist,
            net_start=np.concatenate(([0], np.cumsum(counts[keep]))).astype(np.int64),
            net_pins=netlist.net_pins[np.repeat(keep, counts)],
        )
        self._start_costs()
        return True

    def create_blockage(self, low_x: float, low_y: float, high_x: float, high_y: float, rate: float) -> bool:
        """Adds a rectangle (um) that raises density by ``rate`` and that hard macros may not touch."""
        corners = (low_x, low_y, high_x, high_y, rate)
        if not all(math.isfinite(value) for value in corners) or low_x > high_x or low_y > high_y or rate < 0:
            raise PlacementError(
                f"{corners} is not a blockage", hint="give low x, low y, high x, high y and a rate from 0 on"
            )
        self._blockages = np.vstack((self._blockages, corners))
        self._density.forget()
        return True

    def clear_blockages(self) -> bool:
        """Removes all blockages."""
        self._blockages = np.zeros((0, 5))
        self._density.forget()
        return True

    def get_blockages(self) -> list[Blockage]:
        """Returns low x, low y, high x, high y (um) and rate of each blockage."""
        return [tuple(map(float, blockage)) for blockage in self._blockages]  # type: ignore[misc]

    def allow_hard_macros_over_stdcells(self, allow: bool = True) -> bool:
        """Accepted for callers of the earlier client, where it changed nothing that could be observed."""
        return isinstance(allow, bool)

    # --- analytical placement --------------------------------------------------------------------------------------

    def optimize_stdcells(
        self,
        use_current_loc: bool,
        move_stdcells: bool,
        move_macros: bool,
        log_scale_conns: bool,
        use_sizes: bool,
        io_factor: float,
        num_steps: Sequence[int],
        max_move_distance: Sequence[float],
        attract_factor: Sequence[float],
        repel_factor: Sequence[float],
        *,
        skip_fixed: bool = False,
    ) -> bool:
        """Runs the force-directed placer.

        Args:
            use_current_loc: start from where nodes are instead of from the canvas's centre.
            log_scale_conns, use_sizes: must be False; what they did is not known.
            io_factor: factor on the pull of nets at ports.
            max_move_distance: largest shift along an axis in a step of each phase, um.

        Raises:
            PlacementError: a node to be moved is fixed, or the lists do not fit together.
        """
        if log_scale_conns or use_sizes:
            raise PlacementError("log_scale_conns and use_sizes are not known to this placer", hint="pass False")
        place_by_forces(
            self.state,
            self._canvas,
            self._grid,
            (num_steps, max_move_distance, attract_factor, repel_factor),
            use_current_location=use_current_loc,
            move_standard_cells=move_stdcells,
            move_macros=move_macros,
            io_factor=io_factor,
            skip_fixed=skip_fixed,
        )
        return True

    # --- files -----------------------------------------------------------------------------------------------------

    def restore_placement(self, path: str | Path) -> bool:
        """Places, turns and fixes the nodes that a placement file lists; the others stay as they are.

        Raises:
            PlacementFileError: the file is missing or broken, names a node that does not exist or is a pin, or (with
                the boundary check) puts a macro partly outside the canvas. Nothing has changed then.
        """
        rows = read_placement(path)
        for row in rows:
            self._check_row(path, row)
        # Without a dtype, an empty placement would give an array of floats, which cannot index.
        nodes = np.array([row.node for row in rows], dtype=np.intp)
        state = self.state
        state.x[nodes] = [row.x for row in rows]
        state.y[nodes] = [row.y for row in rows]
        state.placed[nodes] = 1
        state.fixed[nodes] = [row.fixed for row in rows]
        for row in rows:
            if row.orientation != "-":
                state.turn(row.node, ORIENTATIONS.index(row.orientation))
        state.place_all_pins()
        return True

    def save_placement(self, path: str | Path, user_comments: str = "") -> bool:
        """Writes the placement; nodes that are not placed are left out.

        Raises:
            OSError: the file cannot be written.
        """
        comments = header_comments(self, str(path), user_comments)
        write_atomic(Path(path), format_placement(comments, _rows(self)))
        return True

    def _check_row(self, path: str | Path, row: Placed) -> None:
        """Refuses a row that names no node, or a pin, or (with the boundary check) sticks out of the canvas."""
        where, other_netlist = f"{path}, line {row.line}", "use the placement that belongs to this netlist"
        if row.node >= self.netlist.num_nodes:
            raise PlacementFileError(
                f"{where}: there is no node {row.node}; the netlist has {self.netlist.num_nodes}", hint=other_netlist
            )
        kind, name = self.netlist.kind[row.node], self.netlist.names[row.node]
        if kind == KIND_MACRO_PIN:
            raise PlacementFileError(
                f"{where}: node {row.node} ({name!r}) is a macro pin and goes where its macro goes", hint=other_netlist
            )
        if kind == KIND_MACRO and self._boundary_check:
            width, height = self._canvas
            half_width, half_height = self.state.width[row.node] / 2, self.state.height[row.node] / 2
            if not (half_width <= row.x <= width - half_width and half_height <= row.y <= height - half_height):
                raise PlacementFileError(
                    f"{where}: macro {name!r} at ({row.x:g}, {row.y:g}) sticks out of the canvas "
                    f"({width:g} x {height:g} um)",
                    hint="correct the position, or set_canvas_boundary_check(False)",
                )


def exact_placement(plc: PlacementCost) -> str:
    """Returns the text of a placement file with every digit of the positions, and without its path and date."""
    comments = header_comments(plc, "", "")
    return format_placement(
        (line for line in comments if not line.startswith(("Source input", "This file", "Date"))), _rows(plc), digits=17
    )


def _rows(plc: PlacementCost) -> Iterator[Placed]:
    """Yields the row of each placed node that is not a pin."""
    state, netlist = plc.state, plc.netlist
    for node in np.flatnonzero((state.placed == 1) & (netlist.kind != KIND_MACRO_PIN)).tolist():
        turned = ORIENTATIONS[state.orientation[node]] if netlist.kind[node] == KIND_MACRO else "-"
        yield Placed(node, float(state.x[node]), float(state.y[node]), turned, bool(state.fixed[node]))


def header_comments(plc: PlacementCost, path: str, user_comments: str) -> Iterator[str]:
    """Yields the lines of the header, without their ``#``."""
    columns, rows = plc.get_grid_num_columns_rows()
    congestion_columns, congestion_rows = plc.get_congestion_grid_num_columns_rows()
    width, height = plc.get_canvas_width_height()
    routes, taken = plc.get_routes_per_micron(), plc.get_macro_routing_allocation()
    yield "Placement file for Circuit Training"
    yield f"Source input file(s) : {plc.get_source_filename()}"
    yield f"This file : {path}"
    yield f"Date : {datetime.datetime.now():%Y-%m-%d %H:%M:%S}"
    yield f"Columns : {columns}  Rows : {rows}"
    yield f"Congestion Columns : {congestion_columns}  Congestion Rows : {congestion_rows}"
    yield f"Width : {width:.3f}  Height : {height:.3f}"
    yield f"Area : {plc.get_area()}"
    yield f"Wirelength : {plc.get_wirelength():.3f}"
    yield f"Wirelength cost : {plc.get_cost():.4f}"
    yield f"Congestion cost : {plc.get_congestion_cost():.4f}"
    yield f"Density cost : {plc.get_density_cost():.4f}"
    yield f"Project : {plc.get_project_name()}"
    yield f"Block : {plc.get_block_name()}"
    yield f"Routes per micron, hor : {routes[0]:.3f}  ver : {routes[1]:.3f}"
    yield f"Routes used by macros, hor : {taken[0]:.3f}  ver : {taken[1]:.3f}"
    yield f"Smoothing factor : {plc.get_congestion_smooth_range()}"
    yield f"Overlap threshold : {plc.get_overlap_threshold():g}"
    yield ""
    for blockage in plc.get_blockages():
        yield "Blockage : " + " ".join(f"{value:g}" for value in blockage)
    yield ""
    yield "Counts of node types:"
    netlist = plc.netlist
    macro, pin, soft = netlist.kind == KIND_MACRO, netlist.kind == KIND_MACRO_PIN, netlist.soft == 1
    soft_pin = pin & soft[netlist.owner]
    for name, chosen in {
        "HARD_MACRO_PINs": pin & ~soft_pin,
        "HARD_MACROs": macro & ~soft,
        "MACRO_PINs": pin,
        "MACROs": macro,
        "PORTs": netlist.kind == KIND_PORT,
        "SOFT_MACRO_PINs": soft_pin,
        "SOFT_MACROs": macro & soft,
        "STDCELLs": netlist.kind == KIND_STDCELL,
    }.items():
        yield f"{name:<15} : {int(chosen.sum()):>9}"
    if user_comments:
        yield ""
        yield "User comments:"
        yield from user_comments.splitlines()
    yield ""
    yield "node_index x y orientation fixed"
