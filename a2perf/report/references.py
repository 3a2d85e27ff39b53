"""Normalised scores of a task: 0 is the floor and 1 the expert, as measured for the protocol."""

from __future__ import annotations

import dataclasses

import numpy as np

from a2perf.arrays import Values
from a2perf.metrics import protocol
from a2perf.metrics.scores import SeedGroup
from a2perf.metrics.submitted import protocol_of
from a2perf.report.task_results import TaskResults


@dataclasses.dataclass(frozen=True)
class NormalisedScore:
    """The mean return of a group on the scale of its task.

    Attributes:
        low, high: ends of the 95 % interval of the mean; None with one run.
        worst: mean of the worst 5 % of the episodes on the same scale; None without episodes.
        floor: what has the score 0, in words.
    """

    value: float
    low: float | None
    high: float | None
    worst: float | None
    n: int
    floor: str


def scored_task(setting: TaskResults) -> protocol.ScoredTask | None:
    """Returns the task with the references that normalise the returns of a setting.

    None without reference scores or if the environments differ. Runs of several protocols are on the newest scale.
    """
    runs = [run for group in setting.in_mode("inference") for run in group.runs]
    prints = {run.identity.fingerprint for run in runs}
    if len(prints) != 1:
        return None
    under = protocol_of(run.folder.path for run in runs if run.folder is not None)
    return protocol.scored_task(setting.task, prints.pop(), under)


def run_means(group: SeedGroup) -> Values:
    """Returns the mean episode return of each run that has episodes."""
    value = group.scores.get("returns")
    return np.array([mean for mean in (value.per_run if value is not None else ()) if mean is not None], np.float64)


def normalised_score(group: SeedGroup, scored: protocol.ScoredTask | None) -> NormalisedScore | None:
    """Returns the normalised score of a group; None without reference scores or without episodes."""
    returns = group.scores.get("returns")
    if scored is None or returns is None or returns.value is None or not np.isfinite(returns.value):
        return None
    task = scored.task
    low, high = returns.interval or (None, None)
    worst = group.scores.get("LowerCVaRAcrossRollouts")
    lowest = None if worst is None else worst.value
    return NormalisedScore(
        value=float(task.normalise(returns.value)),
        low=None if low is None else float(task.normalise(low)),
        high=None if high is None else float(task.normalise(high)),
        worst=None if lowest is None or not np.isfinite(lowest) else float(task.normalise(lowest)),
        n=returns.n,
        floor=task.floor,
    )
