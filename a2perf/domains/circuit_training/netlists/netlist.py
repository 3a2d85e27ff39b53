"""The netlist as columns: nodes in file order, and nets as lists of pins.

A node's index is its position in the netlist's files without ``__metadata__``. Numbers have single precision, as the
format stores them, and are used in double precision. The reader is in ``netlist_reader``, the cache in
``netlist_cache``.
"""

from __future__ import annotations

import codecs
import functools
import gzip
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from a2perf.errors import UserError, did_you_mean

KIND_MACRO, KIND_MACRO_PIN, KIND_STDCELL, KIND_PORT = range(4)
KINDS = ("MACRO", "MACRO_PIN", "STDCELL", "PORT")
SIDES = ("", "LEFT", "RIGHT", "TOP", "BOTTOM")
ORIENTATIONS = ("N", "S", "FN", "FS", "E", "W", "FE", "FW", "FD")
SOFT_PREFIX = "Grp_"  # of the names of soft macros


class NetlistError(UserError, ValueError):
    """The netlist is not one; the message names the file, the line and the node."""


class Names(Sequence[str]):
    """The nodes' names by index, and the index by name."""

    def __init__(self, blob: NDArray[np.uint8], spans: NDArray[np.int64]) -> None:
        self.blob = blob
        self.spans = spans

    def __len__(self) -> int:
        return len(self.spans)

    def __getitem__(self, node: int) -> str:  # type: ignore[override]  # no slices: nobody needs them
        start, length = self.spans[node]
        return self.blob[start : start + length].tobytes().decode(errors="replace")

    @functools.cached_property
    def _index(self) -> dict[str, int]:
        return {known: node for node, known in enumerate(self)}

    def find(self, name: str) -> int:
        """Returns the node of that name.

        Raises:
            NetlistError: no node has it.
        """
        node = self._index.get(name)
        if node is None:
            raise NetlistError(
                f"no node is called {name!r}{did_you_mean(name, self._index)}", hint="name a node of the netlist"
            )
        return node


@dataclass(frozen=True, eq=False)
class Netlist:
    """Nodes and nets in columns; all arrays are read-only by agreement.

    Attributes:
        source: the path or comma list it was read from, empty for a generated one.
        kind: ``KIND_...`` of each node, int8.
        soft: 1 for soft macros (clusters of standard cells), uint8.
        owner: macro of each macro pin, -1 for other nodes, int32.
        width, height: size in um, float64; 0 for pins and ports.
        x, y: centre in um as the file gives it, float64.
        x_offset, y_offset: pin position relative to the centre of its macro in orientation N, um, float64.
        weight: weight of the net that the node drives, float64.
        has_location: 1 where the file gives x and y, uint8.
        side: index into ``SIDES``, int8.
        orientation: index into ``ORIENTATIONS``, int8.
        net_start: where each net starts in ``net_pins``, shape (nets + 1,), int64.
        net_pins: nodes of the nets, the driver first, then its distinct sinks, int32.
    """

    source: str
    names: Names
    kind: NDArray[np.int8]
    soft: NDArray[np.uint8]
    owner: NDArray[np.int32]
    width: NDArray[np.float64]
    height: NDArray[np.float64]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    x_offset: NDArray[np.float64]
    y_offset: NDArray[np.float64]
    weight: NDArray[np.float64]
    has_location: NDArray[np.uint8]
    side: NDArray[np.int8]
    orientation: NDArray[np.int8]
    net_start: NDArray[np.int64]
    net_pins: NDArray[np.int32]

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.kind)

    @property
    def num_nets(self) -> int:
        """Number of nets."""
        return len(self.net_start) - 1


def netlist_paths(netlist_file: str | Path) -> list[Path]:
    """Returns the files of a comma list; ``.gz`` may be left out of a name.

    Raises:
        NetlistError: nothing was named or a file does not exist.
    """
    paths = [Path(part.strip()) for part in str(netlist_file).split(",") if part.strip()]
    if not paths:
        raise NetlistError("no netlist file was named", hint="pass netlist_file=PATH")
    found = []
    for path in paths:
        zipped = path.with_name(path.name + ".gz")
        if not path.is_file() and not zipped.is_file():
            raise NetlistError(f"{path}: no such netlist file", hint="check the path")
        found.append(path if path.is_file() else zipped)
    return found


def open_netlist(path: Path) -> BinaryIO:
    """Opens a text file for reading bytes behind its byte-order mark, if any, whether gzipped or not."""
    stream: Any = path.open("rb")
    if stream.peek(2)[:2] == b"\x1f\x8b":
        stream = gzip.GzipFile(fileobj=stream)
    with suppress(OSError, EOFError, zlib.error):  # a damaged archive; the first read reports it
        if stream.peek(3)[:3] == codecs.BOM_UTF8:
            stream.read(3)
    return stream  # type: ignore[no-any-return]
