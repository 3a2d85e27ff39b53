"""How long calls of a policy take, with and without the transport between evaluator and participant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from a2perf.arrays import Values, as_finite
from a2perf.metrics.definition import Metric, cost_metric, numbers_over_runs
from a2perf.metrics.runs_in_mode import ScoredRuns, once_per_run
from a2perf.metrics.values import Lead, MetricResult, Profile, RunNumber
from a2perf.runs.run import Run
from a2perf.runs.tracking_record import recorded

_NO_CALLS = np.empty(0)
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
    "round_trip": "scored steps, with transport; clock of the evaluator",
    "processor_time": "scored steps, living processes of the tree, also between calls; kernel",
}


@once_per_run
def _timed_calls(run: Run) -> dict[str, Values]:
    return {call: as_finite(seconds)[0] for call, seconds in run.latency_s.items()}


def _calls(call: str, run: Run) -> Values:
    return _timed_calls(run).get(call, _NO_CALLS)


def _mean_latency(call: str) -> Callable[[ScoredRuns, Profile], MetricResult]:
    def over_runs(runs: ScoredRuns, profile: Profile) -> MetricResult:
        result = numbers_over_runs([_latency_of(run, call, "mean") for run in runs.runs], profile, units=runs.units)
        if profile == "upstream" and result.value is not None:
            # upstream pooled the calls of all runs
            pooled = np.concatenate([_calls(call, run) for run in runs.runs])
            result.value, result.spread = float(pooled.mean()), float(pooled.std())
            result.spread_kind = "standard deviation over the calls of all runs, ddof 0"
        return result

    return over_runs


def _latency_of(run: Run, call: str, kind: str) -> RunNumber:
    if kind == "first":
        return RunNumber(recorded(run.latency_first_s.get(call)), "measured", _covers(run, call))
    seconds = _calls(call, run)
    return RunNumber(_LATENCY[kind][1](seconds) if seconds.size else None, "measured", _covers(run, call))


def _covers(run: Run, call: str) -> str:
    of_steps = not run.has_timed_calls and _COVERS[call].startswith(call)
    return f"scored steps, {_COVERS[call]}" if of_steps else _COVERS[call]


def _latency(name: str, call: str, kind: str, **more: Any) -> Metric:
    """Returns a metric of the times of a call."""
    if kind == "first":
        made = cost_metric("s", f"{call}, first call", "the very first call", name=name, needs="1 first call", **more)
        return made(lambda run: _latency_of(run, call, kind))
    words, (unit, direction) = _LATENCY[kind][0], ("calls/s", "max") if kind == "throughput" else ("s", "min")
    made = cost_metric(
        unit,
        f"{call}, {words}",
        f"{words} of a run's calls",
        name=name,
        direction=direction,
        needs="1 timed call",
        across=kind == "mean",
        **more,
    )
    return made(_mean_latency(call) if kind == "mean" else lambda run: _latency_of(run, call, kind))


latency_round_trip_mean = _latency(
    "latency_round_trip_mean",
    "round_trip",
    "mean",
    title="Latency per decision",
    lead={"inference": Lead.CHART},
    words=("latency", "decision latency"),
)
latency_round_trip_median = _latency(
    "latency_round_trip_median",
    "round_trip",
    "median",
    title="Latency per decision, median",
    lead=Lead.TABLE,
    beside="latency_round_trip_mean",
    words=("median latency",),
)
latency_round_trip_p99 = _latency(
    "latency_round_trip_p99",
    "round_trip",
    "p99",
    title="Latency per decision, p99",
    lead=Lead.TABLE,
    beside="latency_round_trip_mean",
)

METRICS: tuple[Metric, ...] = (
    latency_round_trip_mean,
    latency_round_trip_median,
    latency_round_trip_p99,
    _latency("latency_infer_once_median", "infer_once", "median", lead=Lead.TABLE),
    _latency("latency_round_trip_first", "round_trip", "first"),
    _latency("latency_round_trip_p90", "round_trip", "p90"),
    _latency("latency_round_trip_max", "round_trip", "max"),
    _latency("latency_round_trip_throughput", "round_trip", "throughput"),
    _latency("latency_infer_once_first", "infer_once", "first"),
    _latency("latency_infer_once_mean", "infer_once", "mean"),
    _latency("latency_infer_once_p90", "infer_once", "p90"),
    _latency("latency_infer_once_p99", "infer_once", "p99"),
    _latency("latency_infer_once_max", "infer_once", "max"),
    _latency("latency_infer_once_throughput", "infer_once", "throughput"),
    _latency("latency_preprocess_observation_first", "preprocess_observation", "first"),
    _latency("latency_preprocess_observation_median", "preprocess_observation", "median"),
    _latency("latency_preprocess_observation_mean", "preprocess_observation", "mean"),
    _latency("latency_preprocess_observation_p90", "preprocess_observation", "p90"),
    _latency("latency_preprocess_observation_p99", "preprocess_observation", "p99"),
    _latency("latency_preprocess_observation_max", "preprocess_observation", "max"),
    _latency("latency_preprocess_observation_throughput", "preprocess_observation", "throughput"),
    _latency("latency_processor_time_first", "processor_time", "first"),
    _latency("latency_processor_time_median", "processor_time", "median"),
    _latency("latency_processor_time_mean", "processor_time", "mean"),
    _latency("latency_processor_time_p90", "processor_time", "p90"),
    _latency("latency_processor_time_p99", "processor_time", "p99"),
    _latency("latency_processor_time_max", "processor_time", "max"),
)
