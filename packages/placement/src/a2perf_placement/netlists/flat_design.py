"""A design as a place-and-route tool has it: netlist, canvas, blockages, fixed nodes and names of library cells.

Readers collect components, ports, pins of macros and nets in the order of their file; `FlatColumns` brings them into
the order of a netlist: ports, then each hard macro followed by its pins, then standard cells. Lengths are in um, and
the origin is the lower left corner of the canvas.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.engine_nodes import PORT_INSET
from a2perf.domains.circuit_training.netlists.netlist import (
    KIND_MACRO,
    KIND_MACRO_PIN,
    KIND_PORT,
    KIND_STDCELL,
    SIDES,
    Names,
    Netlist,
    NetlistError,
)
from a2perf_placement.netlists.task_files import ImportedMacro

Floats = NDArray[np.float64]
PORT_CODE, PIN_CODE = 1 << 29, 1 << 30
TURNED = (4, 5, 6, 7)
"""Indices of the orientations that exchange width and height: E, W, FE, FW."""


@dataclass(frozen=True, eq=False)
class FlatDesign:
    """A design before grouping.

    Attributes:
        netlist: ports, hard macros with their connected pins, and standard cells; several nets may have the same
            standard cell as driver, one per output.
        canvas: width and height, um.
        origin: lower left corner of the canvas in the coordinates of the source, um.
        fixed: 1 for each node that the source fixes, uint8, shape (nodes,).
        blockages: low x, low y, high x, high y (um) and rate (0..1), shape (n, 5).
        macros: name and library cell of each hard macro in the source, by node.
        notes: what was left out or assumed, one sentence each.
    """

    netlist: Netlist
    name: str
    canvas: tuple[float, float]
    origin: tuple[float, float]
    fixed: NDArray[np.uint8]
    blockages: Floats
    macros: dict[int, ImportedMacro]
    notes: tuple[str, ...] = ()


@dataclass
class Components:
    """Cells and macros, or ports, in file order; one entry per component in every column.

    Attributes:
        names: names as in the file.
        width, height: in orientation N, um.
        x, y: lower left corner of the box as it lies, in the coordinates of the file, um.
        placed, fixed, hard: 0 or 1.
        orientation: index into ``ORIENTATIONS``.
    """

    names: list[bytes] = field(default_factory=list)
    width: array[float] = field(default_factory=lambda: array("d"))
    height: array[float] = field(default_factory=lambda: array("d"))
    x: array[float] = field(default_factory=lambda: array("d"))
    y: array[float] = field(default_factory=lambda: array("d"))
    placed: array[int] = field(default_factory=lambda: array("b"))
    fixed: array[int] = field(default_factory=lambda: array("b"))
    hard: array[int] = field(default_factory=lambda: array("b"))
    orientation: array[int] = field(default_factory=lambda: array("b"))

    def add(self, name: bytes, size: tuple[float, float], *, hard: bool, fixed: bool) -> int:
        """Adds a component that is not placed, and returns its index."""
        self.names.append(name)
        self.width.append(size[0])
        self.height.append(size[1])
        self.hard.append(hard)
        self.fixed.append(fixed)
        for column in (self.x, self.y, self.placed, self.orientation):
            column.append(0)
        return len(self.names) - 1

    def place(self, index: int, x: float, y: float, orientation: int) -> None:
        """Gives a component its place."""
        self.x[index], self.y[index], self.placed[index], self.orientation[index] = x, y, 1, orientation


@dataclass
class MacroPins:
    """Connected pins of hard macros: component, offset from its centre in N (um) and name."""

    component: array[int] = field(default_factory=lambda: array("i"))
    x: array[float] = field(default_factory=lambda: array("d"))
    y: array[float] = field(default_factory=lambda: array("d"))
    names: list[bytes] = field(default_factory=list)

    def add(self, component: int, x: float, y: float, name: bytes) -> int:
        """Adds a pin and returns its code as an end of nets."""
        self.component.append(component)
        self.x.append(x)
        self.y.append(y)
        self.names.append(name)
        return PIN_CODE + len(self.names) - 1


@dataclass
class NetColumns:
    """Nets: where each ends in ``pins``, its ends (driver first) and its weight.

    An end is a component, or ``PORT_CODE`` plus a port, or the code of a pin of a hard macro.
    """

    ends: array[int] = field(default_factory=lambda: array("q"))
    pins: array[int] = field(default_factory=lambda: array("i"))
    weights: array[float] = field(default_factory=lambda: array("d"))

    def add(self, pins: list[int], driver: int, weight: float) -> None:
        """Adds a net with the position of its driver, -1 for the first; an end that occurs twice counts once."""
        if driver > 0:
            pins[0], pins[driver] = pins[driver], pins[0]
        distinct = pins if len(set(pins)) == len(pins) else list(dict.fromkeys(pins))
        if len(distinct) > 1:
            self.pins.extend(distinct)
            self.ends.append(len(self.pins))
            self.weights.append(weight)


@dataclass
class FlatColumns:
    """What a reader collects, in the order of its file.

    Attributes:
        masters: library cell of each hard macro, by component.
    """

    components: Components = field(default_factory=Components)
    ports: Components = field(default_factory=Components)
    pins: MacroPins = field(default_factory=MacroPins)
    nets: NetColumns = field(default_factory=NetColumns)
    masters: dict[int, str] = field(default_factory=dict)

    def assembled(
        self,
        *,
        source: str,
        name: str,
        box: tuple[float, float, float, float],
        blockages: Sequence[tuple[float, float, float, float, float]] = (),
        notes: Sequence[str] = (),
    ) -> FlatDesign:
        """Returns the design of what was collected.

        Args:
            box: low x, low y, high x and high y of the canvas in the coordinates of the file, um.
            blockages: in the coordinates of the file, um, with their rates.
            notes: what was left out or assumed.

        Raises:
            NetlistError: the canvas is empty, a macro has no area, or nothing has to be placed.
        """
        components, ports, pins = self.components, self.ports, self.pins
        notes = list(notes)
        width, height = box[2] - box[0], box[3] - box[1]
        if not (width > 0.0 and height > 0.0):
            raise NetlistError(
                f"{source}: the canvas is {width:g} x {height:g} um", hint="give the design a DIEAREA or rows"
            )
        hard = np.array(components.hard, dtype=bool)
        sizes = np.stack([np.array(components.width), np.array(components.height)], axis=1).reshape(-1, 2)
        if (hard & (sizes <= 0).any(axis=1)).any():
            which = components.names[int(np.argmax(hard & (sizes <= 0).any(axis=1)))].decode(errors="replace")
            raise NetlistError(f"{source}: macro {which!r} has no area", hint="give its MACRO a SIZE in the LEF file")
        if not hard.any():
            raise NetlistError(
                f"{source}: no hard macro among {len(hard)} components",
                hint="name the LEF files of the macros, too; a macro has CLASS BLOCK",
            )
        order = _Order(hard, len(ports.names), np.array(pins.component, dtype=np.int64))
        count = order.count
        kind = np.full(count, KIND_STDCELL, np.int8)
        kind[: len(ports.names)] = KIND_PORT
        kind[order.component[hard]] = KIND_MACRO
        kind[order.pin] = KIND_MACRO_PIN
        owner = np.full(count, -1, np.int32)
        owner[order.pin] = order.component[np.array(pins.component, dtype=np.int64)]
        columns = {key: np.zeros(count) for key in ("width", "height", "x", "y", "x_offset", "y_offset")}
        located, fixed = np.zeros(count, np.uint8), np.zeros(count, np.uint8)
        orientation, side = np.zeros(count, np.int8), np.zeros(count, np.int8)
        at, turned = order.component, np.isin(np.array(components.orientation), TURNED)
        columns["width"][at], columns["height"][at] = sizes.T
        lying = np.where(turned[:, None], sizes[:, ::-1], sizes)
        columns["x"][at] = np.array(components.x) - box[0] + lying[:, 0] / 2.0
        columns["y"][at] = np.array(components.y) - box[1] + lying[:, 1] / 2.0
        located[at], fixed[at] = np.array(components.placed), np.array(components.fixed)
        orientation[at] = np.where(hard, np.array(components.orientation), 0)
        for key in ("x", "y"):
            columns[key][located == 0] = 0.0
            columns[f"{key}_offset"][order.pin] = np.array(getattr(pins, key))
        port_x, port_y, sides = _on_canvas(ports, box)
        columns["x"][: len(sides)], columns["y"][: len(sides)] = port_x, port_y
        side[: len(sides)] = sides
        located[: len(sides)] = fixed[: len(sides)] = 1
        if unplaced := len(ports.names) - sum(ports.placed):
            notes.append(f"{unplaced:,} ports without a position were spread around the canvas")
        net_start, net_pins, weight = order.nets(self.nets)
        netlist = Netlist(
            source=source,
            names=order.names(components.names, ports.names, pins),
            kind=kind,
            soft=np.zeros(count, np.uint8),
            owner=owner,
            weight=weight,
            has_location=located,
            side=side,
            orientation=orientation,
            net_start=net_start,
            net_pins=net_pins,
            **columns,
        )
        shift = np.array([box[0], box[1], box[0], box[1], 0.0])
        rates = np.array(blockages, dtype=np.float64).reshape(-1, 5) - shift
        return FlatDesign(
            netlist=netlist,
            name=name,
            canvas=(width, height),
            origin=(box[0], box[1]),
            fixed=fixed,
            blockages=_inside(rates, (width, height)),
            macros={
                int(order.component[index]): ImportedMacro(
                    component=components.names[index].decode(errors="replace"), master=self.masters.get(index, "")
                )
                for index in np.flatnonzero(hard).tolist()
            },
            notes=tuple(notes),
        )


class _Order:
    """Where each port, component and pin of a macro lies among the nodes."""

    def __init__(self, hard: NDArray[np.bool_], ports: int, pin_component: NDArray[np.int64]) -> None:
        pins_of = np.bincount(pin_component, minlength=len(hard)) if len(pin_component) else np.zeros(len(hard), int)
        self.hard = hard
        self.ports = ports
        self.count = ports + len(hard) + len(pin_component)
        self.component = np.zeros(len(hard), np.int64)
        taken = np.where(hard, 1 + pins_of, 0)
        self.component[hard] = ports + (np.cumsum(taken) - taken)[hard]
        self.component[~hard] = ports + int(taken.sum()) + np.arange(int((~hard).sum()))
        by_macro = np.argsort(pin_component, kind="stable")
        within = np.arange(len(pin_component)) - (np.cumsum(pins_of) - pins_of)[pin_component[by_macro]]
        self.pin = np.zeros(len(pin_component), np.int64)
        self.pin[by_macro] = self.component[pin_component[by_macro]] + 1 + within

    def names(self, components: list[bytes], ports: list[bytes], pins: MacroPins) -> Names:
        ordered: list[bytes] = [b""] * self.count
        ordered[: self.ports] = ports
        for node, name in zip(self.component.tolist(), components, strict=True):
            ordered[node] = name
        for node, component, name in zip(self.pin.tolist(), pins.component, pins.names, strict=True):
            ordered[node] = components[component] + b"/" + name
        # DEF escapes brackets; in protobuf text a backslash would start an escape.
        ordered = [name.replace(b"\\", b"") if b"\\" in name else name for name in ordered]
        lengths = np.fromiter(map(len, ordered), np.int64, self.count)
        blob = np.frombuffer(b"".join(ordered), np.uint8)
        return Names(blob, np.stack((np.cumsum(lengths) - lengths, lengths), axis=1))

    def nets(self, nets: NetColumns) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
        """Returns starts and pins of the nets, and the weight of each node's net."""
        codes = np.array(nets.pins, dtype=np.int64)
        is_pin, is_port = codes >= PIN_CODE, (codes >= PORT_CODE) & (codes < PIN_CODE)
        found = np.empty(len(codes), np.int32)
        found[is_pin] = self.pin[codes[is_pin] - PIN_CODE]
        found[is_port] = codes[is_port] - PORT_CODE
        plain = ~(is_pin | is_port)
        found[plain] = self.component[codes[plain]]
        starts = np.concatenate(([0], np.array(nets.ends, dtype=np.int64)))
        weight = np.ones(self.count)
        weight[found[starts[:-1]]] = np.array(nets.weights)
        return starts, found, weight


