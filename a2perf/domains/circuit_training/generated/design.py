"""A design as a list of nodes, and its two files: the netlist (protobuf text) and the initial placement.

What the generators build and what is written to disk; reading is the netlist scanner's part. The text is the
``GraphDef`` form of the field: one ``node`` block per node, ``input`` names what a node drives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from a2perf.domains.circuit_training.netlists.plc_file import Placed, format_placement
from a2perf.storage import write_atomic

NETLIST_NAME = "netlist.pb.txt"
PLACEMENT_NAME = "initial.plc"


class NetlistNode(NamedTuple):
    """One node of a netlist.

    Attributes:
        name: unique; soft macros start with ``Grp_``.
        drives: names of the nodes at the other end of its net.
    """

    name: str
    kind: str
    attributes: Mapping[str, float | str]
    drives: Sequence[str] = ()


@dataclass
class Design:
    """A netlist with its canvas, grid and initial placement.

    Attributes:
        digits: significant digits of positions and of the canvas in the files.
        settings: further lines for the head of the placement file, such as the routes.
    """

    name: str
    comment: Sequence[str]
    canvas: tuple[float, float]
    grid: tuple[int, int]
    nodes: list[NetlistNode] = field(default_factory=list)
    placement: list[Placed] = field(default_factory=list)
    digits: int = 6
    settings: Sequence[str] = ()

    def add(self, name: str, kind: str, drives: Sequence[str] = (), **attributes: float | str) -> int:
        """Appends a node and returns its index."""
        self.nodes.append(NetlistNode(name, kind, attributes, drives))
        return len(self.nodes) - 1

    def netlist_text(self) -> str:
        """Returns the netlist as protobuf text; the same design gives the same bytes."""
        width, height = self.canvas
        lines = [f"# {line}" for line in self.comment]
        lines += [
            f"# Block : {self.name}",
            f"# FP bbox: {{0.0 0.0}} {{{width:.{self.digits}g} {height:.{self.digits}g}}}",
        ]
        for node in self.nodes:
            lines.append(f'node {{\n  name: "{node.name}"')
            lines += [f'  input: "{sink}"' for sink in node.drives]
            for key, value in sorted({"type": node.kind, **node.attributes}.items()):
                shown = f'placeholder: "{value}"' if isinstance(value, str) else f"f: {value:.9g}"
                lines.append(f'  attr {{\n    key: "{key}"\n    value {{\n      {shown}\n    }}\n  }}')
            lines.append("}")
        return "\n".join(lines) + "\n"

    def placement_text(self) -> str:
        """Returns the initial placement as ``.plc`` text."""
        columns, rows = self.grid
        width, height = self.canvas
        digits = self.digits
        comments = (
            "Placement file for Circuit Training",
            f"Columns : {columns}  Rows : {rows}",
            f"Width : {width:.{digits}g}  Height : {height:.{digits}g}",
            "Project : circuit_training",
            f"Block : {self.name}",
            *self.settings,
            "",
            "node_index x y orientation fixed",
        )
        return format_placement(comments, self.placement, digits=digits)

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Writes both files, each atomically, and returns their paths: netlist, placement."""
        folder.mkdir(parents=True, exist_ok=True)
        netlist, placement = folder / NETLIST_NAME, folder / PLACEMENT_NAME
        write_atomic(placement, self.placement_text().encode())
        write_atomic(netlist, self.netlist_text().encode())
        return netlist, placement
