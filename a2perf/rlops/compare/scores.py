"""The score of each run of a group: a metric of recorded runs, or the end of a curve that runs of a store logged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from a2perf.arrays import Values
from a2perf.errors import ConfigError
from a2perf.metrics import registry
from a2perf.metrics.definition import Metric
from a2perf.metrics.runs_in_mode import scored_runs
from a2perf.rlops.compare.panel import RunScore
from a2perf.rlops.compare.request import Request
from a2perf.runs.run import Run
from a2perf.runs.series import Series
from a2perf.runs.stores.store import logged_names, read_curves

EPISODE_RETURN = "returns"
"""The metric of runs that were evaluated: the mean return of their episodes."""
OF_EPISODES = (EPISODE_RETURN, "success_rate")
"""Metrics that single episodes have."""
Compared: TypeAlias = "Metric | str | None"
"""What is compared: a metric of recorded runs, a value that runs of a store logged, or None for their return."""


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


def logged_values(request: Request) -> tuple[str | None, ...] | None:
    """Returns the logged values that a request of a store compares, None among them for the training return.

    None instead of values if a metric is one of recorded runs, such as ``"energy"``, and not a value that runs logged.
    """
    meanings = {name: registry.meaning(name) for name in request.metrics}
    if not any(meanings.values()):
        return request.metrics or (None,)
    held = logged_names([run for group in request.groups for run in group.runs])
    if any(meaning not in (None, EPISODE_RETURN) and name not in held for name, meaning in meanings.items()):
        return None
    values = tuple(name for name, meaning in meanings.items() if name in held or meaning != EPISODE_RETURN)
    return values or (None,)


def is_curve(metric: Compared, mode: str) -> bool:
    """Returns whether the score is the end of a logged curve."""
    return not isinstance(metric, Metric) or (
        metric.name == EPISODE_RETURN and mode not in ("inference", "generalization")
    )


def name_of(metric: Compared) -> str:
    """Returns the name of what is compared; ``""`` for the return."""
    return metric.name if isinstance(metric, Metric) else metric or ""


def scores_of(
    finished: Mapping[str, Sequence[Run]], metric: Compared, mode: str, last: int
) -> dict[str, dict[str, RunScore]]:
    """Returns the scores of a group by environment and run; runs without the metric are absent."""
    if isinstance(metric, Metric):
        return {
            env: {run.name: score for run in runs if (score := _score(run, metric, mode, env, last)) is not None}
            for env, runs in finished.items()
        }
    curves = read_curves([run for runs in finished.values() for run in runs], metric)
    return {
        env: {
            run.name: _of_curve(curves[run.name], last)
            for run in runs
            if run.name in curves and curves[run.name].values.size
        }
        for env, runs in finished.items()
    }


def _of_curve(curve: Series, last: int) -> RunScore:
    known = np.isfinite(curve.steps)
    if not known.all() or bool((np.diff(curve.steps) < 0).any()):
        order = np.flatnonzero(known)[np.argsort(curve.steps[known], kind="stable")]
        curve = Series(curve.name, curve.source, curve.steps[order], curve.values[order], curve.elapsed_s()[order])
    return RunScore(curve, float(np.mean(curve.values[-last:])), "recorded")


def _score(run: Run, metric: Metric, mode: str, env: str, last: int) -> RunScore | None:
    """Returns the score of a run on an environment; None if the run did not record the metric.

    Args:
        metric: ``returns`` is the mean episode return of an evaluation, and of a training run the mean of its last
            returns; any other metric is that of one run.
    """
    if is_curve(metric, mode):
        if run.curve is None or not run.curve.values.size:
            return None
        return RunScore(run.curve, float(np.mean(run.curve.values[-last:])), "recorded")
    if metric.name == EPISODE_RETURN:
        returns = run.returns.get(mode, {}).get(run.identity.task or env)
        if returns is None or not returns.size:
            return None
        return RunScore(_over_episodes(metric.name, returns), float(np.mean(returns)), "recorded")
    value = registry.score(scored_runs([run], mode), names=[metric.name])[metric.name]
    if value.value is None:
        return None
    return RunScore(_over_episodes(metric.name, np.array([value.value])), value.value, value.provenance)


def _over_episodes(name: str, values: Values) -> Series:
    return Series(name, "", np.arange(1.0, values.size + 1.0), values)


def scores_by_episode(finished: Sequence[Run], metric: Compared, mode: str, env: str) -> dict[int, float]:
    """Returns the mean score of the runs that played an episode, by the seed of the episode.

    Training seeds of an algorithm may be evaluated on different episodes, so an episode need not be one of all runs.
    An episode without the metric is left out.

    Raises:
        ConfigError: the metric is not one of episodes, or the mode has none.
    """
    name = name_of(metric)
    if mode == "train" or name not in OF_EPISODES:
        raise ConfigError(
            f"question 'episodes' compares episodes, not {name} of the mode {mode}",
            hint="use the metric returns or success_rate of evaluations, or the question seeds",
        )
    scores: dict[int, list[float]] = {}
    for run in finished:
        for episode in run.episodes.get(run.identity.task or env, ()):
            score = episode.episode_return if name == EPISODE_RETURN else episode.success
            if score is not None:
                scores.setdefault(episode.seed, []).append(float(score))
    return {seed: float(np.mean(of_runs)) for seed, of_runs in scores.items()}


def metrics_of(run: Run, mode: str) -> list[str]:
    """Returns the names of the metrics that a run has, without those that have no better or worse."""
    if not mode:
        return list(logged_names([run]))
    scores = registry.score(scored_runs([run], mode))
    known = [name for name, value in scores.items() if value.value is not None and value.direction != "none"]
    returns = [EPISODE_RETURN] if mode == "train" and EPISODE_RETURN not in known else []
    return list(dict.fromkeys([*returns, *known]))
