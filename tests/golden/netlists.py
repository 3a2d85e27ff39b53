"""The netlists of the golden circuit cases, built here from their description.

The reference engine was recorded on four small designs of the field and on twelve random designs (``fuzz/``,
made for this project). This file builds netlists that equal the four, node by node; the original files are not shipped.
``regenerate.py`` compares the two.
"""

from __future__ import annotations

from pathlib import Path

from a2perf.domains.circuit_training.generated.design import Design
from a2perf.domains.circuit_training.generated.generator import toy_design
from a2perf.domains.circuit_training.netlists.plc_file import Placed

SAMPLE_CANVAS = (500.0, 500.0)  # um


def sample_clustered() -> Design:
    """Two hard macros, one soft macro (a cluster of two standard cells) and two ports."""
    design = Design("sample_clustered", (), SAMPLE_CANVAS, (2, 2))
    design.add("P0", "PORT", ["Grp_2/Pinput", "P0_M0"], side="LEFT", x=0.0, y=100.0)
    design.add("P1", "PORT", side="TOP", x=499.0, y=499.0)
    design.add("M0", "MACRO", orientation="N", width=120.0, height=120.0)
    design.add("M1", "MACRO", orientation="N", width=80.0, height=40.0)
    _add_macro_pins(design, into_soft="Grp_2/Pinput")
    at = {"x": 20.0, "y": 45.0}
    design.add("Grp_2", "macro", width=17.128008, height=0.20625865, **at)
    for pin, drives in (("Poutput_single_0", ["P0_M1"]), ("Pinput", [])):
        design.add(f"Grp_2/{pin}", "macro_pin", drives, macro_name="Grp_2", x_offset=0.0, y_offset=0.0, **at)
    design.placement = [
        Placed(0, 0, 100, "-", True),
        Placed(1, 499, 499, "-", True),
        Placed(2, 125, 375, "N", False),
        Placed(3, 375, 375, "N", False),
        Placed(8, 170, 310, "N", False),
    ]
    return design


def simple_with_coords() -> Design:
    """The same two macros with two standard cells instead of the cluster; every node has coordinates."""
    design = Design("simple_with_coords", (), SAMPLE_CANVAS, (2, 2))
    design.add("P0", "PORT", ["P0_M0", "S0"], side="left", x=0.0, y=100.0)
    design.add("P1", "PORT", side="top", x=500.0, y=500.0)
    cell = {"ref_name": "fake_ref_name", "width": 2.208, "height": 0.48}
    design.add("S0", "STDCELL", ["S1"], x=100.0, y=400.0, **cell)
    design.add("S1", "STDCELL", ["P0_M1"], x=150.0, y=400.0, **cell)
    design.add("M0", "MACRO", width=120.0, height=120.0, x=100.0, y=100.0)
    design.add("M1", "MACRO", width=80.0, height=40.0, x=300.0, y=100.0)
    _add_macro_pins(design, into_soft="S1")
    return design


def _add_macro_pins(design: Design, *, into_soft: str) -> None:
    for macro, half_width, half_height in (("M0", 60.0, 60.0), ("M1", 40.0, 20.0)):
        drives = [into_soft] if macro == "M0" else ["P1"]
        sides = (("P0", -half_width, []), ("P1", half_width, drives))
        for pin, x, sinks in sides:
            design.add(f"{pin}_{macro}", "MACRO_PIN", sinks, macro_name=macro, x_offset=x, y_offset=half_height)


def macro_tiles_10x10() -> Design:
    """100 square macros in rows; three pins per side, each wired to the facing pin of the neighbour."""
    count, pitch, first, half = 10, 60.0, 35.0, 25.0  # um
    along_side = (-16.666667, 0.0, 16.666667)  # um
    design = Design("macro_tiles_10x10", (), (1200.0, 1200.0), (20, 20))
    for row in range(count):
        for column in range(count):
            name = f"M_R{row}_C{column}"
            place = {"x": first + pitch * column, "y": first + pitch * row}
            design.add(name, "macro", width=2 * half, height=2 * half, **place)
            below = f"M_R{row - 1}_C{column}/PN" if row else None
            left = f"M_R{row}_C{column - 1}/PE" if column else None
            for k, along in enumerate(along_side):
                for side, x, y, facing in (
                    ("N", along, half, None),
                    ("E", half, along, None),
                    ("S", along, -half, below),
                    ("W", -half, along, left),
                ):
                    sinks = [f"{facing}{k}"] if facing else []
                    design.add(f"{name}/P{side}{k}", "macro_pin", sinks, macro_name=name, x_offset=x, y_offset=y)
    return design


DESIGNS = {
    "toy_macro_stdcell": toy_design,
    "sample_clustered": sample_clustered,
    "simple_with_coords": simple_with_coords,
    "macro_tiles_10x10": macro_tiles_10x10,
}


def write_designs(folder: Path) -> None:
    """Writes ``circuit_training/NAME/{netlist.pb.txt,initial.plc}`` for every design below ``folder``."""
    for name, build in DESIGNS.items():
        build().write(folder / "circuit_training" / name)
