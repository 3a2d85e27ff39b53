"""Writing and reading placement files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from a2perf.domains.circuit_training.engine_nodes import EngineNodes
from a2perf.domains.circuit_training.netlist import KIND_MACRO, KIND_MACRO_PIN, KIND_PORT, KIND_STDCELL
from a2perf.domains.circuit_training.plc_file import PlacementFileError, PlcRow


def checked_rows(plc: EngineNodes, path: str | Path, rows: Sequence[PlcRow]) -> Sequence[PlcRow]:
    """Returns the rows of a placement file if they fit the netlist.

    Raises:
        PlacementFileError: a row names no node, or a pin, or (with the boundary check) sticks out of the canvas.
    """
    width, height = plc.get_canvas_width_height()
    for row in rows:
        if row.node >= plc.netlist.num_nodes:
            raise PlacementFileError(
                f"{path}, line {row.line}: there is no node {row.node}; the netlist has {plc.netlist.num_nodes}",
                hint="use the placement that belongs to this netlist",
            )
        kind = plc.netlist.kind[row.node]
        name = plc.netlist.names[row.node]
        if kind == KIND_MACRO_PIN:
            raise PlacementFileError(
                f"{path}, line {row.line}: node {row.node} ({name!r}) is a macro pin and goes where its macro goes",
                hint="use the placement that belongs to this netlist",
            )
        if kind == KIND_MACRO and plc.get_canvas_boundary_check():
            half_width, half_height = plc.state.width[row.node] / 2, plc.state.height[row.node] / 2
            if not (half_width <= row.x <= width - half_width and half_height <= row.y <= height - half_height):
                raise PlacementFileError(
                    f"{path}, line {row.line}: macro {name!r} at ({row.x:g}, {row.y:g}) sticks out of the canvas "
                    f"({width:g} x {height:g} um)",
                    hint="correct the position, or set_canvas_boundary_check(False)",
                )
    return rows


def rows_of(plc: EngineNodes) -> Iterator[PlcRow]:
    """Yields the row of each placed node that is not a pin."""
    state, netlist = plc.state, plc.netlist
    for node in np.flatnonzero((state.placed == 1) & (netlist.kind != KIND_MACRO_PIN)).tolist():
        turned = int(state.orientation[node]) if netlist.kind[node] == KIND_MACRO else -1
        yield PlcRow(0, node, float(state.x[node]), float(state.y[node]), turned, bool(state.fixed[node]))


def node_counts(plc: EngineNodes) -> dict[str, int]:
    """Returns how many nodes of each kind the netlist has."""
    netlist = plc.netlist
    macro, pin = netlist.kind == KIND_MACRO, netlist.kind == KIND_MACRO_PIN
    soft = netlist.soft == 1
    soft_pin = pin & soft[netlist.owner]
    counts = {
        "HARD_MACROs": macro & ~soft,
        "HARD_MACRO_PINs": pin & ~soft_pin,
        "MACROs": macro,
        "MACRO_PINs": pin,
        "PORTs": netlist.kind == KIND_PORT,
        "SOFT_MACROs": macro & soft,
        "SOFT_MACRO_PINs": soft_pin,
        "STDCELLs": netlist.kind == KIND_STDCELL,
    }
    return {name: int(chosen.sum()) for name, chosen in counts.items()}
