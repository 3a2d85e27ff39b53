"""Reads Bookshelf designs: the ``.aux`` file and the files that it names (ISPD 2005 and ICCAD 2004 suites).

Sizes have no unit there; one unit is read as one um. A movable node higher than one and a half rows is a hard macro. A
terminal no larger than a row is a port, a larger one a fixed macro. Pins are relative to the centre of their node.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from a2perf.domains.circuit_training.netlists.netlist import NetlistError
from a2perf_placement.netlists.flat_design import PORT_CODE, FlatColumns, FlatDesign
from a2perf_placement.netlists.statements import Progress, StatementFile, shown

_NEEDED = (".nodes", ".nets", ".pl", ".scl")
_ROWS_OF_A_CELL = 1.5  # a higher movable node is a macro


class _Lines(StatementFile):
    """The lines of a Bookshelf file; comments and the first line with the format's name are left out."""

    def __iter__(self) -> Iterator[list[bytes]]:
        for text in self._lines():
            for line in text.splitlines():
                self.number += 1
                words = line.partition(b"#")[0].replace(b":", b" : ").split()
                if words and words[0] != b"UCLA":
                    yield words

    def _line(self) -> int:
        return self.number


def bookshelf_files(aux: Path) -> dict[str, Path]:
    """Returns the files that an ``.aux`` file names, by their ending.

    Raises:
        NetlistError: it is missing, or a file that every design has is not named.
    """
    named = [Path(shown(word)) for words in _Lines(aux) for word in words]
    files = {path.suffix: aux.parent / path.name for path in named if path.suffix}
    missing = [suffix for suffix in _NEEDED if suffix not in files]
    if missing:
        raise NetlistError(
            f"{aux}: names no {' and no '.join(missing)} file",
            hint="an .aux file reads `RowBasedPlacement : a.nodes a.nets a.wts a.pl a.scl`",
        )
    return files


def read_bookshelf(aux: Path, progress: Progress | None = None) -> FlatDesign:
    """Reads a Bookshelf design.

    Args:
        aux: the ``.aux`` file; nodes, nets, weights, placement and rows lie beside it.
        progress: called with the number of bytes read since the last call.

    Raises:
        NetlistError: a file is missing or broken; the message names the file and the line.
    """
    files = bookshelf_files(aux)
    return _BookshelfReader(aux, {suffix: _Lines(path, progress) for suffix, path in files.items()}).read()


