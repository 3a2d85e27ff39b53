"""Energy counters of Intel and AMD processors through the kernel's powercap tree (running average power limit, RAPL).

Package zones hold the processor, their ``dram`` subzones the memory. A counter is in microjoules and starts over at
``max_energy_range_uj`` (Documentation/power/powercap/powercap.rst). Since 2020 most kernels let only root read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")


@dataclass
class Counter:
    """One zone's counter, made monotonic."""

    path: Path
    range_uj: int
    last_uj: int
    total_uj: int = 0

    def advance(self) -> int:
        """Reads the counter and returns microjoules since it was opened.

        Raises:
            OSError: the counter can no longer be read.
        """
        now = int(self.path.read_text())
        step = now - self.last_uj
        if step < 0:
            step += self.range_uj
        self.last_uj = now
        self.total_uj += max(0, step)
        return self.total_uj


@dataclass
class Rapl:
    """The readable counters of this machine.

    Attributes:
        packages: one counter per processor package.
        dram: one per package with a separate counter of its memory.
    """

    packages: list[Counter] = field(default_factory=list)
    dram: list[Counter] = field(default_factory=list)

    @classmethod
    def open(cls, powercap: Path = POWERCAP) -> Rapl:
        """Opens every readable counter below ``powercap``; there may be none.

        A zone named ``package-N`` counts once, though the memory-mapped interface shows it a second time.
        """
        rapl = cls()
        seen: set[str] = set()
        for zone in sorted(powercap.glob("intel-rapl*:*"), key=lambda path: ("mmio" in path.name, path.name)):
            name = _name(zone)
            if name is None or not name.startswith("package-") or name in seen:
                continue
            counter = _open(zone)
            if counter is None:
                continue
            seen.add(name)
            rapl.packages.append(counter)
            rapl.dram += [
                found for sub in _subzones(zone) if _name(sub) == "dram" and (found := _open(sub)) is not None
            ]
        return rapl

    def package_joules(self) -> float:
        """Joules of all packages since opening."""
        return sum(counter.advance() for counter in self.packages) / 1e6

    def dram_joules(self) -> float:
        """Joules of all memory zones since opening."""
        return sum(counter.advance() for counter in self.dram) / 1e6


def _subzones(zone: Path) -> list[Path]:
    # sysfs shows a subzone both inside its zone and, as a link, beside it; inside is enough.
    return sorted(path for path in zone.glob(f"{zone.name}:*") if path.is_dir())


def _name(zone: Path) -> str | None:
    try:
        return (zone / "name").read_text().strip()
    except OSError:
        return None


def _open(zone: Path) -> Counter | None:
    try:
        return Counter(
            path=zone / "energy_uj",
            range_uj=int((zone / "max_energy_range_uj").read_text()),
            last_uj=int((zone / "energy_uj").read_text()),
        )
    except (OSError, ValueError):
        return None
