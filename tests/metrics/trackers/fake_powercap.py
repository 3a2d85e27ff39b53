"""A powercap tree of real files whose counters move on a clock of their own, and the energy that they should add up to.

Registers are what the hardware has: they hold the true energy. Zones are what the kernel shows: folders with files.
A register is updated every millisecond, has a tick, and starts over after its range, as the hardware does.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

RANGE_UJ = 262_143_328_850
"""2**32 ticks of 61 uJ."""
UPDATE_S = 1e-3


@dataclass
class Register:
    """One counter of the hardware."""

    watts: float
    start_uj: int = 0
    range_uj: int = RANGE_UJ
    joules: float = 0.0
    frozen: bool = False

    def shown_uj(self, now_s: float, late_ticks: int = 0) -> int:
        """The value that a reader sees: as of the last update, in whole ticks, within the range."""
        tick_uj = self.range_uj / 2**32
        seen_uj = 0.0 if self.frozen else (self.joules - self.watts * (now_s % UPDATE_S)) * 1e6
        ticks = round(self.start_uj / tick_uj) + int(seen_uj / tick_uj) - late_ticks
        return int(ticks * tick_uj) % self.range_uj


@dataclass
class Shown:
    """One zone."""

    folder: Path
    register: Register
    late_ticks: int = 0
    readable: bool = True


@dataclass
class FakePowercap:
    """A tree of zones below a folder.

    Attributes:
        truth: registers whose energy is that of the component under test.
    """

    root: Path
    now_s: float = 0.0
    truth: list[Register] = field(default_factory=list)
    zones: dict[str, Shown] = field(default_factory=dict)
    registers: list[Register] = field(default_factory=list)

    def register(self, watts: float, *, counts: bool = True, **kwargs: int) -> Register:
        """Adds a counter of the hardware; ``counts`` if its energy is part of the truth."""
        made = Register(watts, **kwargs)
        self.registers.append(made)
        if counts:
            self.truth.append(made)
        return made

    def zone(self, path: str, name: str, register: Register, *, late_ticks: int = 0, readable: bool = True) -> None:
        """Shows a register as a zone; ``path`` is relative, a subzone lies in its zone."""
        folder = self.root / path
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"{name}\n")
        (folder / "max_energy_range_uj").write_text(f"{register.range_uj}\n")
        self.zones[path] = Shown(folder, register, late_ticks, readable)
        self._write(self.zones[path])

    def hide(self, path: str) -> None:
        """Makes a counter unreadable; its zone stays."""
        self.zones[path].readable = False
        self._write(self.zones[path])

    def show(self, path: str) -> None:
        """Makes it readable again."""
        self.zones[path].readable = True
        self._write(self.zones[path])

    def remove(self, path: str) -> None:
        """Removes a zone, as unloading its driver does."""
        shutil.rmtree(self.zones[path].folder)
        self.zones = {other: shown for other, shown in self.zones.items() if not f"{other}/".startswith(f"{path}/")}

    def clock(self) -> float:
        """Seconds of the tree's own clock."""
        return self.now_s

    def run(self, seconds: float) -> None:
        """Lets time pass."""
        self.now_s += seconds
        for register in self.registers:
            register.joules += register.watts * seconds
        for shown in self.zones.values():
            self._write(shown)

    def true_joules(self) -> float:
        """Energy of the component under test since the tree was made."""
        return sum(register.joules for register in self.truth)

    def _write(self, shown: Shown) -> None:
        file = shown.folder / "energy_uj"
        if not shown.readable:
            file.unlink(missing_ok=True)
        else:
            # Replaced at once: a reader in another thread never sees a part of the number.
            new = shown.folder / "energy_uj.new"
            new.write_text(f"{shown.register.shown_uj(self.now_s, shown.late_ticks)}\n")
            new.replace(file)


Event = Callable[[FakePowercap], None]
