"""What it costs: energy, power, memory, time and latency, from what trackers recorded.

A number is measured or estimated; runs of both kinds together make a ``"mixed"`` value, which is never ranked. Runs
without tracked energy fall back to their emissions table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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
    EnergyUncertainty,
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
    "round_trip": "scored steps, with transport; clock of the evaluator",
    "processor_time": "scored steps, living processes of the tree, also between calls; kernel",
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


@_cost("kg CO2eq", "Emissions", "energy times the carbon intensity of the region", whole_run=True)
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
            at_least = ", at least" if "at least" in run.tracking.account.memory and statistic == "peak" else ""
            return RunNumber(value or None, "measured", f"process tree{at_least}")
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


@_cost("s", "CPU time", "processor time of the process tree, its dead processes included", whole_run=True)
def cpu_time(run: Run) -> RunNumber:
    """Of the tracking report."""
    method = f"process tree; counted by {run.tracking.cpu_method}"
    return RunNumber(recorded(run.tracking.cpu_seconds), "measured", method)


@_cost("s", "Wall clock", "wall time of the participant's phase", whole_run=True)
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


# --- what an evaluation is ranked by, and its other parts ------------------------------------------------------------


class _Parts(NamedTuple):
    """The costs of an evaluation by phase; the total is the sum of its parts.

    Attributes:
        scored: of the scored steps alone.
        rest: start and end of the process, the measurement of the transport, further episodes, earlier attempts.
    """

    scored: float
    loading: float
    timed_calls: float
    rest: float


class _Evaluation(NamedTuple):
    """The scored steps of an evaluation and the parts of its costs; ``unsure`` is that of the scored energy."""

    steps: int
    steps_per_episode: float
    cpu_s: _Parts
    kwh: _Parts
    unsure: EnergyUncertainty
    quality: str
    method: str
    account: str
    transport_s: float | None
    transport_cpu_s: float | None


@once_per_run
def _evaluation(run: Run) -> _Evaluation | None:
    """Returns the scored steps of an evaluation; None for other runs and for records without steps and phases."""
    tasks = [
        (report, costs)
        for task, costs in run.step_costs.items()
        if "rollouts" in (report := run.tracking_by_task.get(task, run.tracking)).phases
    ]
    if not tasks or len(tasks) < len(run.step_costs):
        return None
    energy = run.tracking.energy
    cpu_s, kwh = run.tracking.cpu_seconds, energy.gross_kwh
    steps = sum(costs.steps for _, costs in tasks)
    scored_s = sum(costs.tree_s * costs.steps for _, costs in tasks)
    scored_kwh = 0.0
    for report, costs in tasks:
        phase = report.phases["rollouts"]
        # Steps are counted exactly, a phase to within a sample; and a phase may hold the loading of fresh policies.
        share = costs.tree_s * costs.steps / phase.cpu_seconds if phase.cpu_seconds > 0 else 1.0
        scored_kwh += share * phase.energy_gross_kwh
    loading, timed = (
        [report.phases[name] for report, _ in tasks if name in report.phases] for name in ("load", "latency")
    )
    loading_s, timed_s = (sum(phase.cpu_seconds for phase in phases) for phases in (loading, timed))
    loading_kwh, timed_kwh = (sum(phase.energy_gross_kwh for phase in phases) for phases in (loading, timed))
    lengths = [episode.length for episodes in run.episodes.values() for episode in episodes]
    transport = [(costs.transport_s, costs.transport_cpu_s) for _, costs in tasks]
    return _Evaluation(
        steps=steps,
        steps_per_episode=float(np.mean(lengths)) if lengths else math.nan,
        cpu_s=_Parts(scored_s, loading_s, timed_s, cpu_s - scored_s - loading_s - timed_s),
        kwh=_Parts(scored_kwh, loading_kwh, timed_kwh, kwh - scored_kwh - loading_kwh - timed_kwh),
        unsure=_of_part(energy.gross_uncertainty, scored_kwh / kwh if kwh > 0 else 0.0),
        quality=energy.quality,
        method=f"scored steps; {energy.method}",
        account=", ".join(sorted({costs.account for _, costs in tasks})),
        transport_s=_mean_of([wall for wall, _ in transport]),
        transport_cpu_s=_mean_of([cpu for _, cpu in transport]),
    )


def _of_part(whole: EnergyUncertainty, share: float) -> EnergyUncertainty:
    """Returns the uncertainty of a part; resolution and delays of the counters are as large as those of the whole."""
    parts = (whole.resolution_kwh, whole.sampling_kwh, share * whole.attribution_kwh, share * whole.model_kwh)
    return EnergyUncertainty(
        expanded_kwh=whole.coverage_factor * math.hypot(*parts), coverage_factor=whole.coverage_factor,
        resolution_kwh=parts[0], sampling_kwh=parts[1], attribution_kwh=parts[2], model_kwh=parts[3],
    )  # fmt: skip


def _mean_of(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def _energy_per(run: Run, scale: Callable[[_Evaluation], float]) -> RunNumber | None:
    found = _evaluation(run)
    if found is None or found.quality in ("", "none"):
        return None
    value = recorded(found.kwh.scored / found.steps * scale(found))
    return with_uncertainty(RunNumber(value, found.quality, found.method), found.unsure, found.kwh.scored)


@_cost("kWh", "Energy per decision", "energy of the scored steps over their number", needs="1 evaluation with phases")
def energy_per_decision(run: Run) -> RunNumber | None:
    """Without loading, timed calls, and what else a run does."""
    return _energy_per(run, lambda found: 1.0)


@_cost("kWh", "Energy per episode", "energy per decision times the mean length of the scored episodes",
       needs="1 evaluation with phases")  # fmt: skip
def energy_per_episode(run: Run) -> RunNumber | None:
    """Without loading, timed calls, and what else a run does."""
    return _energy_per(run, lambda found: found.steps_per_episode)


def _counted(run: Run, read: Callable[[_Evaluation], float | None]) -> RunNumber | None:
    found = _evaluation(run)
    value = None if found is None else read(found)
    return None if found is None or value is None else RunNumber(recorded(value), "measured", found.account)


@_cost("s", "Processor time per decision", "processor time of the process tree in the scored steps over their number",
       needs="1 evaluation with phases")  # fmt: skip
def processor_time_per_decision(run: Run) -> RunNumber | None:
    """Of all processes of the tree, during calls and between them; transport included."""
    return _counted(run, lambda found: found.cpu_s.scored / found.steps)


@_cost("s", "Processor time per episode", "processor time per decision times the mean length of the scored episodes",
       needs="1 evaluation with phases")  # fmt: skip
def processor_time_per_episode(run: Run) -> RunNumber | None:
    """Of all processes of the tree, during calls and between them; transport included."""
    return _counted(run, lambda found: found.cpu_s.scored / found.steps * found.steps_per_episode)


@_cost("s", "Processor time per decision, transport", "processor time of a call that reaches no code of the submission",
       direction="none", needs="1 evaluation with empty calls")  # fmt: skip
def processor_time_transport(run: Run) -> RunNumber | None:
    """The platform's own part of the processor time per decision."""
    return _counted(run, lambda found: found.transport_cpu_s)


