"""Reads LEF files: sizes, classes and pins of cells and macros (LEF/DEF Language Reference 5.8).

Layers, vias and other rules of the technology are read past. A pin lies at the centre of the box around its shapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from a2perf.domains.circuit_training.netlists.netlist import NetlistError
from a2perf.errors import did_you_mean
from a2perf_placement.netlists.statements import Progress, StatementFile, shown

# What opens a block inside of another one (or of none), with a name behind it or without.
_NAMED_BLOCKS = {
    b"": (b"MACRO", b"SITE", b"LAYER", b"VIA", b"VIARULE", b"NONDEFAULTRULE", b"ARRAY"),
    b"MACRO": (b"PIN",),
}
_OTHER_BLOCKS = {
    b"": (b"UNITS", b"PROPERTYDEFINITIONS", b"SPACING", b"IRDROP", b"NOISETABLE", b"CORRECTIONTABLE"),
    b"MACRO": (b"OBS", b"DENSITY", b"TIMING"),
    b"PIN": (b"PORT",),
}
_HARD_CLASSES = frozenset((b"BLOCK", b"PAD", b"RING"))


class MasterPin(NamedTuple):
    """A pin: whether it drives its net, and its position relative to the centre of its cell in N, um."""

    drives: bool
    x: float
    y: float


@dataclass
class CellMaster:
    """A cell of a library.

    Attributes:
        hard: whether it is a block, pad or ring, which a design places as a hard macro.
        filler: whether it only fills gaps between standard cells.
    """

    name: bytes
    width: float = 0.0
    height: float = 0.0
    hard: bool = False
    filler: bool = False
    pins: dict[bytes, MasterPin] = field(default_factory=dict)


@dataclass
class CellLibrary:
    """Cells by name, and the files that describe them."""

    cells: dict[bytes, CellMaster] = field(default_factory=dict)
    sources: list[Path] = field(default_factory=list)

    def missing(self, name: bytes) -> str:
        """Returns the message for a cell that no file describes."""
        near = did_you_mean(name.decode(errors="replace"), (cell.decode(errors="replace") for cell in self.cells))
        files = ", ".join(str(source) for source in self.sources)
        return f"{shown(name)!r} is not a cell of {files}{near}"


def read_lef(paths: Iterable[Path], progress: Progress | None = None) -> CellLibrary:
    """Reads LEF files in their order; a cell that occurs twice is taken from the first.

    Args:
        paths: files, plain or gzipped; the technology's file may be among them or missing.
        progress: called with the number of bytes read since the last call.

    Raises:
        NetlistError: a file is missing or is not LEF; the message names the file and the line.
    """
    library = CellLibrary()
    for path in paths:
        library.sources.append(path)
        _LefReader(StatementFile(path, progress), library).read()
    if not library.cells:
        files = ", ".join(str(source) for source in library.sources)
        raise NetlistError(f"{files or 'no LEF file'}: no MACRO", hint="name the LEF files of all cells and macros")
    return library


class _LefReader:
    """The state between two statements of a file: open blocks, the cell and the pin that are being read."""

    def __init__(self, file: StatementFile, library: CellLibrary) -> None:
        self.file, self.library = file, library
        self.stack: list[tuple[bytes, bytes]] = []  # kind and name of the open blocks
        self.ended = False
        self.extension = False
        self.cell = CellMaster(b"")
        self.origin = (0.0, 0.0)
        self.sized = False
        self.pin_name = b""
        self.drives = False
        self.box: tuple[float, float, float, float] | None = None
        self.pins: dict[bytes, tuple[bool, tuple[float, float, float, float] | None]] = {}

    def read(self) -> None:
        for words in self.file:
            if self.ended:
                break
            self._statement(words)
        if self.stack:
            kind, name = self.stack[-1]
            raise self.file.error(f"the file ends in {shown(kind)} {shown(name)}".rstrip())

    def _statement(self, words: list[bytes]) -> None:
        at = 0
        while at < len(words):
            word = words[at]
            follower = words[at + 1] if at + 1 < len(words) else b""
            if self.extension or word == b"BEGINEXT":
                self.extension = b"ENDEXT" not in words[at:]
                if self.extension:
                    return
                at = words.index(b"ENDEXT", at) + 1
            elif word == b"END":
                if not self.stack and follower == b"LIBRARY":
                    self.ended = True
                    return
                at += self._end(follower)
            elif self.stack and self.stack[-1][0] not in (b"MACRO", b"PIN", b"PORT"):
                if b"END" not in words[at:]:
                    return
                at = words.index(b"END", at)
            else:
                opened = self._open(word, follower)
                if opened == 0:
                    self._fact(words[at:])
                    return
                at += opened

    def _open(self, word: bytes, follower: bytes) -> int:
        """Opens a block and returns how many words that took; 0 if the word opens none."""
        inside = self.stack[-1][0] if self.stack else b""
        if word in _OTHER_BLOCKS.get(inside, ()):
            self.stack.append((word, b"" if inside else word))
            return 1
        if word not in _NAMED_BLOCKS.get(inside, ()):
            return 0
        if not follower:
            raise self.file.error(f"{shown(word)} without a name")
        if word == b"MACRO":
            self.cell, self.origin, self.sized, self.pins = CellMaster(follower), (0.0, 0.0), False, {}
        elif word == b"PIN":
            self.pin_name, self.drives, self.box = follower, False, None
        self.stack.append((word, follower))
        return 2

    def _end(self, name: bytes) -> int:
        """Closes a block at its END and returns how many words that took."""
        if not self.stack:
            raise self.file.error(f"END {shown(name)} without a block that it ends")
        kind, expected = self.stack[-1]
        if not expected:
            # `END TIMING` names its block; those of ports and obstructions stand alone.
            self.stack.pop()
            return 2 if name == kind else 1
        if name != expected:
            if kind in (b"MACRO", b"PIN"):
                raise self.file.error(f"END {shown(name)} inside {shown(kind)} {shown(expected)}")
            return 2  # the end of a block inside one that is read past
        self.stack.pop()
        if kind == b"PIN":
            self.pins[self.pin_name] = (self.drives, self.box)
        elif kind == b"MACRO":
            self._finish_cell()
        return 2

    def _fact(self, words: list[bytes]) -> None:
        inside = self.stack[-1][0] if self.stack else b""
        word = words[0]
        if inside == b"MACRO":
            if word == b"CLASS":
                self.cell.hard = bool(_HARD_CLASSES & set(words[1:2]))
                self.cell.filler = words[1:3] == [b"CORE", b"SPACER"]
            elif word == b"SIZE":
                if len(words) < 4 or words[2] != b"BY":
                    raise self.file.error("SIZE is not of the form `SIZE width BY height`")
                self.cell.width = self.file.numeric(words[1], "SIZE")
                self.cell.height = self.file.numeric(words[3], "SIZE")
                if self.cell.width < 0 or self.cell.height < 0:
                    raise self.file.error(f"SIZE of {shown(self.cell.name)!r} is negative")
                self.sized = True
            elif word == b"ORIGIN":
                x, y = self.file.numerics(words[1:], 2, "ORIGIN")
                self.origin = (x, y)
        elif inside == b"PIN" and word == b"DIRECTION":
            self.drives = words[1:2] == [b"OUTPUT"]
        elif inside == b"PORT" and word in (b"RECT", b"POLYGON"):
            self._shape(words)

    def _shape(self, words: list[bytes]) -> None:
        if words[1:2] == [b"MASK"]:
            words = words[2:]
        if b"ITERATE" in words:
            return  # only power rails are drawn that way
        count = 4 if words[0] == b"RECT" else (len(words) - 1) // 2 * 2
        values = self.file.numerics(words[1:], max(count, 4), shown(words[0]))
        low_x, high_x, low_y, high_y = min(values[::2]), max(values[::2]), min(values[1::2]), max(values[1::2])
        if self.box is not None:
            low_x, low_y = min(low_x, self.box[0]), min(low_y, self.box[1])
            high_x, high_y = max(high_x, self.box[2]), max(high_y, self.box[3])
        self.box = (low_x, low_y, high_x, high_y)

    def _finish_cell(self) -> None:
        cell = self.cell
        if not self.sized:
            raise self.file.error(f"MACRO {shown(cell.name)!r} has no SIZE")
        for name, (drives, box) in self.pins.items():
            if box is None:
                cell.pins[name] = MasterPin(drives, 0.0, 0.0)
            else:
                x = (box[0] + box[2]) / 2.0 + self.origin[0] - cell.width / 2.0
                y = (box[1] + box[3]) / 2.0 + self.origin[1] - cell.height / 2.0
                cell.pins[name] = MasterPin(drives, x, y)
        self.library.cells.setdefault(cell.name, cell)
