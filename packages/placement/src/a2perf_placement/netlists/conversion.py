"""A netlist's columns as nodes again: for writing it as protobuf text or JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from a2perf.domains.circuit_training.generated.design import Design
from a2perf.domains.circuit_training.netlists.netlist import (
    KIND_MACRO,
    KIND_MACRO_PIN,
    KIND_PORT,
    KIND_STDCELL,
    KINDS,
    ORIENTATIONS,
    SIDES,
    Netlist,
)
from a2perf.domains.circuit_training.netlists.plc_file import read_header


def design_of(netlist: Netlist, source: Path) -> Design:
    """Returns a netlist as a design without placement; its canvas is the one that the file's comments give."""
    header = read_header(str(source), "")
    canvas = (header.width or 0.0, header.height or 0.0)
    design = Design(header.block or "unset_block", (), canvas, (header.columns or 0, header.rows or 0))
    names = list(netlist.names)
    drives: dict[int, list[str]] = {}
    for net in range(netlist.num_nets):
        pins = netlist.net_pins[netlist.net_start[net] : netlist.net_start[net + 1]].tolist()
        drives[pins[0]] = [names[pin] for pin in pins[1:]]
    for node, name in enumerate(names):
        kind = int(netlist.kind[node])
        attributes: dict[str, float | str] = {}
        if kind == KIND_MACRO_PIN:
            attributes["macro_name"] = names[netlist.owner[node]]
            attributes |= {"x_offset": float(netlist.x_offset[node]), "y_offset": float(netlist.y_offset[node])}
        if kind in (KIND_MACRO, KIND_STDCELL):
            attributes |= {"width": float(netlist.width[node]), "height": float(netlist.height[node])}
        if kind == KIND_MACRO:
            attributes["orientation"] = ORIENTATIONS[netlist.orientation[node]]
        if kind == KIND_PORT and SIDES[netlist.side[node]]:
            attributes["side"] = SIDES[netlist.side[node]]
        if netlist.has_location[node] and kind != KIND_MACRO_PIN:
            attributes |= {"x": float(netlist.x[node]), "y": float(netlist.y[node])}
        if kind != KIND_MACRO and netlist.weight[node] != np.float64(1.0):
            attributes["weight"] = float(netlist.weight[node])
        design.add(name, KINDS[kind], drives.get(node, ()), **attributes)
    return design


def nodes_as_json(netlist: Netlist) -> str:
    """Returns a netlist as JSON: a list of objects with ``name``, ``type``, ``drives`` and the attributes."""
    nodes = design_of(netlist, Path(netlist.source.split(",")[0])).nodes
    rows = [{"name": node.name, "type": node.kind, **node.attributes, "drives": list(node.drives)} for node in nodes]
    return json.dumps(rows, indent=1) + "\n"