def _on_canvas(ports: Components, box: tuple[float, float, float, float]) -> tuple[Floats, Floats, NDArray[np.int8]]:
    """Returns positions and sides of ports; outside the engine's grid a port would take its nets out of the costs."""
    width, height = box[2] - box[0], box[3] - box[1]
    x, y = np.array(ports.x) - box[0], np.array(ports.y) - box[1]
    missing = np.flatnonzero(np.array(ports.placed) == 0)
    along = 4.0 * (np.arange(len(missing)) + 0.5) / max(1, len(missing))
    edge, share = along.astype(int), along % 1.0
    x[missing] = np.choose(edge, [share * width, np.full_like(share, width), (1 - share) * width, 0.0 * share])
    y[missing] = np.choose(edge, [0.0 * share, share * height, np.full_like(share, height), (1 - share) * height])
    x = np.clip(x, PORT_INSET, width - PORT_INSET)
    y = np.clip(y, PORT_INSET, height - PORT_INSET)
    # The nearest edge; ties go in the order LEFT, RIGHT, TOP, BOTTOM.
    distance = np.stack([x, width - x, height - y, y])
    return x, y, (1 + np.argmin(distance, axis=0)).astype(np.int8) if len(x) else np.zeros(0, np.int8)


def _inside(blockages: Floats, canvas: tuple[float, float]) -> Floats:
    """Returns blockages cut at the canvas, without those that lie outside."""
    limits = np.array([canvas[0], canvas[1], canvas[0], canvas[1]])
    blockages = blockages.copy()
    blockages[:, :4] = np.clip(blockages[:, :4], 0.0, limits)
    chosen = (blockages[:, 2] > blockages[:, 0]) & (blockages[:, 3] > blockages[:, 1]) & (blockages[:, 4] > 0.0)
    return blockages[chosen]


assert SIDES[1:] == ("LEFT", "RIGHT", "TOP", "BOTTOM")  # the order that _on_canvas numbers them in
