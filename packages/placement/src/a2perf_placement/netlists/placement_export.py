"""Writes a placement for place-and-route tools: DEF with the placed macros, or Tcl commands that place them.

Positions are lower left corners in the coordinates of the imported design, on its database grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from a2perf.domains.arguments import refuse_unknown
from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.generated.design import NETLIST_NAME, PLACEMENT_NAME
from a2perf.domains.circuit_training.netlists.netlist import ORIENTATIONS
from a2perf.errors import ConfigError
from a2perf.storage import read_record, write_atomic
from a2perf_placement.netlists.task_files import RECORD_NAME, ImportRecord

TOOLS = ("openroad", "innovus")
_TURNS = dict(zip(ORIENTATIONS, ("R0", "R180", "MY", "MX", "R270", "R90", "MYR90", "MXR90", "R0"), strict=True))


@dataclass(frozen=True)
class PlacedMacro:
    """A hard macro at its place.

    Attributes:
        master: library cell, empty if unknown.
        x, y: lower left corner of its box in the coordinates of the source, um.
        orientation: as in DEF.
        fixed: whether the placement fixes it.
    """

    component: str
    master: str
    x: float
    y: float
    orientation: str
    fixed: bool


def save_task_placement_pnr(
    folder: str | Path,
    path: str | Path,
    placement: str | Path | None = None,
    *,
    tool: str = "openroad",
    units: int = 1000,
    snap: tuple[float, float] | None = None,
    fix: bool = True,
) -> list[PlacedMacro]:
    """Writes the hard macros of an imported task for a place-and-route tool.

    Args:
        folder: folder of the task; its record gives the origin, the names and the library cells of the source.
        path: file to write: ``.def``, or ``.tcl`` with one command per macro.
        placement: ``.plc`` file; the folder's initial placement by default.
        tool: ``"openroad"`` or ``"innovus"``, for Tcl.
        units: database units per um; positions are rounded to them, 1..100000.
        snap: grid for lower left corners in x and y, um, from the origin of the source; a site for example.
        fix: write all macros as fixed, otherwise only those that the placement fixes.

    Returns:
        The macros that were written. Macros that are not placed are left out.

    Raises:
        ConfigError: unknown ending, tool or units, or a DEF file without library cells.
        UserError: the folder is not an imported task, or the placement does not belong to it.
        OSError: the file cannot be written.
    """
    folder, path = Path(folder), Path(path)
    if path.suffix not in (".def", ".tcl"):
        raise ConfigError(f"{path.name} ends with neither .def nor .tcl", hint="choose one of these endings")
    refuse_unknown([tool], TOOLS, "a tool")
    if not 1 <= units <= 100_000:
        raise ConfigError(f"units is {units!r}, out of its range", hint="give database units per um, 1 to 100000")
    if snap is not None and not min(snap) > 0.0:
        raise ConfigError(f"snap is {snap!r}", hint="give two positive lengths in um")
    if not (folder / RECORD_NAME).is_file():
        raise ConfigError(
            f"{folder} has no {RECORD_NAME}", hint="name a folder that `a2perf data netlist import` wrote"
        )
    record = read_record(folder / RECORD_NAME, ImportRecord)
    plc = PlacementCost(str(folder / NETLIST_NAME))
    plc.set_canvas_boundary_check(False)
    plc.set_canvas_size(record.canvas_width, record.canvas_height)
    plc.set_placement_grid(record.columns, record.rows)
    plc.restore_placement(str(folder / PLACEMENT_NAME if placement is None else placement))
    macros = list(_placed_macros(plc, record, units, snap, fix))
    if path.suffix == ".def":
        nameless = [macro.component for macro in macros if not macro.master]
        if nameless:
            raise ConfigError(
                f"the library cell of {nameless[0]!r} is unknown, and DEF needs it",
                hint="write a .tcl file, or import the design from LEF and DEF",
            )
        text = _def_text(record, macros, units)
    else:
        text = "\n".join(_tcl_lines(record.design, macros, tool, path.name)) + "\n"
    write_atomic(path, text)
    return macros


def _placed_macros(
    plc: PlacementCost, record: ImportRecord, units: int, snap: tuple[float, float] | None, fix: bool
) -> Iterator[PlacedMacro]:
    for node in plc.hard_macro_indices[plc.state.placed[plc.hard_macro_indices] != 0].tolist():
        name = plc.get_node_name(node)
        known = record.macros.get(name)
        corner = plc.node_boxes([node])[0][:2] + np.array([record.origin_x, record.origin_y])
        if snap is not None:
            corner = np.round(corner / np.array(snap)) * np.array(snap)
        x, y = (np.round(corner * units) / units).tolist()
        turned = plc.get_macro_orientation(node)
        yield PlacedMacro(
            component=known.component if known else name,
            master=known.master if known else "",
            x=x,
            y=y,
            orientation=turned if turned in ORIENTATIONS[:8] else "N",
            fixed=fix or plc.is_node_fixed(node),
        )


def _def_text(record: ImportRecord, macros: list[PlacedMacro], units: int) -> str:
    low_x, low_y = record.origin_x, record.origin_y
    box = (low_x, low_y, low_x + record.canvas_width, low_y + record.canvas_height)
    corners = [round(value * units) for value in box]
    lines = [
        "VERSION 5.8 ;",
        'DIVIDERCHAR "/" ;',
        'BUSBITCHARS "[]" ;',
        f"DESIGN {record.design} ;",
        f"UNITS DISTANCE MICRONS {units} ;",
        f"DIEAREA ( {corners[0]} {corners[1]} ) ( {corners[2]} {corners[3]} ) ;",
        f"COMPONENTS {len(macros)} ;",
    ]
    for macro in macros:
        status = "FIXED" if macro.fixed else "PLACED"
        place = f"( {round(macro.x * units)} {round(macro.y * units)} ) {macro.orientation}"
        lines.append(f"- {macro.component} {macro.master} + {status} {place} ;")
    return "\n".join([*lines, "END COMPONENTS", "END DESIGN", ""])


def _tcl_lines(design: str, macros: list[PlacedMacro], tool: str, name: str) -> Iterator[str]:
    yield f"# {name}: {len(macros)} macros of {design} for {tool}; lower left corners in um"
    for macro in macros:
        # Braces keep Tcl from reading the brackets of a bus as a command.
        component = "{" + macro.component.replace("\\", "") + "}"
        turned = _TURNS[macro.orientation]
        if tool == "openroad":
            place = f"-location {{{macro.x:.10g} {macro.y:.10g}}} -orientation {turned} -exact"
            yield f"place_macro -macro_name {component} {place}"
        else:
            turned = {"MYR90": "MY90", "MXR90": "MX90"}.get(turned, turned)
            yield f"placeInstance {component} {macro.x:.10g} {macro.y:.10g} {turned}" + (
                " -fixed" if macro.fixed else ""
            )