@_cost("s", "Latency per decision, transport", "round trip of a call that reaches no code of the submission",
       direction="none", needs="1 evaluation with empty calls")  # fmt: skip
def latency_transport(run: Run) -> RunNumber | None:
    """The platform's own part of the latency per decision."""
    return _counted(run, lambda found: found.transport_s)


_REST = "the rest of an evaluation: start and end, measurement of the transport, further episodes, earlier attempts"
_ENERGY_PARTS: tuple[tuple[str, str, str, Callable[[_Evaluation], float]], ...] = (
    ("energy_scored_steps", "Energy, scored steps", "energy of the scored steps", lambda e: e.kwh.scored),
    ("energy_loading", "Energy, loading", "energy while the policy is loaded", lambda e: e.kwh.loading),
    ("energy_timed_calls", "Energy, timed calls", "energy of the timed calls", lambda e: e.kwh.timed_calls),
    ("energy_rest", "Energy, rest", f"energy of {_REST}", lambda e: e.kwh.rest),
)
_PROCESSOR_TIME_PARTS: tuple[tuple[str, str, str, Callable[[_Evaluation], float]], ...] = (
    ("processor_time_scored_steps", "Processor time, scored steps", "processor time of the scored steps",
     lambda e: e.cpu_s.scored),
    ("processor_time_loading", "Processor time, loading", "processor time while the policy is loaded",
     lambda e: e.cpu_s.loading),
    ("processor_time_timed_calls", "Processor time, timed calls", "processor time of the timed calls",
     lambda e: e.cpu_s.timed_calls),
    ("processor_time_rest", "Processor time, rest", f"processor time of {_REST}", lambda e: e.cpu_s.rest),
)  # fmt: skip


def _part(unit: str, name: str, label: str, formula: str, read: Callable[[_Evaluation], float]) -> Metric:
    """Returns a metric of a part of an evaluation; the parts add up to its total, and none of them is ranked."""

    def number(run: Run) -> RunNumber | None:
        found = _evaluation(run)
        if found is None or (unit == "kWh" and found.quality in ("", "none")):
            return None
        kind, method = (found.quality, found.method) if unit == "kWh" else ("measured", found.account)
        return RunNumber(recorded(read(found)), kind, method)

    return _cost(unit, label, formula, name=name, direction="none", needs="1 evaluation with phases")(number)


energy_gross_of = _drawn("energy{}_gross", "", lambda energy: energy.gross_kwh)
"""Gross energy of a run in kWh, with provenance and uncertainty."""

METRICS: tuple[Metric, ...] = (
    *(_cost(unit, label.format(f", {part.upper()}" if part else ""), formula,
            name=kind.format(f"_{part}" if part else ""), whole_run=True)(_drawn(kind, part, read))
      for part in ("", *COMPONENTS)
      for kind, label, unit, formula, read in _DRAWN),
    energy_per_decision, energy_per_episode,
    *(_part("kWh", name, label, formula, read) for name, label, formula, read in _ENERGY_PARTS),
    emissions, *_MEMORY, memory_gpu_peak, gpu_utilization_mean,
    processor_time_per_decision, processor_time_per_episode, processor_time_transport, cpu_time,
    *(_part("s", name, label, formula, read) for name, label, formula, read in _PROCESSOR_TIME_PARTS),
    wall_clock, latency_transport, *_latencies(),
)  # fmt: skip
