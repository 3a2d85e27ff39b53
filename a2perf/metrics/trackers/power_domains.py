"""The power domains of a machine, as the kernel's powercap tree shows them (running average power limit, RAPL).

What contains what decides which counters are added::

    psys                       the whole platform: taken only where no package can be read
    package-0                  one per socket or die: their sum is the processor
      core, uncore             parts of a package: never added to it; they stand in for a package without a counter
      dram                     beside the package: the memory
    package-0 (mmio)           the same register through memory-mapped I/O: a twin, never added

Dies of one package are added unless their counters mirror each other, as on AMD processors where each die shows the
counter of the package: equal within a tick in several readings, with one reading between two of the other. Counters may
wrap around, be reset, be unreadable, appear or vanish; see ``PowerDomain``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from a2perf.metrics.trackers.power_zones import PowerDomain, Zone, kind_of

POWERCAP = Path("/sys/class/powercap")
UPDATE_S = 1e-3
"""Period in which the hardware updates a counter (Haehnel et al. 2012, "Measuring energy consumption ... RAPL")."""
MIRROR_READINGS = 5
"""Readings that advance and agree before two counters are taken for one."""
_PACKAGE_OVER_CORE = 1.5
"""A package draws between once and twice what its cores and graphics draw; the middle is taken."""
_SETTLE_S = 0.002


class Reading(NamedTuple):
    """Energy since the domains were opened.

    Attributes:
        joules: all of it, ``assumed_j`` included.
        assumed_j: part of ``joules`` that was not counted; it may be wrong by as much.
        undecided_j: energy that would be added if counters that have agreed so far turned out to be two.
        tick_j: resolution, the root of the sum of squares over the counters.
        source: ``"rapl"`` (packages, memory), ``"rapl_core"`` or ``"rapl_psys"``.
    """

    joules: float
    assumed_j: float
    undecided_j: float
    tick_j: float
    source: str


@dataclass
class _Pair:
    """Two domains that may be one counter."""

    first: PowerDomain
    second: PowerDomain
    agreed: int = 0
    last_uj: int | None = None


class PowerDomains:
    """The counters below one powercap folder, of one component or of both, on the clock of the caller's account."""

    def __init__(
        self,
        powercap: Path = POWERCAP,
        *,
        clock: Callable[[], float] = time.perf_counter,
        reads: Literal["processor", "memory", "both"] = "both",
    ) -> None:
        self._powercap = powercap
        self._clock = clock
        self._reads = reads
        self._domains: dict[tuple[str, str], PowerDomain] = {}
        self._known: set[Path] = set()
        self._pairs: list[_Pair] = []
        self._merged: set[int] = set()
        self._began_s = self._last_s = clock()
        self.rescan()

    def rescan(self) -> None:
        """Opens zones that have appeared."""
        now_s = self._clock()
        fresh: list[PowerDomain] = []
        for path, name, label, order in _zones(self._powercap):
            if path in self._known:
                continue
            try:
                zone = Zone(path, int((path / "max_energy_range_uj").read_text()))
            except (OSError, ValueError):
                continue
            self._known.add(path)
            kind = kind_of(name)
            domain = self._domains.get((kind, label))
            if domain is not None and order == 0 and any("mmio" not in twin.path.name for twin in domain.zones):
                label = f"{label} ({path.name})"  # two zones of one interface with one name are two parts
                domain = None
            if domain is None:
                domain = self._domains[kind, label] = PowerDomain(kind, label)
                fresh.append(domain)
            domain.zones.append(zone)
            if domain not in fresh:
                zone.step_j(now_s)
        for domain in fresh:
            domain.open(now_s, missed_s=now_s - self._began_s)
        self._pair(fresh)

    def _pair(self, fresh: list[PowerDomain]) -> None:
        for second in fresh:
            for first in self._of(second.kind):
                if first is second:  # the order of the pair is the order of reading
                    break
                if _between(first, second):
                    self._pairs.append(_Pair(first, second, last_uj=second.value_uj))

    def read(self) -> None:
        """Reads every counter that the account needs, a few microseconds each."""
        self._last_s = self._clock()
        for domain in self._needed():
            domain.advance(self._last_s)
        for pair in list(self._pairs):
            self._judge(pair)

    def settle(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Reads several times in a row if counters may mirror each other; at most 10 ms."""
        for _ in range(MIRROR_READINGS):
            if not self._pairs:
                return
            sleep(_SETTLE_S)
            self.read()

    def _judge(self, pair: _Pair) -> None:
        value = pair.second.value_uj
        if value is None or pair.first.value_uj is None or value == pair.last_uj:
            return
        pair.last_uj = value
        if not _between(pair.first, pair.second):
            self._pairs.remove(pair)
            return
        pair.agreed += 1
        if pair.agreed >= MIRROR_READINGS:
            self._pairs = [other for other in self._pairs if pair.second not in (other.first, other.second)]
            self._merged.add(id(pair.second))
            pair.first.zones += pair.second.zones  # now a spare: it takes over if the first can no longer be read
            pair.first.mirrors.append(pair.second.label)

    def _of(self, kind: str) -> list[PowerDomain]:
        return [d for d in self._domains.values() if d.kind == kind and id(d) not in self._merged]

    def _needed(self) -> Iterator[PowerDomain]:
        if self._reads != "processor":
            yield from self._of("dram")
        if self._reads == "memory":
            return
        packages = self._of("package")
        yield from packages
        if not any(package.readable for package in packages):
            for kind in ("core", "uncore", "psys"):
                yield from self._of(kind)

    @property
    def mirrors(self) -> list[str]:
        """One sentence for each counter that shows the energy of another."""
        return [f"{twin} mirrors {d.label}" for d in self._domains.values() for twin in d.mirrors]

    @property
    def readable(self) -> dict[str, int]:
        """Number of domains with a counter that can be read, by kind."""
        counts: dict[str, int] = {}
        for domain in self._domains.values():
            if domain.readable and id(domain) not in self._merged:
                counts[domain.kind] = counts.get(domain.kind, 0) + 1
        return counts

    def processor(self) -> Reading | None:
        """Returns the energy of the processor as of the last ``read``; None where no live counter shows it."""
        packages = self._total("package", "rapl")
        if packages is not None:
            return packages
        core = self._total("core", "rapl_core")
        if core is not None:
            uncore = self._total("uncore", "rapl_core")
            counted = core.joules + (uncore.joules if uncore is not None else 0.0)
            rest = (_PACKAGE_OVER_CORE - 1) * counted
            return core._replace(joules=counted + rest, assumed_j=core.assumed_j + rest)
        return self._total("psys", "rapl_psys")

    def memory(self) -> Reading | None:
        """Returns the energy of the memory as of the last ``read``; None where no live counter shows it."""
        return self._total("dram", "rapl")

    def _total(self, kind: str, source: str) -> Reading | None:
        domains = self._of(kind)
        live = [domain for domain in domains if domain.live]
        if not live:
            return None
        doubled = {id(pair.second): pair.second for pair in self._pairs if pair.second.kind == kind and pair.first.live}
        alone = [domain for domain in live if id(domain) not in doubled]
        assumed = sum(domain.assumed_j for domain in alone)
        joules = sum(domain.counted_j for domain in alone) + assumed
        silent = len(domains) - len(live)
        if silent:  # a socket without a counter is taken to draw as much as the mean of the others
            mean_w = sum(domain.mean_w for domain in alone) / len(alone)
            unseen = silent * mean_w * (self._last_s - self._began_s)
            joules, assumed = joules + unseen, assumed + unseen
        return Reading(
            joules=joules,
            assumed_j=assumed,
            undecided_j=sum(domain.counted_j for domain in doubled.values()),
            tick_j=sum(domain.tick_j**2 for domain in alone) ** 0.5,
            source=source,
        )


def _between(first: PowerDomain, second: PowerDomain) -> bool:
    """Whether a reading of the second lies between two of the first, within one tick of their register."""
    before, value = first.value_uj, second.value_uj
    after = next((seen for zone in first.zones if (seen := zone.peek()) is not None), None)
    if before is None or value is None or after is None:
        return False
    tick_uj = 1e6 * max(first.tick_j, second.tick_j) + 1
    # A counter that wraps between the two readings says nothing; the next reading decides.
    return after < before or before - tick_uj <= value <= after + tick_uj


def _zones(powercap: Path) -> list[tuple[Path, str, str, int]]:
    """Returns folder, name, label and preference of every zone of a known kind, each once and packages first.

    sysfs shows a subzone both inside its zone and, as a link, beside it.
    """
    found: dict[str, Path] = {}
    try:
        tops = sorted(path for path in powercap.glob("*rapl*:*"))
    except OSError:
        return []
    for top in tops:
        nested = sorted(path for path in top.glob(f"{top.name}:*") if path.is_dir()) if top.name.count(":") == 1 else []
        for path in (top, *nested):
            if path.name not in found or path.parent != powercap:
                found[path.name] = path
    names = {folder: _name(path) for folder, path in found.items()}
    zones = []
    for folder, path in found.items():
        name = names[folder]
        if not kind_of(name):
            continue
        parent = names.get(folder.rpartition(":")[0], "")
        label = f"{parent} {name}" if parent else name
        zones.append((path, name, label, int("mmio" in folder)))
    return sorted(zones, key=lambda zone: (zone[3], zone[2], zone[0].name))


def _name(path: Path) -> str:
    try:
        return (path / "name").read_text().strip()
    except OSError:
        return ""
