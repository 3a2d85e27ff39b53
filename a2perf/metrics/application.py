"""How well it does: returns, success and generalization, per task and over all tasks.

In the ``upstream`` profile returns are pooled over runs and generalization is the sum over tasks of the mean return, as
the upstream platform reported them; in ``corrected`` each run comes first and generalization is the mean over tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from a2perf.arrays import Values, as_finite
from a2perf.metrics import protocol
from a2perf.metrics.bootstrap import aggregate_mean, bootstrap
from a2perf.metrics.definition import Metric, mean_over_runs, metric
from a2perf.metrics.runs_in_mode import ScoredRuns
from a2perf.metrics.submitted import protocol_of
from a2perf.metrics.values import Lead, MetricResult, MetricValue, Profile, not_enough

RUN_SPREAD = "standard deviation over runs, ddof 1"
REPETITIONS = 1000


def per_task(runs: ScoredRuns, profile: Profile) -> dict[str, dict[str, MetricValue]]:
    """Returns the application metrics of each task: ``{task: {"returns": ..., "success_rate": ...}}``."""
    tasks = dict.fromkeys([*runs.returns, *runs.successes])
    return {
        task: {
            "returns": returns.labelled(_of_returns(runs.returns.get(task, ()), profile, runs.over), profile),
            "success_rate": success_rate.labelled(
                _of_successes(runs.successes.get(task, ()), profile, runs.over), profile
            ),
        }
        for task in tasks
    }


def _of_returns(of_runs: Sequence[Any], profile: Profile, over: str) -> MetricResult:
    notes, kept = [], []
    for number, run in enumerate(of_runs):
        finite, lost = as_finite(run)
        if lost:
            notes.append(f"run {number}: {lost} of {finite.size + lost} values are not finite and left out")
        if finite.size:
            kept.append(finite)
    if not kept:
        return MetricResult(condition=not_enough(0, 1, "episodes"), notes=notes)
    means = np.array([run.mean() for run in kept])
    pooled = np.concatenate(kept)
    result = mean_over_runs(means, profile, over=over)
    result.notes = [*notes, f"{pooled.size} episodes of {means.size} {'run(s)' if over == 'runs' else over}"]
    if profile == "upstream":
        result.value, result.spread = float(pooled.mean()), float(pooled.std(ddof=1)) if pooled.size > 1 else None
        result.spread_kind = "standard deviation over the episodes of all runs, ddof 1"
    return result


def _of_successes(of_runs: Sequence[Any], profile: Profile, over: str) -> MetricResult:
    if not any(np.size(run) for run in of_runs):
        return MetricResult(condition="the environment reports none")
    return _of_returns([100.0 * np.asarray(run, dtype=np.float64) for run in of_runs], profile, over)


def _over_tasks(tasks: Mapping[str, Sequence[Any]], *, factor: float, total: bool) -> MetricResult:
    means: dict[str, Values] = {}
    notes: list[str] = []
    for task, runs in tasks.items():
        of_runs = [as_finite(run)[0] for run in runs]
        means[task] = np.array([factor * run.mean() for run in of_runs if run.size])
        lost = sum(as_finite(run)[1] for run in runs)
        if lost:
            notes.append(f"{task}: {lost} values are not finite and left out")
    empty = [task for task, of_task in means.items() if not of_task.size]
    if not means or empty:
        why = f"not enough data (no finished episode of {', '.join(empty)})" if empty else not_enough(0, 1, "tasks")
        return MetricResult(condition=why, notes=notes)
    count = min(of_task.size for of_task in means.values())
    over = float(sum(of_task.mean() for of_task in means.values()))
    scale = 1.0 if total else 1.0 / len(means)
    notes.append(f"{'sum' if total else 'mean'} over {len(means)} tasks: {', '.join(means)}")
    result = MetricResult(value=over * scale, n=count, notes=notes)
    if all(of_task.size == count for of_task in means.values()):
        matrix = np.stack(list(means.values()), axis=1)
        per_run = matrix.sum(axis=1) * scale
        result.per_run = [float(value) for value in per_run]
        if count > 1:
            result.spread, result.spread_kind = float(per_run.std(ddof=1)), RUN_SPREAD
            if not total:
                estimate = bootstrap(matrix, aggregate_mean, repetitions=REPETITIONS, method="small")
                result.interval = (estimate.low, estimate.high)
    else:
        notes.append("tasks have different numbers of runs: no value per run")
    return result


def _no_single_task(tasks: int) -> MetricResult:
    """With several tasks, a number over all of them would mix scales."""
    return MetricResult(
        condition=f"{tasks} tasks: returns are given task by task" if tasks else not_enough(0, 1, "episodes")
    )


@metric(
    label="Returns",
    title="Return",
    category="application",
    direction="max",
    across=True,
    needs="1 episode",
    lead={"inference": Lead.COLUMN},
    words=("score", "mean return", "episode return", "mean episode return"),
    formula="mean undiscounted episode return; upstream: all episodes pooled; corrected: each run, then over runs",
    source="upstream platform; Sutton and Barto, Reinforcement Learning, chapter 3",
)
def returns(runs: ScoredRuns, profile: Profile) -> MetricResult:
    """Mean episode return of the only task."""
    tasks = list(dict.fromkeys([*runs.returns, *runs.successes]))
    if len(tasks) != 1:
        return _no_single_task(len(tasks))
    return _of_returns(runs.returns.get(tasks[0], ()), profile, runs.over)


@metric(
    label="Success rate",
    title="Success",
    category="application",
    unit="%",
    direction="max",
    across=True,
    lead={"inference": Lead.COLUMN},
    formula="share of episodes that the environment calls a success; over several tasks their mean",
    source="the environment's own criterion",
    needs="1 episode of an environment that reports success",
)
def success_rate(runs: ScoredRuns, profile: Profile) -> MetricResult:
    """Share of successful episodes in percent."""
    tasks = list(dict.fromkeys([*runs.returns, *runs.successes]))
    if len(tasks) == 1:
        return _of_successes(runs.successes.get(tasks[0], ()), profile, runs.over)
    if any(runs.successes.values()):
        return _over_tasks(runs.successes, factor=100.0, total=False)
    return _no_single_task(len(tasks))


@metric(
    label="Generalization",
    title="Return over all tasks",
    category="application",
    direction="max",
    across=True,
    lead={"generalization": Lead.TEXT},
    source="upstream platform",
    formula="mean return of each task over runs; upstream: summed over tasks; corrected: mean over tasks",
    needs="2 tasks with 1 episode each",
)
def generalization(runs: ScoredRuns, profile: Profile) -> MetricResult:
    """Over at least two tasks."""
    if len(runs.returns) < 2:
        return MetricResult(condition=not_enough(len(runs.returns), 2, "tasks"))
    return _over_tasks(runs.returns, factor=1.0, total=profile == "upstream")


@metric(
    label="Generalization score",
    title="Score over all tasks",
    category="application",
    direction="max",
    across=True,
    formula="mean over tasks of the mean return with 0 for the floor of the protocol and 1 for its expert",
    source="references of the protocol",
    needs="2 tasks with 1 episode each, all with reference scores",
)
def generalization_score(runs: ScoredRuns, profile: Profile) -> MetricResult:
    """Over at least two tasks, of which each has its own scale."""
    if len(runs.returns) < 2:
        return MetricResult(condition=not_enough(len(runs.returns), 2, "tasks"))
    under = protocol_of(run.folder.path for run in runs.runs if run.folder is not None)
    scored = protocol.scored_tasks(runs.returns, runs.runs[0].identity.fingerprint, under)
    if not scored:
        return MetricResult(condition="the tasks have no reference scores, or behaved differently")
    scores = {task: [found.task.normalise(of_run) for of_run in runs.returns[task]] for task, found in scored.items()}
    result = _over_tasks(scores, factor=1.0, total=False)
    result.notes += [f"{task}: {found.scale}" for task, found in scored.items()]
    return result


METRICS: tuple[Metric, ...] = (returns, success_rate, generalization_score, generalization)
