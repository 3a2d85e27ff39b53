"""``Benchmark``: a design as a placer gets it, in plain arrays.

It crosses the wire as arrays only. NumPy is enough to read it; `Benchmark.engine` needs the domain's packages.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.netlists.netlist import (
    KIND_MACRO,
    KIND_MACRO_PIN,
    KIND_PORT,
    KIND_STDCELL,
    ORIENTATIONS,
    Names,
    Netlist,
)

if TYPE_CHECKING:
    from a2perf.domains.circuit_training.engine.cost_model import CostWeights
    from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Observation = dict[str, NDArray[Any]]

HARD, SOFT, CELL = range(3)
NODE_COLUMNS = ("kind", "soft", "owner", "width", "height", "x", "y", "x_offset", "y_offset", "weight", "side")
"""Columns of the netlist that travel as they are, beside its names, nets and the initial placement."""


@dataclass(frozen=True, eq=False)
class Benchmark:
    """One design to place. Lengths are in um, the origin is the lower left corner of the canvas; arrays are read-only.

    The *nodes* are what is placed: hard macros first, then soft macros (clusters of standard cells), then standard
    cells if the netlist has any.

    Attributes:
        name: name of the design, ``"ariane_twin"``.
        grid: columns and rows of the grid of density and congestion.
        num_hard: number of hard macros; they are the first nodes.
        node_kinds: 0 for a hard macro, 1 for a soft macro, 2 for a standard cell; int8, shape (nodes,).
        node_sizes: width and height in orientation N, float64, shape (nodes, 2).
        positions: initial centres, float64, shape (nodes, 2).
        orientations: initial orientation of each node, ``"N"`` to ``"FW"``.
        fixed: whether a node must keep its position, bool, shape (nodes,).
        port_positions: float64, shape (ports, 2).
        pin_owners: node of each pin; ``nodes + k`` for port ``k``; int64, shape (pins,).
        pin_offsets: position of the pin relative to the centre of its node in orientation N, float64, shape (pins, 2).
        net_starts: where each net starts in ``net_pins``, int64, shape (nets + 1,).
        net_pins: pins of the nets, the driver of each net first, int64, shape (ends,).
        net_weights: float64, shape (nets,).
        blockages: low x, low y, high x, high y and rate of each, float64, shape (blockages, 5).
        routes_per_micron: horizontal and vertical routing tracks per um.
        macro_routes_per_micron: tracks per um that hard macros take, horizontally and vertically.
        smooth_range: cells to either side over which congestion is smoothed.
        profile: name of the cost profile, ``"tilos"``.
        weights: weight of ``wirelength``, ``density`` and ``congestion`` in the cost.
        allowed_orientations: what ``place`` may return for hard macros: flips of the initial orientation unless the
            task says otherwise.
        time_limit_s: wall time of one call, seconds; 0 if unknown.
        seed: seed of this run, for placers that draw random numbers.
        netlist: the netlist in file order, as the engine reads it.
        order: index in ``netlist`` of each node, int64, shape (nodes,).
    """

    name: str
    canvas: tuple[float, float]
    grid: tuple[int, int]
    node_names: tuple[str, ...]
    num_hard: int
    node_kinds: NDArray[np.int8]
    node_sizes: Floats
    positions: Floats
    orientations: tuple[str, ...]
    fixed: NDArray[np.bool_]
    port_names: tuple[str, ...]
    port_positions: Floats
    pin_owners: Ints
    pin_offsets: Floats
    net_starts: Ints
    net_pins: Ints
    net_weights: Floats
    blockages: Floats
    routes_per_micron: tuple[float, float]
    macro_routes_per_micron: tuple[float, float]
    smooth_range: int
    profile: str
    weights: Mapping[str, float]
    allowed_orientations: tuple[str, ...]
    time_limit_s: float
    seed: int
    netlist: Netlist
    order: Ints
    _placed: NDArray[np.uint8]
    _all_fixed: NDArray[np.uint8]

    @classmethod
    def from_observation(cls, observation: Mapping[str, NDArray[Any]], *, seed: int = 0) -> Benchmark:
        """Returns the benchmark of an observation of ``CircuitTraining-MacroPlacement-v0``.

        Args:
            observation: the arrays; they become read-only.
        """
        at = {name: np.asarray(value) for name, value in observation.items()}
        for array in at.values():
            array.flags.writeable = False
        columns = {name: at[name] for name in NODE_COLUMNS}
        netlist = Netlist(
            source="",
            names=Names(at["name_bytes"], at["name_spans"]),
            has_location=at["placed"],
            orientation=at["orientation"],
            net_start=at["net_start"],
            net_pins=at["net_pins"],
            **columns,
        )
        order = placed_nodes(netlist)
        kinds = np.where(netlist.kind[order] == KIND_STDCELL, CELL, np.where(netlist.soft[order] == 1, SOFT, HARD))
        ports = np.flatnonzero(netlist.kind == KIND_PORT)
        owner = _owners(netlist, order, ports)
        pins, net_pins = np.unique(netlist.net_pins, return_inverse=True)
        numbers = at["numbers"].tolist()
        counts = at["counts"].tolist()
        placed = (netlist.x, netlist.y)
        names = list(netlist.names)
        return cls(
            name=at["design"].tobytes().decode(),
            canvas=(numbers[0], numbers[1]),
            grid=(counts[0], counts[1]),
            node_names=tuple(names[node] for node in order),
            num_hard=int((kinds == HARD).sum()),
            node_kinds=kinds.astype(np.int8),
            node_sizes=np.stack((netlist.width[order], netlist.height[order]), axis=1),
            positions=np.stack([axis[order] for axis in placed], axis=1),
            orientations=tuple(ORIENTATIONS[max(int(code), 0)] for code in netlist.orientation[order]),
            fixed=at["fixed"][order].astype(bool),
            port_names=tuple(names[port] for port in ports),
            port_positions=np.stack([axis[ports] for axis in placed], axis=1),
            pin_owners=owner[pins],
            pin_offsets=np.stack((netlist.x_offset[pins], netlist.y_offset[pins]), axis=1),
            net_starts=netlist.net_start,
            net_pins=net_pins.reshape(-1).astype(np.int64),
            net_weights=netlist.weight[netlist.net_pins[netlist.net_start[:-1]]],
            blockages=at["blockages"],
            routes_per_micron=(numbers[2], numbers[3]),
            macro_routes_per_micron=(numbers[4], numbers[5]),
            smooth_range=counts[2],
            profile=at["profile"].tobytes().decode(),
            weights={"wirelength": numbers[6], "density": numbers[7], "congestion": numbers[8]},
            allowed_orientations=tuple(ORIENTATIONS[code] for code in at["allowed_orientations"]),
            time_limit_s=numbers[9],
            seed=seed,
            netlist=netlist,
            order=order,
            _placed=at["placed"],
            _all_fixed=at["fixed"],
        )

    @property
    def num_nodes(self) -> int:
        """Number of nodes to place."""
        return len(self.node_names)

    def engine(self, spacing: float = 0.0) -> PlacementCost:
        """Returns a new engine with the design, its settings and the initial placement.

        Args:
            spacing: distance between hard macros, and to the edge, that the engine's masks keep, um.

        Raises:
            ImportError: the packages of the domain (Numba) are not installed in this Python.
        """
        from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost

        plc = PlacementCost(self.netlist, spacing, spacing)
        for blockage in self.blockages.tolist():
            plc.create_blockage(*blockage)
        plc.set_canvas_size(*self.canvas)
        plc.set_placement_grid(*self.grid)
        plc.set_congestion_grid(*self.grid)
        plc.set_routes_per_micron(*self.routes_per_micron)
        plc.set_macro_routing_allocation(*self.macro_routes_per_micron)
        plc.set_congestion_smooth_range(self.smooth_range)
        plc.set_canvas_boundary_check(False)
        plc.state.placed[:], plc.state.fixed[:] = self._placed, self._all_fixed
        plc.state.place_all_pins()
        return plc

    def cost_weights(self) -> CostWeights:
        """Returns the weights for `profiles.cost_profile` and `incremental.IncrementalPlacement`."""
        from a2perf.domains.circuit_training.engine.cost_model import CostWeights

        return CostWeights(**self.weights)

    @functools.cached_property
    def files(self) -> tuple[Path, Path]:
        """Paths of the netlist, protobuf text, and of the initial placement, a ``.plc`` file.

        They are written on first use into a new temporary folder.
        """
        from a2perf.domains.circuit_training.generated.design import Design
        from a2perf.domains.circuit_training.netlists.plc_file import Placed
        from a2perf_placement.netlists.conversion import add_nodes

        netlist = self.netlist
        settings = [
            "Routes per micron, hor : {:.9g}  ver : {:.9g}".format(*self.routes_per_micron),
            "Routes used by macros, hor : {:.9g}  ver : {:.9g}".format(*self.macro_routes_per_micron),
            f"Smoothing factor : {self.smooth_range}",
            *("Blockage : " + " ".join(f"{value:.9g}" for value in row) for row in self.blockages.tolist()),
        ]
        design = Design(self.name, (), self.canvas, self.grid, digits=17, settings=settings)
        add_nodes(design, netlist)
        for node in np.flatnonzero((self._placed == 1) & (netlist.kind != KIND_MACRO_PIN)).tolist():
            code = max(int(netlist.orientation[node]), 0)
            orientation = ORIENTATIONS[code] if netlist.kind[node] == KIND_MACRO else "-"
            x, y, fixed = float(netlist.x[node]), float(netlist.y[node]), bool(self._all_fixed[node])
            design.placement.append(Placed(node, x, y, orientation, fixed))
        return design.write(Path(tempfile.mkdtemp(prefix="benchmark-")))


def placed_nodes(netlist: Netlist) -> Ints:
    """Returns what a placer places: hard macros, then soft macros, then standard cells; each in file order."""
    macros = np.flatnonzero(netlist.kind == KIND_MACRO)
    soft = netlist.soft[macros] == 1
    cells = np.flatnonzero(netlist.kind == KIND_STDCELL)
    return np.concatenate((macros[~soft], macros[soft], cells)).astype(np.int64)


def _owners(netlist: Netlist, order: Ints, ports: Ints) -> Ints:
    """Returns the position among nodes and ports of every entry of the netlist; pins get that of their macro."""
    place = np.full(netlist.num_nodes, -1, np.int64)
    place[order] = np.arange(len(order))
    place[ports] = len(order) + np.arange(len(ports))
    pins = netlist.kind == KIND_MACRO_PIN
    place[pins] = place[netlist.owner[pins]]
    return place
