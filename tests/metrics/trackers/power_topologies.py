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
from typing import Any

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


Part = tuple[float, str, dict[str, int]]
"""Watts of a register, the zones ``PATH=NAME`` that show it, and further arguments of ``FakePowercap.register``."""
UNSEEN = {"counts": False}


def build(*parts: Part, hidden: str = "") -> Callable[[FakePowercap], None]:
    """Returns what makes a tree of these registers."""

    def make(fake: FakePowercap) -> None:
        for watts, zones, options in parts:
            register = fake.register(watts, **options)
            for zone in zones.split():
                fake.zone(*zone.split("="), register)
        if hidden:
            fake.hide(hidden)

    return make


PACKAGE: Part = (60.0, "intel-rapl:0=package-0", {"start_uj": 5_000_000})
SOCKETS: tuple[Part, ...] = (
    (60.0, "intel-rapl:0=package-0", {}),
    (45.0, "intel-rapl:1=package-1", {"start_uj": 7_000_000}),
)
# sysfs links each subzone beside its zone
PARTS: tuple[Part, ...] = (
    PACKAGE,
    (40.0, "intel-rapl:0/intel-rapl:0:0=core intel-rapl:0:0=core", UNSEEN),
    (5.0, "intel-rapl:0/intel-rapl:0:1=uncore intel-rapl:0:1=uncore", UNSEEN),
)
TWIN: Part = (28.0, "intel-rapl:0=package-0 intel-rapl-mmio:0=package-0", {"start_uj": 5_000_000})
MEMORY: tuple[Part, ...] = (
    (60.0, "intel-rapl:0=package-0", UNSEEN),
    (60.0, "intel-rapl:1=package-1", {**UNSEEN, "start_uj": 4_000_000}),
    (6.0, "intel-rapl:0/intel-rapl:0:0=dram intel-rapl:0:0=dram", {"range_uj": DRAM_RANGE_UJ}),
    (4.5, "intel-rapl:1/intel-rapl:1:0=dram intel-rapl:1:0=dram", {"start_uj": 3_000_000, "range_uj": DRAM_RANGE_UJ}),
)
MIRRORED_MEMORY: tuple[Part, ...] = (
    (30.0, "intel-rapl:0=package-0-die-0", UNSEEN),
    (31.0, "intel-rapl:1=package-0-die-1", {**UNSEEN, "start_uj": 4_000_000}),
    (6.0, "intel-rapl:0/intel-rapl:0:0=dram intel-rapl:1/intel-rapl:1:0=dram", {"range_uj": DRAM_RANGE_UJ}),
)


def mirrored(*, late_ticks: int = 0, sockets: int = 1, dies: int = 2) -> Callable[[FakePowercap], None]:
    """Returns what makes dies that all show the counter of their package."""

    def make(fake: FakePowercap) -> None:
        for socket in range(sockets):
            package = fake.register(34.0 + socket, start_uj=11_000_000 * (socket + 1))
            for die in range(dies):
                path, name = f"intel-rapl:{socket * dies + die}", f"package-{socket}-die-{die}"
                fake.zone(path, name, package, late_ticks=late_ticks * die)
                fake.zone(f"{path}/{path}:0", "core", fake.register(9.0, counts=False))

    return make


def two_dies(*start_uj: int, name: str = "package-0-die-{}") -> Callable[[FakePowercap], None]:
    """Returns what makes two dies with counters of their own."""
    return build(
        *(
            (watts, f"intel-rapl:{die}={name.format(die)}", {"start_uj": start_uj[die]})
            for die, watts in enumerate((34.0, 33.2))
        )
    )


def reset(fake: FakePowercap) -> None:
    """Lets a counter start again from 0."""
    register = fake.zones["intel-rapl:0"].register
    register.start_uj = -int(register.joules * 1e6)
    fake.run(0.0)


def remove(fake: FakePowercap) -> None:
    """Removes the first zone."""
    fake.remove("intel-rapl:0")


HIDDEN_FOR_A_WHILE: dict[float, Event] = {
    0.8: lambda fake: fake.hide("intel-rapl:0"),
    1.2: lambda fake: fake.show("intel-rapl:0"),
}
SECOND_APPEARS: dict[float, Event] = {0.7: lambda fake: fake.zone("intel-rapl:1", "package-1", fake.registers[0])}
UNSURE: dict[str, Any] = {"exact": False, "quality": "estimated"}

MACHINES = (
    Machine("one package", build(PACKAGE)),
    Machine("two sockets", build(*SOCKETS)),
    Machine("package with core and uncore", build(*PARTS)),
    Machine("package and psys", build(PACKAGE, (95.0, "intel-rapl:1=psys", UNSEEN))),
    Machine("package and its MMIO twin", build(TWIN)),
    Machine("MMIO twin, register unreadable", build(TWIN, hidden="intel-rapl:0")),
    Machine("psys alone", build((22.5, "intel-rapl:0=psys", {"start_uj": 9_000_000}))),
    Machine("two dies that mirror one counter (AMD)", mirrored(), amd=True),
    Machine("two mirrors, the second one tick late", mirrored(late_ticks=1), amd=True),
    Machine("two sockets of four mirrors each", mirrored(sockets=2, dies=4), amd=True),
    Machine("two real dies", two_dies(5_000_000, 812_000_000)),
    Machine("two real dies that start at one value", two_dies(5_000_000, 5_000_000)),
    Machine("two packages of one name", two_dies(0, 77_000_000, name="package-0")),
    Machine("counter wraps around", build((60.0, "intel-rapl:0=package-0", {"start_uj": RANGE_UJ - 70_000_000}))),
    Machine(
        "counter wraps between rare readings",
        build((150.0, "intel-rapl:0=package-0", {"start_uj": 3_000_000, "range_uj": RANGE_UJ // 16})),
        step_s=260.0,
        seconds=1000.0,
    ),
    Machine("register vanishes, MMIO twin takes over", build(TWIN), {1.0: remove}),
    Machine("one of two mirrors vanishes", mirrored(), {1.0: remove}, amd=True),
    Machine("counter is reset (suspend)", build(PACKAGE), {1.0: reset}, exact=False),
    Machine("unreadable for 0.4 s", build(PACKAGE), HIDDEN_FOR_A_WHILE, **UNSURE),
    Machine("only package vanishes half-way", build(PACKAGE), {1.0: remove}, **UNSURE),
    Machine("one of two packages unreadable", build(*SOCKETS, hidden="intel-rapl:1"), **UNSURE),
    Machine(
        "second package appears after 0.7 s",
        build((45.0, "", {"start_uj": 90_000_000}), PACKAGE),
        SECOND_APPEARS,
        **UNSURE,
    ),
    Machine("package unreadable, core and uncore readable", build(*PARTS, hidden="intel-rapl:0"), **UNSURE),
    Machine("memory of two sockets", build(*MEMORY), memory=True),
    Machine("memory of two dies that mirror one counter", build(*MIRRORED_MEMORY), memory=True),
)


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
