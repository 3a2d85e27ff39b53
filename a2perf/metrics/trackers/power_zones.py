"""One energy counter of the kernel's powercap tree, and one power domain behind one or several counters.

A zone is a folder with ``name``, ``energy_uj`` and ``max_energy_range_uj``; its counter starts over after the range
(Documentation/power/powercap/powercap.rst). The register behind it has 32 bits, therefore one tick is range / 2**32.
A domain counts what its zones agree on, and keeps the time in which none of them could be read: what was drawn in that
time is assumed, not counted.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

COUNTER_STATES = 2**32
MAX_POWER_W = 2000.0
"""More than any processor package or memory of one socket draws. A counter that would need more power than this to get
to its value was reset."""
FROZEN_S = 0.25
"""A counter that does not advance for so long is not live: hardware updates it every millisecond."""
_SHORTEST_S = 0.01
_DIE = re.compile(r"package-\d+(-die-\d+)?")
_PARTS = ("core", "uncore", "dram")


def kind_of(name: str) -> str:
    """Returns ``"package"``, ``"core"``, ``"uncore"``, ``"dram"`` or ``"psys"``; ``""`` for any other zone."""
    if _DIE.fullmatch(name):
        return "package"
    return name if name in (*_PARTS, "psys") else ""


@dataclass
class Zone:
    """One counter in microjoules, made monotonic; it starts over after ``range_uj``.

    ``value_uj`` is the last reading, None while it cannot be read.
    """

    path: Path
    range_uj: int
    value_uj: int | None = None
    _file: str = ""
    _last_s: float = 0.0
    _power_w: float = 0.0

    def __post_init__(self) -> None:
        self._file = os.fspath(self.path / "energy_uj")

    @property
    def tick_j(self) -> float:
        """One step of the register in joules: 61 uJ or 15 uJ on most processors."""
        return self.range_uj / COUNTER_STATES / 1e6

    def peek(self) -> int | None:
        """Reads the counter without accounting for it; None if it cannot be read."""
        try:
            # Opened for each reading: an open file of a zone that was removed would repeat its last value.
            descriptor = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return int(os.read(descriptor, 32))
        except (OSError, ValueError):
            return None
        finally:
            os.close(descriptor)

    def step_j(self, now_s: float) -> float | None:
        """Reads the counter; returns the joules since the last reading.

        None if that is unknown: the counter could not be read now or then, was reset, or may have wrapped around more
        than once.
        """
        before, self.value_uj = self.value_uj, self.peek()
        elapsed, self._last_s = now_s - self._last_s, now_s
        if self.value_uj is None or before is None:
            return None
        step = self.value_uj - before
        most_uj = MAX_POWER_W * 1e6 * max(elapsed, _SHORTEST_S)
        if most_uj > self.range_uj:
            # Long without a reading: the number of wraps is the one that fits the power before.
            wraps = round((self._power_w * elapsed * 1e6 - step) / self.range_uj)
            if self._power_w == 0:
                return None
            return (step + max(wraps, 1 if step < 0 else 0) * self.range_uj) / 1e6
        if step < 0:
            step += self.range_uj
        if not 0 <= step <= most_uj:  # no hardware draws that: the counter was reset
            return None
        if elapsed > 0 and step:
            self._power_w = step / 1e6 / elapsed
        return step / 1e6


@dataclass
class PowerDomain:
    """A part of the hardware with its own energy, and the zones that show it.

    Attributes:
        kind: as ``kind_of`` returns it.
        label: name that is unique in its kind, ``"package-0"``, ``"package-0 dram"``.
        zones: counters of the same energy, the preferred first: the register, its memory-mapped twin, mirrors.
        counted_j: joules that were counted since it was opened, in ``counted_s`` seconds.
        unread_s: seconds in which no zone could be read.
    """

    kind: str
    label: str
    zones: list[Zone] = field(default_factory=list)
    counted_j: float = 0.0
    counted_s: float = 0.0
    unread_s: float = 0.0
    mirrors: list[str] = field(default_factory=list)
    _still_s: float = 0.0
    _last_s: float = 0.0

    def open(self, now_s: float, *, missed_s: float = 0.0) -> None:
        """Takes the first reading on the clock of all later ones; it was not there for ``missed_s`` of the account."""
        self._last_s, self.unread_s = now_s, missed_s
        for zone in self.zones:
            zone.step_j(now_s)

    def advance(self, now_s: float) -> None:
        """Reads all zones and accounts for the first that gives a step."""
        elapsed, self._last_s = now_s - self._last_s, now_s
        known = [step for zone in self.zones if (step := zone.step_j(now_s)) is not None]
        # A twin steps in only for a zone that stands still: counters read at one moment may differ by one update.
        step = max(known) if known and self._still_s > FROZEN_S else known[0] if known else 0.0
        if not known:
            self.unread_s += elapsed
        elif step > 0:
            self.counted_j += step
            self.counted_s += elapsed + self._still_s
            self._still_s = 0.0
        else:
            self._still_s += elapsed

    @property
    def readable(self) -> bool:
        """Whether a zone could be read the last time."""
        return any(zone.value_uj is not None for zone in self.zones)

    @property
    def live(self) -> bool:
        """Whether a counter has advanced, or has not yet had the time to."""
        return self.counted_s > 0 or (self.readable and self._still_s <= FROZEN_S)

    @property
    def value_uj(self) -> int | None:
        """The reading of the preferred zone that can be read."""
        return next((zone.value_uj for zone in self.zones if zone.value_uj is not None), None)

    @property
    def mean_w(self) -> float:
        """Mean power while it was counted; 0 if it never was."""
        return self.counted_j / self.counted_s if self.counted_s > 0 else 0.0

    @property
    def assumed_j(self) -> float:
        """Joules of the time without a live counter, at the mean power of the counted time."""
        return self.mean_w * (self.unread_s + (self._still_s if self._still_s > FROZEN_S else 0.0))

    @property
    def tick_j(self) -> float:
        """Resolution of its counter in joules."""
        return self.zones[0].tick_j if self.zones else 0.0
