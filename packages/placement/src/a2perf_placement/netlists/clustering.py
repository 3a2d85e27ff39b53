"""Writes a grouped netlist: each group of standard cells becomes a soft macro with one input pin and its outputs.

The form of the published clusterings. An output with several targets outside keeps a separate pin; outputs
with one target are pooled per target, with their number as weight. Pins of soft macros lie at the centre.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.generated.design import Design
from a2perf.domains.circuit_training.netlists.netlist import (
    KIND_MACRO,
    KIND_PORT,
    KIND_STDCELL,
    ORIENTATIONS,
    SOFT_PREFIX,
)
from a2perf.domains.circuit_training.netlists.plc_file import Placed
from a2perf.errors import ConfigError
from a2perf_placement.netlists.conversion import attributes_of
from a2perf_placement.netlists.flat_design import FlatDesign
from a2perf_placement.netlists.grouping import Grouping

Ints = NDArray[np.int64]

CELL_UTILIZATION = 0.5
"""Share of a soft macro's area that its cells cover, as in the published clusterings."""
DIGITS = 10
"""Significant digits of lengths: positions in large designs keep their last nanometre."""


def clustered_design(
    flat: FlatDesign,
    grouping: Grouping,
    grid: tuple[int, int],
    *,
    max_sinks: int,
    utilization: float = CELL_UTILIZATION,
) -> tuple[Design, ClusteredPins]:
    """Returns the clustered netlist with its initial placement, and what its nets stand for.

    Args:
        flat: the design before grouping.
        utilization: share of a soft macro's area that its cells cover, 0.1..1.

    Raises:
        ConfigError: the utilization is out of its range.
    """
    if not 0.1 <= utilization <= 1.0:
        raise ConfigError(f"utilization is {utilization!r}, out of its range", hint="give a number from 0.1 to 1")
    comment = [f"Imported from {flat.netlist.source}"]
    comment += ["Blockage : " + " ".join(f"{value:.{DIGITS}g}" for value in row) for row in flat.blockages.tolist()]
    name = "_".join(flat.name.split()) or "design"  # one word, for the header of a placement file
    design = Design(name, comment, flat.canvas, grid, digits=DIGITS)
    nets = ClusteredPins(flat, grouping, max_sinks)
    _add_ports(design, flat, nets)
    _add_macros(design, flat, nets)
    _add_groups(design, flat, grouping, nets, utilization)
    return design, nets


class ClusteredPins:
    """The nets of the flat netlist, sorted by what drives them after grouping.

    Attributes:
        of_node: sinks of each port and macro pin that drives a net.
        single: weight of each (group, target), summed over the nets with that one target.
        multi: targets and weight of each net of a group with several targets.
        weight: nets between groups, macros and ports, each with its weight.
        internal: number of nets inside of a group.
        left_out: number of nets with too many sinks.
    """

    def __init__(self, flat: FlatDesign, grouping: Grouping, max_sinks: int) -> None:
        netlist = flat.netlist
        group = grouping.group
        # Targets: nodes that stay are numbered as they are, groups come behind them.
        target = np.where(group >= 0, netlist.num_nodes + group, np.arange(netlist.num_nodes))
        sizes = np.diff(netlist.net_start)
        drivers = netlist.net_pins[netlist.net_start[:-1]]
        wanted = sizes <= max_sinks + 1
        net = np.repeat(np.arange(netlist.num_nets), sizes)
        own = target[drivers][net]
        # A macro's own pins are distinct nodes: a net from one to another of them stays.
        keep = wanted[net] & (target[netlist.net_pins] != own)
        pairs = np.unique(np.column_stack([net[keep], target[netlist.net_pins][keep]]), axis=0)
        starts = np.searchsorted(pairs[:, 0], np.arange(netlist.num_nets + 1)).tolist()
        targets = pairs[:, 1].tolist()
        weights = netlist.weight[drivers].tolist()
        owners = np.where(group[drivers] >= 0, group[drivers], -1).tolist()
        self.of_node: dict[int, list[int]] = {}
        self.single: dict[int, dict[int, float]] = {}
        self.multi: dict[int, list[tuple[list[int], float]]] = {}
        self.left_out = int((~wanted).sum())
        self.internal = 0
        self.weight = 0.0
        for index in np.flatnonzero(wanted).tolist():
            ends, weight, owner = targets[starts[index] : starts[index + 1]], weights[index], owners[index]
            if not ends:
                self.internal += 1
                continue
            self.weight += weight
            if owner < 0:
                node = int(drivers[index])
                self.of_node[node] = list(dict.fromkeys([*self.of_node.get(node, []), *ends]))
            elif len(ends) == 1:
                pooled = self.single.setdefault(owner, {})
                pooled[ends[0]] = pooled.get(ends[0], 0.0) + weight
            else:
                self.multi.setdefault(owner, []).append((ends, weight))
        self._names = netlist.names
        self._nodes = netlist.num_nodes

    def names(self, targets: list[int]) -> list[str]:
        """Returns the names of the nodes that receive at the targets."""
        return [
            self._names[one] if one < self._nodes else f"{_group_name(one - self._nodes)}/Pinput" for one in targets
        ]

    def driven_by(self, node: int) -> list[str]:
        """Returns what a port or macro pin drives."""
        return self.names(self.of_node.get(node, []))