class _BookshelfReader(FlatColumns):
    def __init__(self, aux: Path, files: dict[str, _Lines]) -> None:
        super().__init__()
        self.aux, self.files = aux, files
        self.code_of: dict[bytes, int] = {}
        self.weight_of: dict[bytes, float] = {}

    def read(self) -> FlatDesign:
        box, row_height = self._rows(self.files[".scl"])
        self._nodes(self.files[".nodes"], row_height)
        self._places(self.files[".pl"])
        if ".wts" in self.files and self.files[".wts"].path.is_file():
            self._weights(self.files[".wts"])
        self._nets(self.files[".nets"])
        notes = ("one Bookshelf unit is read as one um",)
        return self.assembled(source=str(self.aux), name=self.aux.name.partition(".")[0], box=box, notes=notes)

    def _rows(self, file: _Lines) -> tuple[tuple[float, float, float, float], float]:
        """Returns the box around all rows and the least height of a row."""
        facts = {b"Coordinate": 0.0, b"Height": 0.0, b"Sitespacing": 1.0, b"SubrowOrigin": 0.0, b"NumSites": 0.0}
        row = dict(facts)
        boxes: list[tuple[float, float, float, float]] = []
        for words in file:
            if words[0] == b"CoreRow":
                row = dict(facts)
            elif words[0] == b"End":
                end = row[b"SubrowOrigin"] + row[b"NumSites"] * row[b"Sitespacing"]
                low = row[b"Coordinate"]
                boxes.append((row[b"SubrowOrigin"], low, end, low + row[b"Height"]))
            else:
                # One line may hold two facts: `SubrowOrigin : 0 NumSites : 100`.
                for at in range(len(words) - 2):
                    if words[at] in facts and words[at + 1] == b":":
                        row[words[at]] = file.numeric(words[at + 2], shown(words[at]))
        heights = [high - low for _, low, _, high in boxes if high > low]
        if not heights:
            raise file.error("no row with a height", hint="check that the .scl file holds CoreRow ... End blocks")
        low_x, low_y = min(box[0] for box in boxes), min(box[1] for box in boxes)
        return (low_x, low_y, max(box[2] for box in boxes), max(box[3] for box in boxes)), min(heights)

    def _nodes(self, file: _Lines, row_height: float) -> None:
        for words in file:
            if words[0] in (b"NumNodes", b"NumTerminals"):
                continue
            if len(words) < 3:
                raise file.error("a node is not of the form `name width height [terminal]`")
            name = words[0]
            width, height = file.numeric(words[1], "width"), file.numeric(words[2], "height")
            if width < 0.0 or height < 0.0:
                raise file.error(f"node {shown(name)!r} has a negative size")
            mark = words[3] if len(words) > 3 else b""
            small = max(width, height) <= row_height or width * height == 0.0
            if mark == b"terminal_NI" or (mark == b"terminal" and small):
                code = PORT_CODE + self.ports.add(name, (width, height), hard=False, fixed=True)
            else:
                fixed = mark == b"terminal"
                hard = fixed or height > _ROWS_OF_A_CELL * row_height
                code = self.components.add(name, (width, height), hard=hard, fixed=fixed)
            if self.code_of.setdefault(name, code) != code:
                raise file.error(f"node {shown(name)!r} occurs twice")

    def _places(self, file: _Lines) -> None:
        for words in file:
            if len(words) < 3:
                raise file.error("a place is not of the form `name x y : N`")
            code = self._code(file, words[0])
            x, y = file.numeric(words[1], "x"), file.numeric(words[2], "y")
            if code >= PORT_CODE:
                ports, port = self.ports, code - PORT_CODE
                ports.place(port, x + ports.width[port] / 2.0, y + ports.height[port] / 2.0, 0)
                continue
            self.components.place(code, x, y, file.orientation(words[4] if len(words) > 4 else b"N"))
            if b"/FIXED" in words or b"/FIXED_NI" in words:
                self.components.fixed[code] = 1

    def _weights(self, file: _Lines) -> None:
        for words in file:
            if len(words) >= 2 and words[0] not in self.code_of:
                self.weight_of[words[0]] = max(0.0, file.numeric(words[1], "weight"))

    def _nets(self, file: _Lines) -> None:
        name, left = b"", 0
        codes: list[int] = []
        driver = -1
        for words in file:
            if words[0] == b"NetDegree":
                self._finish(file, name, left, codes, driver)
                if len(words) < 3 or words[1] != b":":
                    raise file.error("a net is not of the form `NetDegree : pins name`")
                left = int(file.numeric(words[2], "NetDegree"))
                name = words[3] if len(words) > 3 else b""
                codes, driver = [], -1
            elif left > 0:
                left -= 1
                code = self._code(file, words[0])
                if words[1:2] == [b"O"] and driver < 0:
                    driver = len(codes)
                if code < PORT_CODE and self.components.hard[code]:
                    x, y = 0.0, 0.0
                    if b":" in words[1:]:
                        x, y = file.numerics(words[words.index(b":", 1) + 1 :], 2, "a pin's offset")
                    code = self.pins.add(code, x, y, b"p%d" % len(self.pins.names))
                codes.append(code)
            elif words[0] not in (b"NumNets", b"NumPins"):
                raise file.error(f"{shown(words[0])!r} outside a net")
        self._finish(file, name, left, codes, driver)

    def _finish(self, file: _Lines, name: bytes, left: int, codes: list[int], driver: int) -> None:
        if left > 0:
            raise file.error(f"net {shown(name)!r} has {left} pins less than its NetDegree")
        if codes:
            self.nets.add(codes, driver, self.weight_of.get(name, 1.0))

    def _code(self, file: _Lines, name: bytes) -> int:
        code = self.code_of.get(name)
        if code is None:
            raise file.error(f"there is no node {shown(name)!r}")
        return code
