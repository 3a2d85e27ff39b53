"""Panels from recorded runs that were read one by one: the runs of a panel, and the score of each.

A store selects its runs by tags and filters (``selection``). Here the groups are lists of runs. A panel is a task, or a
metric on a task if several metrics are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from a2perf.arrays import Values
from a2perf.errors import ConfigError, UserError, did_you_mean
from a2perf.metrics import registry
from a2perf.metrics.definition import Metric
from a2perf.metrics.runs_in_mode import in_mode, scored_runs
from a2perf.rlops.compare.references import EPISODE_RETURN
from a2perf.rlops.compare.request import Group, Request
from a2perf.rlops.compare.selection import (
    GroupRuns,
    Panel,
    RunScore,
    cell_of,
    changed_conditions,
    notices_of,
    shared_runs,
    short_runs,
)
from a2perf.runs.bundles.run_record import StoredRun
from a2perf.runs.foreign.foreign_layouts import UNKNOWN_ENVIRONMENT
from a2perf.runs.run import Run
from a2perf.runs.series import Series
from a2perf.runs.stores.seed_groups import environment_names, is_environment_known

MODE_ORDER = ("inference", "generalization", "train")
"""Which mode is compared if the groups have several: an evaluation before the returns during training."""
_DONE = ("finished", "recorded")
_UNNAMED = "unnamed task"


def choose_mode(groups: Mapping[str, Sequence[Run]], given: str | None) -> tuple[str, str]:
    """Returns the mode to compare, and a notice if runs of other modes are left out.

    Args:
        given: the mode; None for the first of ``MODE_ORDER`` that every group has.

    Raises:
        UserError: a group has no run in the mode, or the groups have no mode in common.
    """
    modes = {name: {mode for one in runs for mode in one.modes()} for name, runs in groups.items()}
    known = [mode for mode in MODE_ORDER if all(mode in found for found in modes.values())]
    if given is not None:
        if given not in known:
            without = [name for name, found in modes.items() if given not in found]
            every = sorted({mode for found in modes.values() for mode in found})
            near = did_you_mean(given, every) if given not in every else ""
            raise UserError(
                f"{', '.join(without)}: no run in the mode {given!r}{near}",
                hint=f"modes that all groups have: {', '.join(known) or 'none'}",
            )
        return given, ""
    if not known:
        listed = "; ".join(f"{name}: {', '.join(sorted(found)) or 'no data'}" for name, found in modes.items())
        raise UserError(
            f"the groups have no mode in common ({listed})", hint="compare runs that were recorded in the same mode"
        )
    others = sorted({mode for found in modes.values() for mode in found} - {known[0]})
    left_out = f"runs in the mode {known[0]} are compared; {', '.join(others)}: left out" if others else ""
    return known[0], left_out


def panels_of(
    request: Request, members: Sequence[Sequence[Run]], mode: str, metrics: Sequence[Metric],
    tasks: Sequence[str] | None,
) -> tuple[list[Panel], list[str]]:  # fmt: skip
    """Returns one panel per task and metric, and notices.

    Raises:
        UserError: the baseline or all candidates have no run on a task, no run of a group has a metric, or two groups
            are the same runs.
    """
    groups = [[one if one.mode else in_mode(one, mode) for one in runs if mode in one.modes()] for runs in members]
    names = environment_names([(one.identity.task, one.record.env_kwargs) for one in runs] for runs in groups)
    by_task = [_by_task(runs, mode, names) for runs in groups]
    if tasks is not None:  # a task with several arguments of its environment stands for all of them
        tasks = [name for task in tasks for name in sorted({n for (of, _), n in names.items() if of == task}) or [task]]
    chosen, notices = _chosen_tasks(request.groups, by_task, tasks)
    finished = [
        {task: [one.record for one in found.get(task, ()) if one.state in _DONE] for task in chosen}
        for found in by_task
    ]
    notices += shared_runs(request, finished)
    notices += changed_conditions(request, finished)
    panels = []
    for task in chosen:
        for place, metric in enumerate(metrics):
            cells = []
            for group, found in zip(request.groups, by_task, strict=True):
                cell, unfinished, done = _cell(found.get(task, ()), metric, mode, task, request.last)
                if request.question == "policies":
                    cell = replace(cell, episodes=_by_episode(found.get(task, ()), metric, mode, task))
                cells.append(cell)
                if place == 0:
                    notices += notices_of(group, task, done, unfinished, cell)
                elif missing := len(done) - len(cell.runs):
                    notices.append(f"{group.name} on {task}: {missing} of {len(done)} runs do not have {metric.name}")
            name = task if len(metrics) == 1 else f"{task} ({metric.name})"
            panel = Panel(name, task, metric.name, tuple(cells), metric.unit)
            panels.append(panel)
            if is_curve(metric, mode):
                notices += short_runs(panel, request, "last")
    for at, group in enumerate(request.groups):
        for metric in metrics:
            if not any(panel.cells[at].runs for panel in panels if panel.metric == metric.name):
                _raise_missing(group, metric, mode, [one for runs in by_task[at].values() for one in runs])
    return panels, list(dict.fromkeys(notices))


def _by_task(runs: Sequence[Run], mode: str, names: Mapping[tuple[str, str], str]) -> dict[str, list[Run]]:
    """Returns runs by task; one of several tasks counts for each, a failed one without tasks for all of its domain.

    Raises:
        UserError: the environment of a run is unknown: it cannot be averaged or compared with others.
    """
    found: dict[str, list[Run]] = {}
    without: list[Run] = []
    for one in runs:
        if not is_environment_known(one.identity, one.folder):
            unknown, _, hint = UNKNOWN_ENVIRONMENT.partition(", ")
            raise UserError(f"{one.record.run_id}: {unknown}", hint=hint.partition("; ")[2])
        name = one.identity.task
        tasks = [names[name, one.record.env_kwargs]] if name else list(one.returns.get(mode, {}))
        if not tasks and mode == "generalization":
            without.append(one)
        for task in tasks or ([] if mode == "generalization" else [_UNNAMED]):
            found.setdefault(task, []).append(one)
    for one in without:
        for held in found.values():
            if held[0].identity.domain == one.identity.domain:
                held.append(one)
    return found


def _chosen_tasks(
    groups: Sequence[Group], by_task: Sequence[Mapping[str, object]], given: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    every = sorted({task for found in by_task for task in found})
    if given is not None:
        for task in given:
            without = [at for at, found in enumerate(by_task) if task not in found]
            if 0 in without or len(without) == len(groups) - 1:
                at = without[0]
                raise UserError(
                    f"{groups[at].name} has no run on {task}{did_you_mean(task, by_task[at])}",
                    hint=f"tasks that it has: {', '.join(sorted(by_task[at]))}",
                )
        return list(dict.fromkeys(given)), []
    ours, others = by_task[0], by_task[1:]
    chosen = [task for task in every if task in ours and any(task in found for found in others)]
    if not chosen:
        listed = "; ".join(
            f"{group.name}: {', '.join(sorted(found)) or 'none'}" for group, found in zip(groups, by_task, strict=True)
        )
        raise UserError(
            f"no candidate has runs on a task of the baseline ({listed})",
            hint="name a candidate that has runs on the same tasks",
        )
    left_out = [task for task in every if task not in chosen]
    notices = []
    if left_out:
        notices.append(f"left out, since the baseline or all candidates have no runs on it: {', '.join(left_out)}")
    return chosen, notices


def _cell(
    runs: Sequence[Run], metric: Metric, mode: str, task: str, last: int
) -> tuple[GroupRuns, list[StoredRun], list[StoredRun]]:
    """Returns the scores of a group on a task, with its unfinished and its finished runs."""
    ordered = sorted(runs, key=lambda one: (one.record.version, one.record.seed or 0, one.record.run_id))
    done = [one for one in ordered if one.state in _DONE]
    unfinished = [one.record for one in ordered if one.state not in _DONE]
    found = {one.record.run_id: score_of(one, metric, mode, one.identity.task or task, last) for one in done}
    scores = {run_id: score for run_id, score in found.items() if score is not None}
    finished = [one.record for one in done]
    return cell_of(finished, unfinished, scores), unfinished, finished


def _by_episode(runs: Sequence[Run], metric: Metric, mode: str, task: str) -> dict[int, float]:
    """Returns the mean score of the finished runs that played an episode, by the seed of the episode.

    Training seeds of an algorithm may be evaluated on different episodes, so an episode need not be one of all runs.
    An episode without the metric is left out.

    Raises:
        ConfigError: the metric is not one of episodes, or the mode has none.
    """
    if mode == "train" or metric.name not in (EPISODE_RETURN, "success_rate"):
        raise ConfigError(
            f"question 'policies' compares episodes, not {metric.name} of the mode {mode}",
            hint="use the metric returns or success_rate of evaluations, or the question algorithm",
        )
    scores: dict[int, list[float]] = {}
    for run in (one for one in runs if one.state in _DONE):
        for episode in run.episodes.get(run.identity.task or task, ()):
            score = episode.episode_return if metric.name == EPISODE_RETURN else episode.success
            if score is not None:
                scores.setdefault(episode.seed, []).append(float(score))
    return {seed: float(np.mean(of_runs)) for seed, of_runs in scores.items()}


def _raise_missing(group: Group, metric: Metric, mode: str, runs: Sequence[Run]) -> None:
    done = [one for one in runs if one.state in _DONE]
    if not done:
        states = Counter(one.state for one in runs)
        listed = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        raise UserError(f"no run of {group.name} is finished ({listed})", hint="finish them first")
    known = metrics_of(done[0], mode)
    raise UserError(
        f"no run of {group.name} recorded the metric {metric.name!r} in the mode {mode}",
        hint=f"metrics that its runs have: {', '.join(known) or 'none'}",
    )


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


def score_of(one: Run, metric: Metric, mode: str, task: str, last: int) -> RunScore | None:
    """Returns the score of a run on a task; None if the run did not record the metric.

    Args:
        metric: ``returns`` is the mean episode return of an evaluation, and of a training run the mean of its last
            returns; any other metric is that of one run.
    """
    if is_curve(metric, mode):
        series = one.curve
        if series is None or not series.values.size:
            return None
        return RunScore(series, float(np.mean(series.values[-last:])), "recorded")
    if metric.name == EPISODE_RETURN:
        returns = one.returns.get(mode, {}).get(task)
        if returns is None or not returns.size:
            return None
        return RunScore(_over_episodes(metric.name, returns), float(np.mean(returns)), "recorded")
    value = registry.score(scored_runs([one], mode), names=[metric.name])[metric.name]
    if value.value is None:
        return None
    return RunScore(_over_episodes(metric.name, np.array([value.value])), value.value, value.provenance)


def is_curve(metric: Metric, mode: str) -> bool:
    """Returns whether the score is the end of a training curve."""
    return metric.name == EPISODE_RETURN and mode not in ("inference", "generalization")


def _over_episodes(name: str, values: Values) -> Series:
    return Series(name, "", np.arange(1.0, values.size + 1.0), values)


def metrics_of(one: Run, mode: str) -> list[str]:
    """Returns the names of the metrics that a run has in a mode, without those that have no better or worse."""
    scores = registry.score(scored_runs([one], mode))
    known = [name for name, value in scores.items() if value.value is not None and value.direction != "none"]
    returns = [EPISODE_RETURN] if mode == "train" and EPISODE_RETURN not in known else []
    return list(dict.fromkeys([*returns, *known]))