def _group_name(group: int) -> str:
    return f"{SOFT_PREFIX}{group + 1}"


def _add_ports(design: Design, flat: FlatDesign, nets: ClusteredPins) -> None:
    netlist = flat.netlist
    for node in np.flatnonzero(netlist.kind == KIND_PORT).tolist():
        index = design.add(netlist.names[node], "PORT", nets.driven_by(node), **attributes_of(netlist, node))
        design.placement.append(Placed(index, float(netlist.x[node]), float(netlist.y[node]), "-", True))


def _add_macros(design: Design, flat: FlatDesign, nets: ClusteredPins) -> None:
    netlist = flat.netlist
    macros = np.flatnonzero(netlist.kind == KIND_MACRO).tolist()
    pins_of: dict[int, list[int]] = {macro: [] for macro in macros}
    for pin in np.flatnonzero(netlist.owner >= 0).tolist():
        pins_of[int(netlist.owner[pin])].append(pin)
    for macro in macros:
        index = design.add(netlist.names[macro], "MACRO", (), **attributes_of(netlist, macro))
        # Unplaced macros start in the middle: the engine's initial run of forces moves them from there.
        x, y = flat.canvas[0] / 2.0, flat.canvas[1] / 2.0
        if netlist.has_location[macro]:
            x, y = float(netlist.x[macro]), float(netlist.y[macro])
        turned = ORIENTATIONS[netlist.orientation[macro]]
        design.placement.append(Placed(index, x, y, turned, bool(flat.fixed[macro])))
        for pin in pins_of[macro]:
            design.add(netlist.names[pin], "MACRO_PIN", nets.driven_by(pin), **attributes_of(netlist, pin))


def _add_groups(design: Design, flat: FlatDesign, grouping: Grouping, nets: ClusteredPins, utilization: float) -> None:
    netlist = flat.netlist
    cells = np.flatnonzero(netlist.kind == KIND_STDCELL)
    group, area = grouping.group[cells], (netlist.width * netlist.height)[cells]
    areas = np.bincount(group, area, minlength=grouping.count)
    located = bool(netlist.has_location[cells].all())
    width = flat.canvas[0] / design.grid[0]
    for index in range(grouping.count):
        name = _group_name(index)
        # A group of cells without area still needs a box: the engine refuses macros without height.
        height = max(float(areas[index]) / utilization / width, 1e-3)
        x, y = flat.canvas[0] / 2.0, flat.canvas[1] / 2.0
        if located:
            mine = cells[group == index]
            share = area[group == index] + 1e-12
            x, y = (float(np.average(values[mine], weights=share)) for values in (netlist.x, netlist.y))
        half_width, half_height = min(width, flat.canvas[0]) / 2.0, min(height, flat.canvas[1]) / 2.0
        x = min(max(x, half_width), flat.canvas[0] - half_width)
        y = min(max(y, half_height), flat.canvas[1] - half_height)
        macro = design.add(name, "MACRO", width=width, height=height, x=x, y=y)
        design.placement.append(Placed(macro, x, y, "N", False))
        centre = {"x_offset": 0.0, "y_offset": 0.0}
        design.add(f"{name}/Pinput", "MACRO_PIN", (), macro_name=name, **centre)
        single = [([end], weight) for end, weight in nets.single.get(index, {}).items()]
        for kind, outputs in (("multi", nets.multi.get(index, [])), ("single", single)):
            for number, (ends, weight) in enumerate(outputs):
                more = {} if weight == 1.0 else {"weight": weight}
                pin = f"{name}/Poutput_{kind}_{number}"
                design.add(pin, "MACRO_PIN", nets.names(ends), macro_name=name, **centre, **more)
