"""How well it does: returns, success and generalization, per task and over all tasks.

In the ``a2perf`` profile returns are pooled over runs and generalization is the sum over tasks of the mean return, as
the earlier platform reported them; in ``corrected`` each run comes first and generalization is the mean over tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from a2perf.metrics.bootstrap import aggregate_mean, bootstrap, mean_interval
from a2perf.metrics.values import Direction, Metric, MetricValue, Profile, RunData, Values, as_finite, not_enough

RUN_SPREAD = "standard deviation over runs, ddof 1"
REPETITIONS = 1000


def per_task(data: RunData, profile: Profile) -> dict[str, dict[str, MetricValue]]:
    """Returns the application metrics of each task: ``{task: {"returns": ..., "success_rate": ...}}``."""
    tasks = dict.fromkeys([*data.returns, *data.successes])
    return {
        task: {
            "returns": returns_value(data.returns.get(task, ()), profile),
            "success_rate": success_value(data.successes.get(task, ()), profile),
        }
        for task in tasks
    }


def returns_value(runs: Sequence[Any], profile: Profile) -> MetricValue:
    """Returns the mean episode return of one task; ``runs`` holds one array of returns a run."""
    return _mean_of_runs("returns", "max", "", runs, profile)


def success_value(runs: Sequence[Any], profile: Profile) -> MetricValue:
    """Returns the share of successful episodes of one task in percent; ``runs`` holds one array of 0 and 1 a run."""
    if not any(np.size(run) for run in runs):
        return MetricValue(
            name="success_rate", unit="%", direction="max", profile=profile, condition="the environment reports none"
        )
    percent = [100.0 * np.asarray(run, dtype=np.float64) for run in runs]
    return _mean_of_runs("success_rate", "max", "%", percent, profile)


def _mean_of_runs(name: str, direction: Direction, unit: str, runs: Sequence[Any], profile: Profile) -> MetricValue:
    notes, kept = [], []
    for number, run in enumerate(runs):
        finite, lost = as_finite(run)
        if lost:
            notes.append(f"run {number}: {lost} of {finite.size + lost} values are not finite and left out")
        if finite.size:
            kept.append(finite)
    if not kept:
        why = not_enough(0, 1, "episodes")
        return MetricValue(name=name, unit=unit, direction=direction, profile=profile, condition=why, notes=notes)
    means = np.array([run.mean() for run in kept])
    pooled = np.concatenate(kept)
    notes.append(f"{pooled.size} episodes of {means.size} run(s)")
    if profile == "a2perf":
        value, spread = float(pooled.mean()), float(pooled.std(ddof=1)) if pooled.size > 1 else None
        kind, interval = "standard deviation over the episodes of all runs, ddof 1", None
    else:
        value, spread = float(means.mean()), float(means.std(ddof=1)) if means.size > 1 else None
        kind = RUN_SPREAD
        interval = mean_interval(means) if means.size > 1 else None
    return MetricValue(
        name=name,
        value=value,
        spread=spread,
        spread_kind=kind if spread is not None else None,
        interval=interval,
        per_run=[float(mean) for mean in means],
        n=int(means.size),
        unit=unit,
        direction=direction,
        profile=profile,
        notes=notes,
    )


def _one_task(name: str, data: RunData, profile: Profile) -> MetricValue:
    """The value of the only task; with several, a number over all of them would mix scales."""
    found = per_task(data, profile)
    if len(found) == 1:
        return next(iter(found.values()))[name]
    unit: str = "%" if name == "success_rate" else ""
    if found and name == "success_rate":
        pooled = [run for runs in data.successes.values() for run in runs]
        if pooled:
            return _over_tasks(name, data.successes, profile, unit="%", factor=100.0, total=False)
    why = f"{len(found)} tasks: returns are given task by task" if found else not_enough(0, 1, "episodes")
    return MetricValue(name=name, unit=unit, direction="max", profile=profile, condition=why)


def _over_tasks(
    name: str, tasks: Mapping[str, Sequence[Any]], profile: Profile, *, unit: str, factor: float, total: bool
) -> MetricValue:
    made: dict[str, Any] = {"name": name, "unit": unit, "profile": profile, "direction": "max"}
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
        return MetricValue(**made, condition=why, notes=notes)
    count = min(of_task.size for of_task in means.values())
    over = float(sum(of_task.mean() for of_task in means.values()))
    scale = 1.0 if total else 1.0 / len(means)
    notes.append(f"{'sum' if total else 'mean'} over {len(means)} tasks: {', '.join(means)}")
    result: dict[str, Any] = {"value": over * scale, "n": count}
    if all(of_task.size == count for of_task in means.values()):
        matrix = np.stack(list(means.values()), axis=1)
        per_run = matrix.sum(axis=1) * scale
        result["per_run"] = [float(value) for value in per_run]
        if count > 1:
            result |= {"spread": float(per_run.std(ddof=1)), "spread_kind": RUN_SPREAD}
            if not total:
                estimate = bootstrap(matrix, aggregate_mean, repetitions=REPETITIONS, method="small")
                result["interval"] = (estimate.low, estimate.high)
    else:
        notes.append("tasks have different numbers of runs: no value per run")
    return MetricValue(**made, **result, notes=notes)


def returns(data: RunData, profile: Profile) -> Mapping[str, MetricValue]:
    """Computes ``returns``."""
    return {"returns": _one_task("returns", data, profile)}


def success_rate(data: RunData, profile: Profile) -> Mapping[str, MetricValue]:
    """Computes ``success_rate``."""
    return {"success_rate": _one_task("success_rate", data, profile)}


def generalization(data: RunData, profile: Profile) -> Mapping[str, MetricValue]:
    """Computes ``generalization``, which takes at least two tasks."""
    if len(data.returns) < 2:
        why = not_enough(len(data.returns), 2, "tasks")
        value = MetricValue(name="generalization", direction="max", profile=profile, condition=why)
    else:
        value = _over_tasks("generalization", data.returns, profile, unit="", factor=1.0, total=profile == "a2perf")
    return {"generalization": value}


METRICS: tuple[Metric, ...] = (
    Metric(
        name="returns",
        label="Returns",
        category="application",
        direction="max",
        formula="mean undiscounted episode return; a2perf: all episodes pooled; corrected: each run, then over runs",
        source="earlier public platform; Sutton and Barto, Reinforcement Learning, chapter 3",
        needs="1 episode",
        compute=returns,
    ),
    Metric(
        name="success_rate",
        label="Success rate",
        category="application",
        unit="%",
        direction="max",
        formula="share of episodes that the environment calls a success; over several tasks their mean",
        source="the environment's own criterion",
        needs="1 episode of an environment that reports success",
        compute=success_rate,
    ),
    Metric(
        name="generalization",
        label="Generalization",
        category="application",
        direction="max",
        formula="mean return of each task over runs; a2perf: summed over tasks; corrected: mean over tasks",
        source="earlier public platform",
        needs="2 tasks with 1 episode each",
        compute=generalization,
    ),
)
