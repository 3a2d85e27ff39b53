"""What a decision costs: energy and processor time of the scored steps, and the other parts of an evaluation.

The parts add up to the cost of the whole evaluation, and only the part of the scored steps is ranked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from a2perf.metrics.definition import Metric, cost_metric, with_uncertainty
from a2perf.metrics.runs_in_mode import once_per_run
from a2perf.metrics.values import Lead, RunNumber
from a2perf.runs.run import Run
from a2perf.runs.tracking_record import EnergyUncertainty, recorded


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
        expanded_kwh=whole.coverage_factor * math.hypot(*parts),
        coverage_factor=whole.coverage_factor,
        resolution_kwh=parts[0],
        sampling_kwh=parts[1],
        attribution_kwh=parts[2],
        model_kwh=parts[3],
    )


def _mean_of(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def _energy_per(run: Run, scale: Callable[[_Evaluation], float]) -> RunNumber | None:
    found = _evaluation(run)
    if found is None or found.quality in ("", "none"):
        return None
    value = recorded(found.kwh.scored / found.steps * scale(found))
    return with_uncertainty(RunNumber(value, found.quality, found.method), found.unsure, found.kwh.scored)


@cost_metric(
    "kWh",
    "Energy per decision",
    "energy of the scored steps over their number",
    needs="1 evaluation with phases",
    lead={"inference": Lead.CHART},
)
def energy_per_decision(run: Run) -> RunNumber | None:
    """Without loading, timed calls, and what else a run does."""
    return _energy_per(run, lambda found: 1.0)


@cost_metric(
    "kWh",
    "Energy per episode",
    "energy per decision times the mean length of the scored episodes",
    needs="1 evaluation with phases",
    lead=Lead.TABLE,
)
def energy_per_episode(run: Run) -> RunNumber | None:
    """Without loading, timed calls, and what else a run does."""
    return _energy_per(run, lambda found: found.steps_per_episode)


def _counted(run: Run, read: Callable[[_Evaluation], float | None]) -> RunNumber | None:
    found = _evaluation(run)
    value = None if found is None else read(found)
    return None if found is None or value is None else RunNumber(recorded(value), "measured", found.account)


@cost_metric(
    "s",
    "Processor time per decision",
    "processor time of the process tree in the scored steps over their number",
    needs="1 evaluation with phases",
    lead={"inference": Lead.COLUMN},
)
def processor_time_per_decision(run: Run) -> RunNumber | None:
    """Of all processes of the tree, during calls and between them; transport included."""
    return _counted(run, lambda found: found.cpu_s.scored / found.steps)


@cost_metric(
    "s",
    "Processor time per episode",
    "processor time per decision times the mean length of the scored episodes",
    needs="1 evaluation with phases",
)
def processor_time_per_episode(run: Run) -> RunNumber | None:
    """Of all processes of the tree, during calls and between them; transport included."""
    return _counted(run, lambda found: found.cpu_s.scored / found.steps * found.steps_per_episode)


@cost_metric(
    "s",
    "Processor time per decision, transport",
    "processor time of a call that reaches no code of the submission",
    title="Processor time, transport",
    direction="none",
    needs="1 evaluation with empty calls",
    lead={"inference": Lead.TEXT},
    beside="processor_time_per_decision",
)
def processor_time_transport(run: Run) -> RunNumber | None:
    """The platform's own part of the processor time per decision."""
    return _counted(run, lambda found: found.transport_cpu_s)


@cost_metric(
    "s",
    "Latency per decision, transport",
    "round trip of a call that reaches no code of the submission",
    direction="none",
    needs="1 evaluation with empty calls",
    lead=Lead.TABLE,
)
def latency_transport(run: Run) -> RunNumber | None:
    """The platform's own part of the latency per decision."""
    return _counted(run, lambda found: found.transport_s)


def _parts(
    energy_name: str, time_name: str, label: str, formula: str, read: Callable[[_Parts], float]
) -> tuple[Metric, Metric]:
    """Returns energy and processor time of a part of an evaluation; the parts add up to its total, none is ranked."""

    def energy(run: Run) -> RunNumber | None:
        found = _evaluation(run)
        if found is None or found.quality in ("", "none"):
            return None
        return RunNumber(recorded(read(found.kwh)), found.quality, found.method)

    def processor_time(run: Run) -> RunNumber | None:
        return _counted(run, lambda found: read(found.cpu_s))

    shared: dict[str, Any] = {"direction": "none", "needs": "1 evaluation with phases"}
    of_energy = cost_metric("kWh", f"Energy, {label}", f"energy {formula}", name=energy_name, lead=Lead.TABLE, **shared)
    of_time = cost_metric("s", f"Processor time, {label}", f"processor time {formula}", name=time_name, **shared)
    return of_energy(energy), of_time(processor_time)


METRICS: tuple[Metric, ...] = (
    energy_per_decision,
    energy_per_episode,
    processor_time_per_decision,
    processor_time_transport,
    processor_time_per_episode,
    latency_transport,
)
_REST = "the rest of an evaluation: start and end, measurement of the transport, further episodes, earlier attempts"
_OF_PARTS = (
    _parts(
        "energy_scored_steps",
        "processor_time_scored_steps",
        "scored steps",
        "of the scored steps",
        lambda of: of.scored,
    ),
    _parts("energy_loading", "processor_time_loading", "loading", "while the policy is loaded", lambda of: of.loading),
    _parts(
        "energy_timed_calls",
        "processor_time_timed_calls",
        "timed calls",
        "of the timed calls",
        lambda of: of.timed_calls,
    ),
    _parts("energy_rest", "processor_time_rest", "rest", f"of {_REST}", lambda of: of.rest),
)
PARTS: tuple[Metric, ...] = (*(energy for energy, _ in _OF_PARTS), *(time for _, time in _OF_PARTS))
