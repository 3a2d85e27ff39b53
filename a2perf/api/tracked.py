"""The costs of a tracked block of code, while it runs and after it has ended."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from a2perf.api.views.table import Table, Tabular
from a2perf.plain_text import terminal_text
from a2perf.runs.tracking_record import JOULES_PER_KWH

if TYPE_CHECKING:
    from a2perf.metrics.trackers.sampler import Sampler
    from a2perf.metrics.values import MetricValue
    from a2perf.runs.run import Run
    from a2perf.runs.tracking_record import PhaseCost, TrackingReport

_SHOWN = {
    "energy_gross": "energy",
    "energy_net": "net energy",
    "power_mean": "mean power",
    "power_peak": "peak power",
    "cpu_time": "CPU time",
    "memory_rss_peak": "peak memory",
    "memory_gpu_peak": "peak GPU memory",
    "emissions": "emissions",
}
"""Metrics that the text lists, with their labels."""
_WIDTH = 80


class Tracked(Tabular):
    """The costs of a block of code: this process and its child processes, from the start of the block to its end.

    ``a2perf.track`` creates it. While the block runs, every property reads the costs so far, at most 0.1 s old. After
    the block the values are final. Equality and pickling use the values; a pickled live object is a snapshot.

    Attributes:
        name: name of the block.
        task: task that the block works on; empty if none was given.
        seed: seed of the block, for the record.
        bundle: folder of the record; None without ``folder=``.

    Example:
        >>> with a2perf.track("matrix product") as tracked:
        ...     product = np.ones((500, 500)) @ np.ones((500, 500))
        >>> tracked.energy.unit, tracked.energy.provenance in ("measured", "estimated")
        ('kWh', True)
        >>> tracked.wall_clock.value == tracked.elapsed_s
        True
    """

    def __init__(
        self, name: str, sampler: Sampler, *, task: str = "", seed: int | None = None, bundle: Path | None = None
    ) -> None:
        self.name = name
        self.task = task
        self.seed = seed
        self.bundle = bundle
        self._sampler: Sampler | None = sampler
        self._report: TrackingReport | None = None
        self._failure = ""
        self._began_s = time.perf_counter()

    # --- costs --------------------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether the block has not ended yet."""
        return self._report is None

    @property
    def elapsed_s(self) -> float:
        """Wall time in seconds since the start of the block; of the whole block after its end."""
        return time.perf_counter() - self._began_s if self._report is None else self._report.wall_s

    @property
    def energy(self) -> MetricValue:
        """Gross energy in kWh: of the process tree if a model estimates it, of whole devices if a counter measures it.

        ``provenance`` and ``method`` name the source. ``energy_net`` excludes the idle draw and the share of other
        processes.
        """
        return self._cost("energy_gross")

    @property
    def energy_net(self) -> MetricValue:
        """Energy of the process tree in kWh without the idle draw; the idle draw is known only with ``idle_s=``."""
        return self._cost("energy_net")

    @property
    def power(self) -> MetricValue:
        """Mean power in W."""
        return self._cost("power_mean")

    @property
    def memory(self) -> MetricValue:
        """Peak of the summed resident sets of the process tree, in bytes.

        The peak of this block alone: the kernel's marks are reset at its start. Where the kernel refuses that, an
        earlier peak can hide a later one, and ``method`` says "at least".
        """
        return self._cost("memory_rss_peak")

    @property
    def cpu_time(self) -> MetricValue:
        """Processor time of the process tree in seconds, ended child processes included."""
        return self._cost("cpu_time")

    @property
    def wall_clock(self) -> MetricValue:
        """Wall time in seconds."""
        return self._cost("wall_clock")

    @property
    def costs(self) -> Mapping[str, MetricValue]:
        """All costs with a value, by name of the metric, such as ``"emissions"`` or ``"energy_gpu_gross"``."""
        run = self.run
        found = {name: _score(metric, run) for name, metric in _metrics().items()}
        return MappingProxyType({name: value for name, value in found.items() if value.value is not None})

    @property
    def phases(self) -> Mapping[str, PhaseCost]:
        """Wall time, processor time, energy and peak memory of each phase, in the order of ``mark``."""
        return MappingProxyType(self.report.phases)

    @property
    def report(self) -> TrackingReport:
        """The full report of the trackers, as ``metrics/tracking.json`` of a bundle holds it."""
        if self._report is not None:
            return self._report
        assert self._sampler is not None
        return self._sampler.so_far()

    @property
    def failure(self) -> str:
        """The exception that ended the block, as ``"ValueError: message"``; empty for a normal end."""
        return self._failure

    @property
    def artifacts(self) -> Path | None:
        """Folder for logs of the block: event files in it become the learning curve of the record."""
        from a2perf.runs.bundles.layout import ARTIFACTS

        return None if self.bundle is None else self.bundle / ARTIFACTS

    @property
    def run(self) -> Run:
        """The costs as a recorded run; exporters take it."""
        from a2perf.runs.run import Run, RunIdentity

        report = self.report
        state = "unfinished" if self.is_running else "failed" if self._failure else "finished"
        identity = RunIdentity(task=self.task, algorithm=self.name, mode="train", seed=self.seed, state=state)
        return Run(identity, tracking=report, wall_clock_s=report.wall_s)

    def mark(self, phase: str) -> None:
        """Starts a phase: later costs count for it until the next mark. A phase can be marked several times.

        An empty name ends the current phase.
        """
        if self._sampler is not None:
            self._sampler.mark(phase)

    def table(self) -> Table:
        """Returns one row per phase, and one without a name for the time outside of phases if that is above 1 ms.

        Columns: ``phase``, ``wall_clock`` and ``cpu_time`` in s, ``energy`` in kWh, ``power`` (mean) in W,
        ``memory_peak`` in bytes.
        """
        from a2perf.runs.tracking_record import PhaseCost

        report = self.report
        inside = list(report.phases.values())
        rest = PhaseCost(
            wall_s=report.wall_s - sum(cost.wall_s for cost in inside),
            cpu_seconds=report.cpu_seconds - sum(cost.cpu_seconds for cost in inside),
            energy_gross_kwh=report.energy.gross_kwh - sum(cost.energy_gross_kwh for cost in inside),
            rss_peak_bytes=0 if inside else report.rss_peak_bytes,
        )
        rows: dict[str | None, PhaseCost] = dict(report.phases.items())
        if not inside or rest.wall_s > 1e-3:
            rows[None] = rest
        quality = report.energy.quality
        known = {phase: cost.energy_gross_kwh for phase, cost in rows.items() if quality not in ("", "none")}
        power = {phase: JOULES_PER_KWH * kwh / rows[phase].wall_s for phase, kwh in known.items() if rows[phase].wall_s}
        measured, numbers = ("wall_clock", "cpu_time", "memory_peak"), ("energy", "power")
        return Table(
            {
                "phase": list(rows),
                "wall_clock": [cost.wall_s for cost in rows.values()],
                "cpu_time": [cost.cpu_seconds for cost in rows.values()],
                "energy": [known.get(phase) for phase in rows],
                "power": [power.get(phase) for phase in rows],
                "memory_peak": [float(cost.rss_peak_bytes) or None for cost in rows.values()],
            },
            title=self.name,
            units={"wall_clock": "s", "cpu_time": "s", "energy": "kWh", "power": "W", "memory_peak": "bytes"},
            provenance={**dict.fromkeys(measured, "measured"), **dict.fromkeys(numbers, quality)},
            kinds={"phase": "text", **dict.fromkeys((*measured, *numbers), "float")},
        )

    # --- text ---------------------------------------------------------------------------------------------------------

    def summary(self) -> str:
        """Returns the costs in one line, for a log."""
        costs = [f"{_text(self.energy)} ({_text(self.power)})", f"CPU {_text(self.cpu_time)}", _text(self.memory)]
        return f"{terminal_text(self.name)}: {_text(self.wall_clock)}, {', '.join(costs)}"

    def __str__(self) -> str:
        head = f"{terminal_text(self.name)}: {_text(self.wall_clock)}" + (", running" if self.is_running else "")
        lines, costs = [head], self.costs
        for name, label in _SHOWN.items():
            if name in costs and (name != "energy_net" or self.report.idle.taken != "not taken"):
                cores = f" ({self.report.cpu_seconds / (self.report.wall_s or 1.0):.2f} cores)"
                lines.append(f"  {label:<15} {_text(costs[name])}{cores if name == 'cpu_time' else ''}")
        lines += textwrap.wrap(
            f"{'energy source':<15} {self.report.energy.method}",
            _WIDTH,
            initial_indent="  ",
            subsequent_indent=" " * 18,
            break_on_hyphens=False,
        )
        if self.report.phases:
            lines += ["  phases", *self._phase_lines()]
        if self._failure:
            lines.append(f"  ended by {terminal_text(self._failure)}")
        if self.bundle is not None:
            lines.append(f"  recorded in {self.bundle}")
        return "\n".join(lines)

    __repr__ = __str__

    def _phase_lines(self) -> list[str]:
        from a2perf.report.tables import text_table, to_text

        heads, cells = ("", "wall clock", "energy", "CPU time", "peak memory"), []
        quality = self.report.energy.quality
        for phase, cost in self.report.phases.items():
            cells.append(
                (
                    terminal_text(phase),
                    _plain(cost.wall_s, "s"),
                    _plain(cost.energy_gross_kwh, "kWh", quality),
                    _plain(cost.cpu_seconds, "s"),
                    _plain(float(cost.rss_peak_bytes) or None, "bytes"),
                )
            )
        return [f"    {line}" for line in to_text(text_table("", heads, cells)).rstrip("\n").split("\n")]

    # --- state --------------------------------------------------------------------------------------------------------

    def _end(self, report: TrackingReport, failure: str) -> None:
        self._report, self._failure, self._sampler = report, failure, None

    def _cost(self, name: str) -> MetricValue:
        return _score(_metrics()[name], self.run)

    def _state(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "task": self.task,
            "seed": self.seed,
            "bundle": self.bundle,
            "_report": self.report,
            "_failure": self._failure,
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tracked):
            return NotImplemented
        return self is other or (not self.is_running and not other.is_running and self._state() == other._state())

    def __hash__(self) -> int:
        return hash((self.name, self.task, self.seed))

    def __getstate__(self) -> dict[str, Any]:
        return {**self._state(), "_sampler": None, "_began_s": self._began_s}


def _metrics() -> dict[str, Any]:
    from a2perf.metrics import system

    return {metric.name: metric for metric in system.METRICS if not metric.name.startswith("latency_")}


def _score(metric: Any, run: Run) -> MetricValue:
    import msgspec

    from a2perf.metrics.runs_in_mode import ScoredRuns

    value: MetricValue = metric.score(ScoredRuns([run], "train"))
    if metric.name == "wall_clock":
        value = msgspec.structs.replace(value, method="the block, by the clock of this process")
    return value


def _text(value: MetricValue) -> str:
    bound = "at least " if value.method is not None and value.method.endswith("at least") else ""
    return bound + _plain(value.value, value.unit, value.provenance)


def _plain(value: float | None, unit: str, provenance: str = "measured") -> str:
    from a2perf.report.tables import Quantity, quantity_text

    return quantity_text(Quantity(value=value, unit=unit, provenance=provenance))
