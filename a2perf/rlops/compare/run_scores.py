"""The score of one recorded run in a comparison: a return or any other metric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from a2perf.arrays import Values
from a2perf.errors import ConfigError
from a2perf.metrics import registry
from a2perf.metrics.definition import Metric
from a2perf.metrics.runs_in_mode import scored_runs
from a2perf.rlops.compare.recorded_runs import RecordedRun
from a2perf.rlops.compare.references import EPISODE_RETURN
from a2perf.runs.series import Series


def metric_named(name: str) -> Metric:
    """Returns the metric that a comparison names; ``"returns"`` is the return of the mode.

    Raises:
        ConfigError: the metric is unknown, or neither direction of it is better.
    """
    found = registry.select([name])
    if len(found) != 1:
        raise ConfigError(
            f"{name!r} is a category of {len(found)} metrics", hint=f"name one: {', '.join(m.name for m in found[:12])}"
        )
    if found[0].direction == "none":
        raise ConfigError(
            f"the metric {name!r} has no better or worse", hint="compare energy_gross, latency_infer_once_median, ..."
        )
    return found[0]


@dataclass(frozen=True)
class RunScore:
    """The score of one run.

    Attributes:
        curve: the values behind it: of the training curve, by episode, or the score alone.
        score: NaN if the run diverged.
        provenance: ``"measured"``, ``"estimated"`` or ``"recorded"``.
    """

    curve: Series
    score: float
    provenance: str


def score_of(one: RecordedRun, metric: Metric, mode: str, task: str, last: int) -> RunScore | None:
    """Returns the score of a run on a task; None if the run did not record the metric.

    Args:
        metric: ``returns`` is the mean episode return of an evaluation, and of a training run the mean of its last
            returns; any other metric is that of one run.
        last: number of last values of a training curve.
    """
    if is_curve(metric, mode):
        series = one.run.curve
        if series is None or not series.values.size:
            return None
        return RunScore(series, float(np.mean(series.values[-last:])), "recorded")
    if metric.name == EPISODE_RETURN:
        returns = one.run.returns.get(mode, {}).get(task)
        if returns is None or not returns.size:
            return None
        return RunScore(_over_episodes(metric.name, returns), float(np.mean(returns)), "recorded")
    value = registry.score(scored_runs([one.run], mode), names=[metric.name])[metric.name]
    if value.value is None:
        return None
    return RunScore(_over_episodes(metric.name, np.array([value.value])), value.value, value.provenance)


def is_curve(metric: Metric, mode: str) -> bool:
    """Returns whether the score is the end of a training curve."""
    return metric.name == EPISODE_RETURN and mode not in ("inference", "generalization")


def _over_episodes(name: str, values: Values) -> Series:
    return Series(name, "", np.arange(1.0, values.size + 1.0), values)


def metrics_of(one: RecordedRun, mode: str) -> list[str]:
    """Returns the names of the metrics that a run has in a mode, without those that have no better or worse."""
    scores = registry.score(scored_runs([one.run], mode))
    known = [name for name, value in scores.items() if value.value is not None and value.direction != "none"]
    returns = [EPISODE_RETURN] if mode == "train" and EPISODE_RETURN not in known else []
    return list(dict.fromkeys([*returns, *known]))
