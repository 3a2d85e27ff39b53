"""The toy design of the field: two macros between rows of standard cells and ports.

Each macro drives the cells at the top and the bottom edge, the cells at the left and the right edge drive the macros.
The earlier netlist's own comment counts nine cells and nine ports; its nodes are twelve of each, three on every side,
and so are these, since published costs are of that netlist.
"""

from __future__ import annotations

from a2perf.domains.circuit_training.design import Design

CANVAS = (200.0, 100.0)  # um
GRID = (20, 10)
_MACRO = (30.0, 40.0)  # um
_CELL = (1.0, 2.0)  # um
# side: port and cell x (or y), the places along the side; um
_SIDES = {
    "L": (0.5, 10.0, (25.0, 50.0, 75.0)),
    "R": (199.5, 190.0, (25.0, 50.0, 75.0)),
    "T": (99.5, 90.0, (50.0, 100.0, 150.0)),
    "B": (0.5, 10.0, (50.0, 100.0, 150.0)),
}


def toy_design() -> Design:
    """Returns the toy design: 2 macros, 12 standard cells, 12 ports."""
    comment = ("Two macros between standard cells and ports, three of each on every side",)
    design = Design("toy_macro_stdcell", comment, CANVAS, GRID)
    for macro, x in (("ML", 50.0), ("MR", 150.0)):
        design.add(macro, "MACRO", width=_MACRO[0], height=_MACRO[1], x=x, y=50.0)
    for macro in ("ML", "MR"):
        design.add(f"{macro}/Pin", "MACRO_PIN", macro_name=macro, x_offset=-15.0, y_offset=0.0)
    outputs = [f"C{side}{k}" for side in "TB" for k in range(3)]
    for macro in ("ML", "MR"):
        design.add(f"{macro}/Pout", "MACRO_PIN", outputs, macro_name=macro, x_offset=15.0, y_offset=0.0)
    for side, (port_at, cell_at, places) in _SIDES.items():
        for k, along in enumerate(places):
            upright = side in "LR"
            port = (port_at, along) if upright else (along, port_at)
            cell = (cell_at, along) if upright else (along, cell_at)
            into_cell = [f"C{side}{k}"] if upright else []
            from_cell = [f"M{side}/Pin"] if upright else [f"P{side}{k}"]
            design.add(f"P{side}{k}", "PORT", into_cell, x=port[0], y=port[1])
            name = f"C{side}{k}"
            design.add(name, "STDCELL", from_cell, width=_CELL[0], height=_CELL[1], x=cell[0], y=cell[1])
    return design
