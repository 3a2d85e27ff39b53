"""Machines with a known energy: each builds a powercap tree, lets it run and returns what the tracker makes of it.

    python -m tests.metrics.trackers.power_topologies

prints the table of ``docs/explanation/energy.md``: truth, result and uncertainty of each.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from a2perf.metrics.trackers.energy import CpuEnergy, RamEnergy
from a2perf.metrics.trackers.process_tree import TreeSample
from a2perf.metrics.trackers.tick import Tick
from a2perf.runs.tracking_record import ComponentEnergy

from .fake_powercap import RANGE_UJ, Event, FakePowercap

KWH = 3.6e6
DRAM_RANGE_UJ = 65_712_999_613


@dataclass(frozen=True)
class Machine:
    """One topology.

    Attributes:
        build: makes the tree.
        events: what happens to it, by seconds since the start of the account.
        memory: whether the memory is measured and not the processor.
        quality: what the record must say.
        exact: nothing has to be assumed, so that only resolution and sampling may separate result and truth.
        amd: whether the processor is AMD's.
        step_s: time between two readings.
        seconds: length of the account.
    """

    title: str
    build: Callable[[FakePowercap], None]
    events: dict[float, Event] = field(default_factory=dict)
    memory: bool = False
    quality: str = "measured"
    exact: bool = True
    amd: bool = False
    step_s: float = 0.0903
    seconds: float = 2.0


@dataclass(frozen=True)
class Outcome:
    """Joules of the account, and the record."""

    truth: float
    result: float
    expanded: float
    record: ComponentEnergy

    @property
    def without_model(self) -> float:
        """The expanded uncertainty of resolution and sampling alone, in joules."""
        unsure = self.record.gross_uncertainty
        return 2 * KWH * math.hypot(unsure.resolution_kwh, unsure.sampling_kwh)


def tick(elapsed_s: float, interval_s: float) -> Tick:
    """A sample of a tree that has the machine to itself."""
    tree = TreeSample(frozenset({1}), elapsed_s, "cgroup_v2", 1, 10**9, None, None, 0, 0)
    return Tick(elapsed_s, interval_s, "", tree, elapsed_s, interval_s, interval_s)


def outcome(machine: Machine, folder: Path) -> Outcome:
    """Runs a machine: half a second of idle baseline, then the account."""
    fake = FakePowercap(folder)
    machine.build(fake)
    shared = {"powercap": folder, "clock": fake.clock, "settle": fake.run}
    tracker = RamEnergy(**shared) if machine.memory else CpuEnergy(**shared, amd=machine.amd)
    tracker.start()
    fake.run(0.5003)
    tracker.attach()
    began_s, began_j = fake.now_s, fake.true_joules()
    last_s, events = 0.0, sorted(machine.events.items())
    while last_s < machine.seconds:
        fake.run(machine.step_s)
        elapsed_s = fake.now_s - began_s
        while events and events[0][0] <= elapsed_s:
            events.pop(0)[1](fake)
        tracker.poll()
        fake.run(0.0097)
        now_s = fake.now_s - began_s
        tracker.sample(tick(now_s, now_s - last_s))
        last_s = now_s
    record = tracker.energy()
    expanded = record.gross_uncertainty.expanded_kwh * KWH
    return Outcome(fake.true_joules() - began_j, record.gross_kwh * KWH, expanded, record)


def _one_package(fake: FakePowercap) -> None:
    package = fake.register(60.0, start_uj=5_000_000)
    fake.zone("intel-rapl:0", "package-0", package)


def _two_sockets(fake: FakePowercap) -> None:
    for socket, watts in enumerate((60.0, 45.0)):
        fake.zone(f"intel-rapl:{socket}", f"package-{socket}", fake.register(watts, start_uj=7_000_000 * socket))


def _with_parts(fake: FakePowercap) -> None:
    _one_package(fake)
    for place, (name, watts) in enumerate({"core": 40.0, "uncore": 5.0}.items()):
        part = fake.register(watts, counts=False)
        fake.zone(f"intel-rapl:0/intel-rapl:0:{place}", name, part)
        fake.zone(f"intel-rapl:0:{place}", name, part)  # the same again, as sysfs links it


def _with_psys(fake: FakePowercap) -> None:
    _one_package(fake)
    fake.zone("intel-rapl:1", "psys", fake.register(95.0, counts=False))


def _with_twin(fake: FakePowercap) -> None:
    package = fake.register(28.0, start_uj=5_000_000)
    fake.zone("intel-rapl:0", "package-0", package)
    fake.zone("intel-rapl-mmio:0", "package-0", package)


def _twin_alone(fake: FakePowercap) -> None:
    _with_twin(fake)
    fake.hide("intel-rapl:0")


def _psys_alone(fake: FakePowercap) -> None:
    fake.zone("intel-rapl:0", "psys", fake.register(22.5, start_uj=9_000_000))


def _mirrored(fake: FakePowercap, *, late_ticks: int = 0, sockets: int = 1, dies: int = 2) -> None:
    for socket in range(sockets):
        package = fake.register(34.0 + socket, start_uj=11_000_000 * (socket + 1))
        for die in range(dies):
            path, name = f"intel-rapl:{socket * dies + die}", f"package-{socket}-die-{die}"
            fake.zone(path, name, package, late_ticks=late_ticks * die)
            fake.zone(f"{path}/{path}:0", "core", fake.register(9.0, counts=False))


def _two_dies(fake: FakePowercap, *, start_uj: tuple[int, int] = (5_000_000, 812_000_000)) -> None:
    for die, watts in enumerate((34.0, 33.2)):
        register = fake.register(watts, start_uj=start_uj[die])
        fake.zone(f"intel-rapl:{die}", f"package-0-die-{die}", register)


def _same_name_twice(fake: FakePowercap) -> None:
    for die, watts in enumerate((34.0, 33.2)):
        fake.zone(f"intel-rapl:{die}", "package-0", fake.register(watts, start_uj=77_000_000 * die))


def _wrapping(fake: FakePowercap) -> None:
    fake.zone("intel-rapl:0", "package-0", fake.register(60.0, start_uj=RANGE_UJ - 70_000_000))


def _wrapping_twice(fake: FakePowercap) -> None:
    register = fake.register(150.0, start_uj=3_000_000, range_uj=RANGE_UJ // 16)
    fake.zone("intel-rapl:0", "package-0", register)


def _reset(fake: FakePowercap) -> None:
    register = fake.zones["intel-rapl:0"].register
    register.start_uj = -int(register.joules * 1e6)
    fake.run(0.0)


def _half_hidden(fake: FakePowercap) -> None:
    _two_sockets(fake)
    fake.hide("intel-rapl:1")


def _cores_alone(fake: FakePowercap) -> None:
    _with_parts(fake)
    fake.hide("intel-rapl:0")


def _second_appears(fake: FakePowercap) -> None:
    fake.register(45.0, start_uj=90_000_000)
    _one_package(fake)


def _appear(fake: FakePowercap) -> None:
    fake.zone("intel-rapl:1", "package-1", fake.registers[0])


def _memory(fake: FakePowercap) -> None:
    for socket, watts in enumerate((6.0, 4.5)):
        path, package = f"intel-rapl:{socket}", fake.register(60.0, counts=False, start_uj=4_000_000 * socket)
        fake.zone(path, f"package-{socket}", package)
        dram = fake.register(watts, start_uj=3_000_000 * socket, range_uj=DRAM_RANGE_UJ)
        fake.zone(f"{path}/{path}:0", "dram", dram)
        fake.zone(f"{path}:0", "dram", dram)


def _mirrored_memory(fake: FakePowercap) -> None:
    dram = fake.register(6.0, range_uj=DRAM_RANGE_UJ)
    for die in range(2):
        path = f"intel-rapl:{die}"
        fake.zone(path, f"package-0-die-{die}", fake.register(30.0 + die, counts=False, start_uj=4_000_000 * die))
        fake.zone(f"{path}/{path}:0", "dram", dram)


MACHINES = (
    Machine("one package", _one_package),
    Machine("two sockets", _two_sockets),
    Machine("package with core and uncore", _with_parts),
    Machine("package and psys", _with_psys),
    Machine("package and its MMIO twin", _with_twin),
    Machine("MMIO twin, register unreadable", _twin_alone),
    Machine("psys alone", _psys_alone),
    Machine("two dies that mirror one counter (AMD)", _mirrored, amd=True),
    Machine("two mirrors, the second one tick late", lambda fake: _mirrored(fake, late_ticks=1), amd=True),
    Machine("two sockets of four mirrors each", lambda fake: _mirrored(fake, sockets=2, dies=4), amd=True),
    Machine("two real dies", _two_dies),
    Machine("two real dies that start at one value", lambda fake: _two_dies(fake, start_uj=(5_000_000, 5_000_000))),
    Machine("two packages of one name", _same_name_twice),
    Machine("counter wraps around", _wrapping),
    Machine("counter wraps between rare readings", _wrapping_twice, step_s=260.0, seconds=1000.0),
    Machine("register vanishes, MMIO twin takes over", _with_twin, {1.0: lambda fake: fake.remove("intel-rapl:0")}),
    Machine("one of two mirrors vanishes", _mirrored, {1.0: lambda fake: fake.remove("intel-rapl:0")},
            amd=True),
    Machine("counter is reset (suspend)", _one_package, {1.0: _reset}, exact=False),
    Machine("unreadable for 0.4 s", _one_package,
            {0.8: lambda fake: fake.hide("intel-rapl:0"), 1.2: lambda fake: fake.show("intel-rapl:0")},
            exact=False, quality="estimated"),
    Machine("only package vanishes half-way", _one_package, {1.0: lambda fake: fake.remove("intel-rapl:0")},
            exact=False, quality="estimated"),
    Machine("one of two packages unreadable", _half_hidden, exact=False, quality="estimated"),
    Machine("second package appears after 0.7 s", _second_appears, {0.7: _appear}, exact=False, quality="estimated"),
    Machine("package unreadable, core and uncore readable", _cores_alone, exact=False, quality="estimated"),
    Machine("memory of two sockets", _memory, memory=True),
    Machine("memory of two dies that mirror one counter", _mirrored_memory, memory=True),
)  # fmt: skip


def table() -> str:
    """Returns the table of all machines in Markdown."""
    lines = ["| topology | truth | result | uncertainty (k = 2) | record |", "| --- | ---: | ---: | ---: | --- |"]
    for machine in MACHINES:
        with tempfile.TemporaryDirectory() as folder:
            found = outcome(machine, Path(folder))
        lines.append(
            f"| {machine.title} | {found.truth:.2f} J | {found.result:.2f} J | ± {found.expanded:.2f} J"
            f" | {found.record.quality} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
