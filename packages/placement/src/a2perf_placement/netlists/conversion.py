"""A netlist's columns as nodes again: for writing it as protobuf text or JSON."""

from __future__ import annotations

import json
from pathlib import Path

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
    add_nodes(design, netlist)
    return design


def add_nodes(design: Design, netlist: Netlist) -> None:
    """Adds all nodes of a netlist to a design."""
    names = list(netlist.names)
    drives: dict[int, list[str]] = {}
    for net in range(netlist.num_nets):
        pins = netlist.net_pins[netlist.net_start[net] : netlist.net_start[net + 1]].tolist()
        drives[pins[0]] = [names[pin] for pin in pins[1:]]
    for node, name in enumerate(names):
        design.add(name, KINDS[netlist.kind[node]], drives.get(node, ()), **attributes_of(netlist, node))


def attributes_of(netlist: Netlist, node: int) -> dict[str, float | str]:
    """Returns the attributes of a node in protobuf text."""
    kind = netlist.kind[node]
    attributes: dict[str, float | str] = {}
    if kind == KIND_MACRO_PIN:
        attributes["macro_name"] = netlist.names[netlist.owner[node]]
        attributes |= {"x_offset": float(netlist.x_offset[node]), "y_offset": float(netlist.y_offset[node])}
    if kind in (KIND_MACRO, KIND_STDCELL):
        attributes |= {"width": float(netlist.width[node]), "height": float(netlist.height[node])}
    if kind == KIND_MACRO:
        attributes["orientation"] = ORIENTATIONS[max(int(netlist.orientation[node]), 0)]
    if kind == KIND_PORT and SIDES[netlist.side[node]]:
        attributes["side"] = SIDES[netlist.side[node]]
    if netlist.has_location[node] and kind != KIND_MACRO_PIN:
        attributes |= {"x": float(netlist.x[node]), "y": float(netlist.y[node])}
    if netlist.weight[node] != 1.0:
        attributes["weight"] = float(netlist.weight[node])
    return attributes


def nodes_as_json(netlist: Netlist) -> str:
    """Returns a netlist as JSON: a list of objects with ``name``, ``type``, ``drives`` and the attributes."""
    nodes = design_of(netlist, Path(netlist.source.split(",")[0])).nodes
    rows = [{"name": node.name, "type": node.kind, **node.attributes, "drives": list(node.drives)} for node in nodes]
    return json.dumps(rows, indent=1) + "\n"
