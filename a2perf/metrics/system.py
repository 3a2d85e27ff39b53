"""What it costs: energy, power, memory, time and latency, from what trackers recorded.

A number is measured or estimated; runs of both kinds together make a ``"mixed"`` value, which is never ranked. Runs
without tracked energy fall back to their emissions table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from a2perf.arrays import Values, as_finite
from a2perf.metrics.definition import AS_RECORDED, Metric, OfRun, metric, numbers_over_runs, with_uncertainty
from a2perf.metrics.runs_in_mode import ScoredRuns, once_per_run
from a2perf.metrics.system_series import report_of_table
from a2perf.metrics.values import MetricResult, Profile, RunNumber
from a2perf.runs.run import Run
from a2perf.runs.tracking_record import (
    COMPONENTS,
    ComponentEnergy,
    TrackedEnergy,
    TrackingReport,
    nothing_tracked,
    recorded,
)

_NO_CALLS = np.empty(0)
CALLS = ("infer_once", "round_trip", "preprocess_observation", "processor_time")
_LATENCY: dict[str, tuple[str, Callable[[Values], float]]] = {
    "median": ("median", lambda s: float(np.median(s))),
    "mean": ("mean", lambda s: float(s.mean())),
    "p90": ("90th percentile", lambda s: float(np.percentile(s, 90))),
    "p99": ("99th percentile", lambda s: float(np.percentile(s, 99))),
    "max": ("slowest", lambda s: float(s.max())),
    "throughput": ("calls per second", lambda s: float(1.0 / s.mean()) if s.mean() > 0 else np.inf),
}
_COVERS = {
    "infer_once": "infer_once only; clock of the participant process",
    "preprocess_observation": "preprocess_observation only; clock of the participant process",
    "round_trip": "scored steps (in early records: timed calls), with transport; clock of the evaluator",
    "processor_time": "scored steps (in early records: timed calls), whole process tree, also between calls; kernel",
}


def _cost(unit: str, label: str, formula: str, **more: Any) -> Callable[[Callable[..., Any]], Metric]:
    return metric(
        unit=unit, label=label, formula=f"{formula}, mean over runs", provenance=AS_RECORDED, category="system",
        source="recorded by the trackers; upstream platform",
        **{"direction": "min", "needs": "1 run with a tracking report or an emissions table", **more},
    )  # fmt: skip


@once_per_run
def _table(run: Run) -> TrackingReport:
    """Returns what the emissions table says: nothing if the energy was tracked, to count nothing twice."""
    return nothing_tracked() if run.tracking.energy.quality else report_of_table(run.emissions.get(run.mode, {}))


# --- energy and power -------------------------------------------------------------------------------------------------

_Energy = TrackedEnergy | ComponentEnergy
_DRAWN: tuple[tuple[str, str, str, str, Callable[[_Energy], float]], ...] = (
    ("energy{}_gross", "Energy{}", "kWh", "cumulative energy at the end of the run", lambda e: e.gross_kwh),
    ("energy{}_net", "Energy{}, net of idle", "kWh", "energy less the idle baseline's", lambda e: e.net_kwh),
    ("power{}_mean", "Power{}, mean", "W", "energy over wall time", lambda e: e.power_mean_w),
    ("power{}_peak", "Power{}, peak", "W", "highest mean over one interval", lambda e: e.power_peak_w),
)


def _drawn(kind: str, part: str, read: Callable[[_Energy], float]) -> Callable[[Run], RunNumber]:
    def number(run: Run) -> RunNumber:
        whole = run.tracking.energy if run.tracking.energy.quality else _table(run).energy
        energy: _Energy = getattr(whole, part) if part else whole
        account = energy.account if isinstance(energy, ComponentEnergy) else ""
        method = "; ".join(words for words in (energy.method, account) if words)
        value = RunNumber(None if energy.quality in ("", "none") else recorded(read(energy)), energy.quality, method)
        if kind == "power{}_peak":  # of one interval: no uncertainty is recorded for it
            return value
        if kind == "energy{}_net":
            return with_uncertainty(value, energy.net_uncertainty, energy.net_kwh)
        return with_uncertainty(value, energy.gross_uncertainty, energy.gross_kwh)

    return number


@_cost("kg CO2eq", "Emissions", "energy times the carbon intensity of the region")
def emissions(run: Run) -> RunNumber:
    """Carbon intensity is a yearly mean of a region: always an estimate, whatever measured the energy."""
    tracked = run.tracking.emissions if run.tracking.emissions.method else _table(run).emissions
    method = "; ".join(words for words in (tracked.method, tracked.factor_source) if words)
    return RunNumber(None if tracked.method == "none" else recorded(tracked.kg_co2eq), "estimated", method)


# --- memory and time --------------------------------------------------------------------------------------------------


def _memory(sets: str, statistic: str) -> OfRun:
    """Returns the number of the tracking report; for resident sets, else of the emissions table."""

    def number(run: Run) -> RunNumber:
        value = recorded(getattr(run.tracking, f"{sets}_{statistic}_bytes"))
        if value is not None or sets == "pss":
            return RunNumber(value or None, "measured", "process tree")
        table = _table(run)
        method = f"process tree, {table.processes_peak} process(es) merged on time"
        return RunNumber(recorded(getattr(table, f"rss_{statistic}_bytes")), "measured", method)

    return number


_MEMORY = tuple(
    _cost("bytes", f"{statistic.capitalize()} memory ({sets.upper()})",
          f"{words} sum of {kind} sets over the process tree", name=f"memory_{sets}_{statistic}")(
        _memory(sets, statistic)
    )
    for sets, kind in (("rss", "resident"), ("pss", "proportional"))
    for statistic, words in (("peak", "highest"), ("mean", "mean"))
)  # fmt: skip


@_cost("bytes", "Peak GPU memory", "highest use of memory of the selected GPUs")
def memory_gpu_peak(run: Run) -> RunNumber:
    """Of a run with a GPU."""
    gpu = run.tracking.gpu
    return RunNumber(recorded(gpu.memory_peak_bytes) if gpu.count else None, "measured", gpu.model or "GPU")


@_cost("%", "GPU utilisation", "mean utilisation of the selected GPUs", direction="none")
def gpu_utilization_mean(run: Run) -> RunNumber:
    """Of a run with a GPU."""
    gpu = run.tracking.gpu
    return RunNumber(recorded(gpu.utilization_mean_percent) if gpu.count else None, "measured", gpu.model or "GPU")


@_cost("s", "CPU time", "processor time of the process tree, its dead processes included")
def cpu_time(run: Run) -> RunNumber:
    """Of the tracking report."""
    method = f"process tree; counted by {run.tracking.cpu_method}"
    return RunNumber(recorded(run.tracking.cpu_seconds), "measured", method)


@_cost("s", "Wall clock", "wall time of the participant's phase")
def wall_clock(run: Run) -> RunNumber:
    """By the evaluator's clock, else of the tracking report, else of the emissions table."""
    given = recorded(run.wall_clock_s)
    if given is not None:
        return RunNumber(given, "measured", "the participant's phase, by the evaluator's clock")
    if tracked := recorded(run.tracking.wall_s):
        return RunNumber(tracked, "measured", "life of the participant process")
    method = "time that all processes of the emissions table share"
    return RunNumber(recorded(_table(run).wall_s), "measured", method)


