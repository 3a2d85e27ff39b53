"""Reads DEF files: components, ports, nets, blockages and the die area (LEF/DEF Language Reference 5.8).

Rows, tracks, grids, vias, special nets and other sections are read past; so are wires. A net without a signal's use
(power, ground) is left out. The file is read in a stream: memory grows with the design, not with the text.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from a2perf_placement.netlists.die_area import area_outside
from a2perf_placement.netlists.flat_design import PORT_CODE, FlatColumns, FlatDesign
from a2perf_placement.netlists.lef import CellLibrary, CellMaster
from a2perf_placement.netlists.statements import Progress, StatementFile, shown

_SECTIONS = frozenset(
    b"PROPERTYDEFINITIONS VIAS STYLES NONDEFAULTRULES REGIONS COMPONENTMASKSHIFT COMPONENTS PINS PINPROPERTIES "
    b"BLOCKAGES SLOTS FILLS SPECIALNETS NETS SCANCHAINS GROUPS".split()
)
_STATUSES = (b"PLACED", b"FIXED", b"COVER")
_NOT_SIGNALS = (b"POWER", b"GROUND")
_MAX_BLOCKAGES = 100_000


def read_def(path: Path, library: CellLibrary, progress: Progress | None = None) -> FlatDesign:
    """Reads a DEF file.

    Args:
        path: the file, plain or gzipped.
        progress: called with the number of bytes read since the last call.

    Raises:
        NetlistError: the file is missing or is not DEF, or a component, pin or net names what does not exist. The
            message names the file and the line.
    """
    return _DefReader(StatementFile(path, progress), library).read()


class _DefReader(FlatColumns):
    def __init__(self, file: StatementFile, library: CellLibrary) -> None:
        super().__init__()
        self.file, self.library = file, library
        self.name = ""
        self.units = 100.0  # per um; the default of the format
        self.die: list[tuple[float, float]] = []
        self.section = b""
        self.done = False
        self.component_of: dict[bytes, int] = {}
        self.master_of: list[CellMaster] = []
        self.port_of: dict[bytes, int] = {}
        self.port_drives: list[bool] = []
        self.macro_pin_of: dict[tuple[int, bytes], int] = {}
        self.blockages: list[tuple[float, float, float, float, float]] = []
        self.fillers: set[bytes] = set()
        self.undriven = self.supplies = 0

    def read(self) -> FlatDesign:
        items: dict[bytes, Callable[[list[bytes]], None]] = {
            b"COMPONENTS": self._component,
            b"PINS": self._port,
            b"NETS": self._net,
            b"BLOCKAGES": self._blockage,
        }
        item = None
        for words in self.file:
            if words and words[0] == b"-" and item is not None:
                item(words)
                continue
            rest = self._ends(words)
            if self.done:
                break
            if self.section:
                item = items.get(self.section)
                if rest and rest[0] == b"-" and item is not None:
                    item(rest)
                continue
            item = None
            if rest:
                self._statement(rest)
                item = items.get(self.section)
        if not self.done:
            where = f"inside {self.section.decode()}" if self.section else "before END DESIGN"
            raise self.file.error(f"the file ends {where}", hint="copy the file again; it was cut off")
        return self._assembled()

    def _ends(self, words: list[bytes]) -> list[bytes]:
        """Closes the sections that end before a statement and returns the statement's own words."""
        while words and words[0] == b"END":
            ended = words[1] if len(words) > 1 else b""
            if ended == b"DESIGN" and not self.section:
                self.done = True
                return []
            if ended != self.section or not ended:
                expected = f"END {self.section.decode()}" if self.section else "no END"
                raise self.file.error(f"END {shown(ended)} where {expected} was expected")
            self.section = b""
            words = words[2:]
        if words and words[0] == b"BEGINEXT":
            words = words[words.index(b"ENDEXT") + 1 :] if b"ENDEXT" in words else []
        return words

    def _statement(self, words: list[bytes]) -> None:
        word = words[0]
        if word in _SECTIONS:
            self.section = word
        elif word == b"DESIGN" and len(words) > 1:
            self.name = words[1].decode(errors="replace")
        elif word == b"UNITS":
            self.units = self.file.numeric(words[-1], "UNITS")
            if self.units <= 0.0:
                raise self.file.error(f"UNITS {shown(words[-1])} is not positive")
        elif word == b"DIEAREA":
            count = sum(given not in (b"(", b")") for given in words[1:])
            values = [value / self.units for value in self.file.numerics(words[1:], max(4, count // 2 * 2), "DIEAREA")]
            self.die = list(zip(values[::2], values[1::2], strict=True))
        elif word == b"-":
            raise self.file.error("an item outside a section", hint="check that the file is DEF")

    # --- sections --------------------------------------------------------------------------------------------------

    def _component(self, words: list[bytes]) -> None:
        if len(words) < 3:
            raise self.file.error("a component is not of the form `- name cell ...`")
        name, cell = words[1], words[2]
        master = self.library.cells.get(cell)
        if master is None:
            raise self.file.error(self.library.missing(cell), hint="name the LEF file that describes it, too")
        if master.filler:
            self.fillers.add(name)
            return
        index = len(self.master_of)
        if self.component_of.setdefault(name, index) != index or name in self.fillers:
            raise self.file.error(f"component {shown(name)!r} occurs twice")
        self.master_of.append(master)
        if master.hard:
            self.masters[index] = cell.decode(errors="replace")
        status = next((word for word in _STATUSES if word in words), b"")
        fixed = status in (b"FIXED", b"COVER")
        self.components.add(name, (master.width, master.height), hard=master.hard, fixed=fixed)
        if status:
            self.components.place(index, *self._place(words, status, "component"))

    def _place(self, words: list[bytes], status: bytes, what: str) -> tuple[float, float, int]:
        """Returns position (um) and orientation behind ``PLACED ( x y ) N``."""
        at = words.index(status)
        here = words[at + 1 : at + 6]
        if len(here) < 5 or here[0] != b"(" or here[3] != b")":
            raise self.file.error(f"the place of {what} {shown(words[1])!r} is not of the form `( x y ) N`")
        orientation = self.file.orientation(here[4])
        x, y = self.file.numeric(here[1], "x") / self.units, self.file.numeric(here[2], "y") / self.units
        return x, y, orientation

    def _port(self, words: list[bytes]) -> None:
        if len(words) < 2:
            raise self.file.error("a pin without a name")
        options = dict(itertools.pairwise(words[3:]))
        if options.get(b"USE") in _NOT_SIGNALS:
            return
        name, index = words[1], len(self.port_drives)
        if self.port_of.setdefault(name, index) != index:
            raise self.file.error(f"pin {shown(name)!r} occurs twice")
        self.port_drives.append(options.get(b"DIRECTION") == b"INPUT")
        self.ports.add(name, (0.0, 0.0), hard=False, fixed=True)
        status = next((word for word in _STATUSES if word in words), b"")
        if status:
            self.ports.place(index, *self._place(words, status, "pin"))

    def _net(self, words: list[bytes]) -> None:
        end = words.index(b"+") if b"+" in words else len(words)
        weight = 1.0
        if end < len(words):
            if b"SYNTHESIZED" in words[: end + 2]:
                words = _without_synthesized(words)
                end = words.index(b"+") if b"+" in words else len(words)
            options = words[end:]
            if b"USE" in options and options[options.index(b"USE") + 1 :][:1] in ([b"POWER"], [b"GROUND"]):
                self.supplies += 1
                return
            if b"WEIGHT" in options:
                given = options[options.index(b"WEIGHT") + 1 :][:1] or [b""]
                weight = self.file.numeric(given[0], "WEIGHT")
                if weight < 0.0:
                    raise self.file.error(f"WEIGHT {shown(given[0])} is negative")
        owners, names = words[3:end:4], words[4:end:4]
        well_formed = len(owners) == len(names) and end == 2 + 4 * len(owners)
        if not well_formed or words[2:end:4].count(b"(") + words[5:end:4].count(b")") != 2 * len(owners):
            raise self.file.error(
                f"net {shown(words[1] if len(words) > 1 else b'')!r}: its pins are not of the form `( component pin )`"
            )
        codes: list[int] = []
        driver = -1
        component_of, master_of = self.component_of, self.master_of
        for owner, name in zip(owners, names, strict=True):
            index = component_of.get(owner, -1)
            if index >= 0:
                master = master_of[index]
                pin = master.pins.get(name)
                if pin is None:
                    raise self.file.error(
                        f"net {shown(words[1])!r}: cell {shown(master.name)!r} has no pin {shown(name)!r} "
                        f"(component {shown(owner)!r})",
                        hint="use the LEF files that belong to this DEF file",
                    )
                drives = pin.drives
                code = self._macro_pin(index, name) if master.hard else index
            elif owner == b"PIN":
                port = self.port_of.get(name, -1)
                if port < 0:
                    raise self.file.error(f"net {shown(words[1])!r}: there is no pin {shown(name)!r} under PINS")
                drives, code = self.port_drives[port], PORT_CODE + port
            elif owner == b"*" or owner in self.fillers:
                continue
            else:
                hint = "" if self.component_of else "the section COMPONENTS has to come before NETS"
                raise self.file.error(f"net {shown(words[1])!r}: there is no component {shown(owner)!r}", hint=hint)
            if drives and driver < 0:
                driver = len(codes)
            codes.append(code)
        if len(codes) < 2:
            return
        self.undriven += driver < 0
        self.nets.add(codes, driver, weight)

    def _macro_pin(self, component: int, name: bytes) -> int:
        """Returns the code of a pin of a hard macro."""
        found = self.macro_pin_of.get((component, name))
        if found is None:
            pin = self.master_of[component].pins[name]
            found = self.macro_pin_of[component, name] = self.pins.add(component, pin.x, pin.y, name)
        return found

    def _blockage(self, words: list[bytes]) -> None:
        if b"PLACEMENT" not in words[:2] or len(self.blockages) >= _MAX_BLOCKAGES:
            return  # blockages of layers are for routers
        rate = 1.0
        if b"PARTIAL" in words:
            allowed = self.file.numerics(words[words.index(b"PARTIAL") + 1 :][:1], 1, "PARTIAL")[0]
            rate = 1.0 - min(max(allowed, 0.0), 100.0) / 100.0
        for at, word in enumerate(words):
            if word == b"RECT":
                low_x, low_y, high_x, high_y = (
                    value / self.units for value in self.file.numerics(words[at + 1 : at + 9], 4, "RECT")
                )
                self.blockages.append(
                    (min(low_x, high_x), min(low_y, high_y), max(low_x, high_x), max(low_y, high_y), rate)
                )

    # --- the whole -------------------------------------------------------------------------------------------------

    def _assembled(self) -> FlatDesign:
        if not self.die:
            raise self.file.error("no DIEAREA", hint="write the DEF file after floorplanning")
        across, up = [x for x, _ in self.die], [y for _, y in self.die]
        box = (min(across), min(up), max(across), max(up))
        notes = []
        if len(self.die) > 2:
            outside = area_outside(self.die)
            self.blockages += [(*corners, 1.0) for corners in outside]
            notes.append(f"the die is a polygon: {len(outside)} blockages cover the rest of its box")
        if self.fillers:
            notes.append(f"{len(self.fillers):,} filler cells were left out")
        if self.supplies:
            notes.append(f"{self.supplies:,} power and ground nets were left out")
        if self.undriven:
            notes.append(f"{self.undriven:,} nets without an output: their first pin counts as driver")
        return self.assembled(
            source=str(self.file.path),
            name=self.name or self.file.path.name.partition(".")[0],
            box=box,
            blockages=self.blockages,
            notes=notes,
        )


def _without_synthesized(words: list[bytes]) -> list[bytes]:
    """Returns a net without the mark ``( component pin + SYNTHESIZED )`` of pins that a tool added."""
    kept: list[bytes] = []
    for word in words:
        if word == b"SYNTHESIZED" and kept and kept[-1] == b"+":
            kept.pop()
        else:
            kept.append(word)
    return kept
