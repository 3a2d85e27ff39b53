"""Generated flat designs as LEF and DEF, or Bookshelf: for tests, documentation and measurements.

Connections follow Rent's rule, as in the generated netlists of this domain. Cells lie in rows in the order of the
hierarchy, memories in a row at the top. The text is written piece by piece: a design of a million nets needs little
memory. The same specification gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.arguments import refuse_unknown
from a2perf.domains.circuit_training.generated.design_plan import in_rows
from a2perf.domains.circuit_training.netlists.connectivity import hilbert_positions, rent_nets
from a2perf.errors import ConfigError

UNITS = 1000
"""Database units per um of the DEF files."""
ROW_HEIGHT, SITE = 1.4, 0.2
"""Height of a row and width of its sites, um."""
_CELL_SITES = (3, 4, 6, 9)  # widths of the cells, in sites
_INPUTS = 12  # pins of a cell besides its output; more sinks on one cell share the last pin
_MACRO_SHAPES = ((30.0, 42.0), (44.0, 28.0), (36.4, 36.4))
_MACRO_INPUTS, _MACRO_OUTPUTS = 24, 16
_FAN_OUTS = ((1, 0.52), (2, 0.2), (3, 0.11), (4, 0.07), (6, 0.06), (10, 0.03), (16, 0.01))
_FORMATS = ("lefdef", "bookshelf")


@dataclass(frozen=True)
class FlatSpec:
    """Parameters of a generated flat design.

    Attributes:
        cells: standard cells, 10..5,000,000; each drives one net.
        macros: memories, 1..1000.
        ports: ports around the die, 4..100,000.
        utilization: share of the die that cells and macros cover, 0.1..0.9.
        rent_exponent: p of Rent's rule, 0.1..0.95.
    """

    cells: int = 2000
    macros: int = 8
    ports: int = 48
    seed: int = 0
    utilization: float = 0.5
    rent_exponent: float = 0.62

    def __post_init__(self) -> None:
        """Raises ConfigError where a value is out of its range."""
        limits = {
            "cells": (10, 5_000_000),
            "macros": (1, 1000),
            "ports": (4, 100_000),
            "seed": (0, 2**63),
            "utilization": (0.1, 0.9),
            "rent_exponent": (0.1, 0.95),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not low <= value <= high:
                raise ConfigError(f"{name} is {value!r}, out of its range", hint=f"give a number from {low} to {high}")

    @property
    def name(self) -> str:
        """Name of the design."""
        return f"flat_{self.cells}_{self.macros}_seed{self.seed}"


def write_flat_design(spec: FlatSpec, folder: str | Path, kind: str = "lefdef") -> list[Path]:
    """Writes a generated flat design and returns the paths of its files.

    Args:
        folder: folder to write to; made if needed.
        kind: ``"lefdef"`` for ``cells.lef``, ``macros.lef`` and ``design.def``; ``"bookshelf"`` for ``design.aux`` and
            its files.

    Returns:
        The paths of the files.

    Raises:
        ConfigError: unknown kind.
        OSError: a file cannot be written.
    """
    refuse_unknown([kind], _FORMATS, "a format")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    plan = _FlatPlan(spec)
    if kind == "bookshelf":
        texts = {f"design.{ending}": lines for ending, lines in _bookshelf(plan).items()}
    else:
        texts = {"cells.lef": _cells_lef(), "macros.lef": _macros_lef(), "design.def": _def(plan)}
    paths = []
    for name, lines in texts.items():
        paths.append(folder / name)
        with paths[-1].open("w", encoding="ascii") as stream:
            stream.writelines(f"{line}\n" for line in lines)
    return paths


class _FlatPlan:
    """Sizes, positions and nets; leaves of the hierarchy are cells and macros in random order."""

    def __init__(self, spec: FlatSpec) -> None:
        self.spec = spec
        generator = np.random.default_rng([1, spec.seed, spec.cells, spec.macros])
        self.generator = generator
        self.cell_kind = generator.integers(len(_CELL_SITES), size=spec.cells)
        self.macro_kind = generator.integers(len(_MACRO_SHAPES), size=spec.macros)
        shapes = np.array(_MACRO_SHAPES)[self.macro_kind]
        widths = np.array(_CELL_SITES)[self.cell_kind] * SITE
        area = float(shapes.prod(axis=1).sum()) + float(widths.sum()) * ROW_HEIGHT
        side = math.sqrt(area / spec.utilization)
        while (places := in_rows(shapes, (side, side))) is None:
            side *= 1.05
        self.side = math.ceil(side / ROW_HEIGHT) * ROW_HEIGHT
        self.macros = places - shapes / 2.0 + np.array([0.0, self.side - side])
        top = float(self.macros[:, 1].min())
        self.leaves = spec.cells + spec.macros
        leaf_of = generator.permutation(self.leaves)
        # Cells fill what lies below the memories, along a Hilbert curve that keeps blocks of the hierarchy together.
        at = hilbert_positions(self.leaves)[leaf_of[: spec.cells]] * np.array([self.side - 2.0, max(top - 3.0, 1.0)])
        self.cells = np.column_stack([np.floor(at[:, 0] / SITE) * SITE, np.floor(at[:, 1] / ROW_HEIGHT) * ROW_HEIGHT])
        self.leaf_of = leaf_of
        self.node_of = np.empty(self.leaves, np.int64)
        self.node_of[leaf_of] = np.arange(self.leaves)
        along = 4.0 * (np.arange(spec.ports) + 0.5) / spec.ports
        edge, share = along.astype(int), along % 1.0 * self.side
        zero, far = np.zeros(spec.ports), np.full(spec.ports, self.side)
        self.ports = np.column_stack(
            [
                np.choose(edge, [share, far, self.side - share, zero]),
                np.choose(edge, [zero, share, far, self.side - share]),
            ]
        )

    @property
    def num_nets(self) -> int:
        """Number of nets: one per input port, cell and output of a macro."""
        return self.input_ports + self.spec.cells + self.spec.macros * _MACRO_OUTPUTS

    @property
    def input_ports(self) -> int:
        """Number of ports that drive; the others receive, one net each."""
        return self.spec.ports // 2

    @property
    def port_names(self) -> list[str]:
        """Names of the ports, those that drive first."""
        driving, receiving = range(self.input_ports), range(self.spec.ports - self.input_ports)
        return [*(f"in[{k}]" for k in driving), *(f"out[{k}]" for k in receiving)]

    def nets(self) -> Iterator[list[tuple[str, str]]]:
        """Yields the component (``PIN`` for ports) and pin of each net's ends, the driver first."""
        spec, generator, leaves = self.spec, self.generator, self.leaf_of
        fan_outs, shares = zip(*_FAN_OUTS, strict=True)
        ports = generator.integers(self.leaves, size=self.input_ports)
        of_macros = np.repeat(leaves[spec.cells :], _MACRO_OUTPUTS)
        drivers: NDArray[np.int64] = np.concatenate([ports, leaves[: spec.cells], of_macros])
        counts = generator.choice(fan_outs, size=len(drivers), p=np.array(shares) / sum(shares))
        used = np.zeros(spec.macros + spec.cells, np.int32)
        receiving = spec.ports - self.input_ports
        every = max(1, spec.cells // max(1, receiving))
        for index, sinks in enumerate(rent_nets(generator, self.leaves, drivers, counts, spec.rent_exponent)):
            cell = index - self.input_ports
            if cell < 0:
                ends = [("PIN", f"in[{index}]")]
            elif cell < spec.cells:
                ends = [(f"c{cell}", "Z")]
            else:
                macro, pin = divmod(cell - spec.cells, _MACRO_OUTPUTS)
                ends = [(f"ram/m{macro}", f"q[{pin}]")]
            for sink in sinks:
                node = int(self.node_of[sink])
                number = int(used[node])
                used[node] += 1
                if node < spec.cells:
                    ends.append((f"c{node}", f"A{min(number, _INPUTS - 1)}"))
                elif number < _MACRO_INPUTS:
                    ends.append((f"ram/m{node - spec.cells}", f"d[{number}]"))
            if 0 <= cell < spec.cells and cell % every == 0 and cell // every < receiving:
                ends.append(("PIN", f"out[{cell // every}]"))
            yield ends


def _cells_lef() -> Iterator[str]:
    yield from ("VERSION 5.8 ;", 'BUSBITCHARS "[]" ;', 'DIVIDERCHAR "/" ;', "UNITS", "  DATABASE MICRONS 1000 ;")
    yield from ("END UNITS", "LAYER metal1", "  TYPE ROUTING ;", "  DIRECTION HORIZONTAL ;", "  WIDTH 0.07 ;")
    yield from ("END metal1", "SITE core", f"  CLASS CORE ;\n  SIZE {SITE} BY {ROW_HEIGHT} ;", "END core")
    for sites in _CELL_SITES:
        width = round(sites * SITE, 4)
        yield f"MACRO GATE_X{sites}\n  CLASS CORE ;\n  ORIGIN 0 0 ;\n  SIZE {width} BY {ROW_HEIGHT} ;\n  SITE core ;"
        for name, direction, at in [
            ("Z", "OUTPUT", 0.9),
            *((f"A{k}", "INPUT", 0.1 + 0.05 * k) for k in range(_INPUTS)),
        ]:
            x = round(at * width, 4)
            yield from _pin_lef(name, direction, (x, 0.6, round(x + 0.02, 4), 0.7))
        yield f"END GATE_X{sites}"
    yield "END LIBRARY"


def _macros_lef() -> Iterator[str]:
    yield "VERSION 5.8 ;"
    for number, (width, height) in enumerate(_MACRO_SHAPES):
        yield f"MACRO RAM_{number}\n  CLASS BLOCK ;\n  ORIGIN 0 0 ;\n  SIZE {width} BY {height} ;"
        for k in range(_MACRO_INPUTS):
            y = round(height * (k + 0.5) / _MACRO_INPUTS, 3)
            yield from _pin_lef(f"d[{k}]", "INPUT", (0.0, y, 0.1, round(y + 0.1, 3)))
        for k in range(_MACRO_OUTPUTS):
            y = round(height * (k + 0.5) / _MACRO_OUTPUTS, 3)
            yield from _pin_lef(f"q[{k}]", "OUTPUT", (round(width - 0.1, 3), y, width, round(y + 0.1, 3)))
        yield f"  OBS\n    LAYER metal1 ;\n      RECT 0 0 {width} {height} ;\n  END\nEND RAM_{number}"
    yield "END LIBRARY"


def _pin_lef(name: str, direction: str, box: tuple[float, ...]) -> Iterator[str]:
    yield f"  PIN {name}\n    DIRECTION {direction} ;\n    USE SIGNAL ;\n    PORT\n      LAYER metal1 ;"
    yield f"        RECT {' '.join(map(str, box))} ;\n    END\n  END {name}"


def _dbu(length: float) -> int:
    return round(length * UNITS)


def _def(plan: _FlatPlan) -> Iterator[str]:
    spec, side = plan.spec, _dbu(plan.side)
    yield f'VERSION 5.8 ;\nDIVIDERCHAR "/" ;\nBUSBITCHARS "[]" ;\nDESIGN {spec.name} ;'
    yield f"UNITS DISTANCE MICRONS {UNITS} ;\nDIEAREA ( 0 0 ) ( {side} {side} ) ;"
    for row in range(int(plan.side / ROW_HEIGHT)):
        turned, sites = "FS" if row % 2 else "N", int(plan.side / SITE)
        yield f"ROW row_{row} core 0 {_dbu(row * ROW_HEIGHT)} {turned} DO {sites} BY 1 STEP {_dbu(SITE)} 0 ;"
    yield f"TRACKS X {_dbu(SITE)} DO {int(plan.side / SITE)} STEP {_dbu(SITE)} LAYER metal1 ;"
    yield f"COMPONENTS {spec.cells + spec.macros} ;"
    for index, (kind, (x, y)) in enumerate(zip(plan.macro_kind.tolist(), plan.macros.tolist(), strict=True)):
        yield f"- ram/m{index} RAM_{kind} + PLACED ( {_dbu(x)} {_dbu(y)} ) N ;"
    for index, (kind, (x, y)) in enumerate(zip(plan.cell_kind.tolist(), plan.cells.tolist(), strict=True)):
        yield f"- c{index} GATE_X{_CELL_SITES[kind]} + PLACED ( {_dbu(x)} {_dbu(y)} ) N ;"
    yield f"END COMPONENTS\nPINS {spec.ports} ;"
    for name, (x, y) in zip(plan.port_names, plan.ports.tolist(), strict=True):
        yield f"- {name} + NET n_{name} + DIRECTION {'INPUT' if name.startswith('in') else 'OUTPUT'} + USE SIGNAL"
        yield f"  + LAYER metal1 ( -35 0 ) ( 35 70 ) + PLACED ( {_dbu(x)} {_dbu(y)} ) N ;"
    yield f"END PINS\nNETS {plan.num_nets} ;"
    for index, ends in enumerate(plan.nets()):
        yield f"- n{index} " + " ".join(f"( {component} {pin} )" for component, pin in ends) + " + USE SIGNAL ;"
    yield "END NETS\nEND DESIGN"


def _bookshelf(plan: _FlatPlan) -> dict[str, Iterator[str]]:
    files = " ".join(f"design.{ending}" for ending in ("nodes", "nets", "wts", "pl", "scl"))
    return {
        "aux": iter([f"RowBasedPlacement : {files}"]),
        "nodes": _bookshelf_nodes(plan),
        "pl": _bookshelf_places(plan),
        "wts": iter(["UCLA wts 1.0"]),
        "scl": _bookshelf_rows(plan),
        "nets": _bookshelf_nets(plan),
    }


def _bookshelf_nodes(plan: _FlatPlan) -> Iterator[str]:
    spec = plan.spec
    yield f"UCLA nodes 1.0\nNumNodes : {spec.cells + spec.macros + spec.ports}\nNumTerminals : {spec.ports}"
    for index, kind in enumerate(plan.cell_kind.tolist()):
        yield f"c{index} {_CELL_SITES[kind] * SITE:.6g} {ROW_HEIGHT}"
    for index, kind in enumerate(plan.macro_kind.tolist()):
        yield f"ram/m{index} {_MACRO_SHAPES[kind][0]} {_MACRO_SHAPES[kind][1]}"
    for name in plan.port_names:
        yield f"{name} 0 0 terminal"


def _bookshelf_places(plan: _FlatPlan) -> Iterator[str]:
    yield "UCLA pl 1.0"
    for index, (x, y) in enumerate(plan.cells.tolist()):
        yield f"c{index} {x:.6f} {y:.6f} : N"
    for index, (x, y) in enumerate(plan.macros.tolist()):
        yield f"ram/m{index} {x:.6f} {y:.6f} : N"
    for name, (x, y) in zip(plan.port_names, plan.ports.tolist(), strict=True):
        yield f"{name} {x:.6f} {y:.6f} : N /FIXED"


def _bookshelf_rows(plan: _FlatPlan) -> Iterator[str]:
    count = round(plan.side / ROW_HEIGHT)
    yield f"UCLA scl 1.0\nNumRows : {count}"
    for row in range(count):
        yield f"CoreRow Horizontal\n  Coordinate : {row * ROW_HEIGHT:.6f}\n  Height : {ROW_HEIGHT}"
        yield f"  Sitewidth : {SITE}\n  Sitespacing : {SITE}"
        yield f"  SubrowOrigin : 0 NumSites : {round(plan.side / SITE)}\nEnd"


def _bookshelf_nets(plan: _FlatPlan) -> Iterator[str]:
    shapes = _MACRO_SHAPES
    yield f"UCLA nets 1.0\nNumNets : {plan.num_nets}"
    for index, ends in enumerate(plan.nets()):
        yield f"NetDegree : {len(ends)} n{index}"
        for number, (component, pin) in enumerate(ends):
            x = y = 0.0
            if component.startswith("ram/"):
                width, height = shapes[plan.macro_kind[int(component[5:])]]
                slots = _MACRO_INPUTS if pin.startswith("d") else _MACRO_OUTPUTS
                x = (-0.5 if pin.startswith("d") else 0.5) * width
                y = height * ((int(pin[2:-1]) + 0.5) / slots - 0.5)
            name = pin if component == "PIN" else component
            yield f"  {name} {'I' if number else 'O'} : {x:.4f} {y:.4f}"