# --- latency ----------------------------------------------------------------------------------------------------------


def _first_call(call: str) -> OfRun:
    return lambda run: RunNumber(recorded(run.latency_first_s.get(call)), "measured", _COVERS[call])


@once_per_run
def _timed_calls(run: Run) -> dict[str, Values]:
    return {call: as_finite(seconds)[0] for call, seconds in run.latency_s.items()}


def _calls(call: str, run: Run) -> Values:
    return _timed_calls(run).get(call, _NO_CALLS)


def _latency(call: str, formula: Callable[[Values], float]) -> OfRun:
    def number(run: Run) -> RunNumber:
        seconds = _calls(call, run)
        return RunNumber(formula(seconds) if seconds.size else None, "measured", _COVERS[call])

    return number


def _mean_latency(call: str) -> Callable[[ScoredRuns, Profile], MetricResult]:
    of_run = _latency(call, _LATENCY["mean"][1])

    def over_runs(runs: ScoredRuns, profile: Profile) -> MetricResult:
        result = numbers_over_runs([of_run(run) for run in runs.runs], profile)
        if profile == "upstream" and result.value is not None:
            # upstream pooled the calls of all runs
            pooled = np.concatenate([_calls(call, run) for run in runs.runs])
            result.value, result.spread = float(pooled.mean()), float(pooled.std())
            result.spread_kind = "standard deviation over the calls of all runs, ddof 0"
        return result

    return over_runs


def _latencies() -> list[Metric]:
    made = []
    for call in CALLS:
        first = _cost("s", f"{call}, first call", "the very first call", name=f"latency_{call}_first",
                      needs="1 first call")  # fmt: skip
        made.append(first(_first_call(call)))
        for kind, (words, formula) in _LATENCY.items():
            if (call, kind) == ("processor_time", "throughput"):
                continue
            unit, direction = ("calls/s", "max") if kind == "throughput" else ("s", "min")
            timed = _cost(unit, f"{call}, {words}", f"{words} of a run's calls", name=f"latency_{call}_{kind}",
                          direction=direction, needs="1 timed call", across=kind == "mean")  # fmt: skip
            made.append(timed(_mean_latency(call) if kind == "mean" else _latency(call, formula)))
    return made


energy_gross_of = _drawn("energy{}_gross", "", lambda energy: energy.gross_kwh)
"""Gross energy of a run in kWh, with provenance and uncertainty."""

METRICS: tuple[Metric, ...] = (
    *(_cost(unit, label.format(f", {part.upper()}" if part else ""), formula,
            name=kind.format(f"_{part}" if part else ""))(_drawn(kind, part, read))
      for part in ("", *COMPONENTS)
      for kind, label, unit, formula, read in _DRAWN),
    emissions, *_MEMORY, memory_gpu_peak, gpu_utilization_mean, cpu_time, wall_clock,
    *_latencies(),
)  # fmt: skip
