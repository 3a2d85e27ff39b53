"""From groups of runs to panels: which environments are compared, and the runs and scores of every group on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from a2perf.errors import UserError, did_you_mean
from a2perf.metrics.definition import Metric
from a2perf.metrics.difference import LEAST_SEEDS
from a2perf.metrics.runs_in_mode import in_mode
from a2perf.rlops.compare.notices import between_sides, notices_of, short_runs
from a2perf.rlops.compare.panel import GroupRuns, Panel, RunScore
from a2perf.rlops.compare.request import Group, Request
from a2perf.rlops.compare.scores import Compared, is_curve, metrics_of, name_of, scores_by_episode, scores_of
from a2perf.runs.foreign.foreign_layouts import UNKNOWN_ENVIRONMENT
from a2perf.runs.run import Run
from a2perf.runs.seed_groups import environment_names, is_environment_known, units_of

ENDED_BADLY = ("failed", "killed", "interrupted", "unreadable")
MODE_ORDER = ("inference", "generalization", "train")
"""Which mode is compared if the groups have several: an evaluation before the returns during training."""
_DONE = ("finished", "recorded")
_UNNAMED = "unnamed task"


def panels_of(request: Request, metrics: Sequence[Compared], mode: str = "") -> tuple[list[Panel], list[str]]:
    """Returns one panel per environment and metric, and notices.

    Args:
        mode: what is scored of runs that were read one by one; ``""`` for runs of a store.

    Raises:
        UserError: a group has no runs on an environment or with a metric, or two groups are the same runs. The message
            lists what exists.
    """
    groups = [_in_mode(group.runs, mode) for group in request.groups]
    names = environment_names([(run.record.env_id, run.identity.env_kwargs) for run in runs] for runs in groups)
    by_env = [_by_env(runs, mode, names) for runs in groups]
    envs, notices = _environments(request, by_env, names)
    finished = [{env: [run for run in found.get(env, ()) if run.state in _DONE] for env in envs} for found in by_env]
    notices += between_sides(request, finished)
    scores = [[scores_of(of_group, metric, mode, request.last) for metric in metrics] for of_group in finished]
    panels = []
    for env in envs:
        for place, metric in enumerate(metrics):
            cells = []
            for at, group in enumerate(request.groups):
                done = finished[at][env]
                unfinished = [run for run in by_env[at].get(env, ()) if run.state not in _DONE]
                cell = _cell(done, unfinished, scores[at][place][env])
                if request.question == "episodes":
                    cell = replace(cell, episodes=scores_by_episode(done, metric, mode, env))
                cells.append(cell)
                if place == 0:
                    notices += notices_of(group, env, done, unfinished, cell)
                elif missing := cell.without:
                    notices.append(
                        f"{group.name} on {env}: {missing} of {len(done)} runs do not have {name_of(metric)}"
                    )
            name = name_of(metric)
            if not name:
                used = Counter(curve.name for cell in cells for curve in cell.curves)
                name = used.most_common(1)[0][0] if used else "episode return"
                if len(used) > 1:
                    notices.append(f"{env}: the return is logged under different names: {', '.join(sorted(used))}")
            unit = metric.unit if isinstance(metric, Metric) else ""
            panels.append(Panel(env if len(metrics) == 1 else f"{env} ({name})", env, name, tuple(cells), unit))
            if is_curve(metric, mode):
                notices += short_runs(panels[-1], request)
    for at, group in enumerate(request.groups):
        for place, metric in enumerate(metrics):
            if not any(of_env for of_env in scores[at][place].values()):
                _raise_missing(group, metric, mode, [run for runs in by_env[at].values() for run in runs])
    return panels, list(dict.fromkeys(notices))


def choose_mode(groups: Sequence[Group], given: str | None) -> tuple[str, str]:
    """Returns the mode to compare, and a notice if runs of other modes are left out.

    Args:
        given: the mode; None for the first of ``MODE_ORDER`` that every group has.

    Raises:
        UserError: a group has no run in the mode, or the groups have no mode in common.
    """
    modes = {group.name: {mode for run in group.runs for mode in run.modes()} for group in groups}
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


def asked_of_episodes(request: Request, mode: str) -> Request:
    """Returns a request that asks about shared episodes if a group has too few seeds to ask about its algorithm."""
    if mode == "train" or request.baseline is None:
        return request
    counts, played = {}, []
    for group in request.groups:
        runs = _in_mode(group.runs, mode)
        tasks = {task for run in runs for task in run.episodes}
        units = [len(units_of([run.identity.policy for run in runs if task in run.episodes])) for task in tasks]
        counts[group.name] = min(units, default=0)
        played.append({(task, one.seed) for run in runs for task, held in run.episodes.items() for one in held})
    few = [f"{name} has {count}" for name, count in counts.items() if 0 < count < LEAST_SEEDS]
    if not few or any(not played[request.baseline] & played[at] for at in request.candidates):
        return request
    return replace(
        request, question="episodes", question_reason=f"since {few[0]} of the {LEAST_SEEDS} seeds that algorithms need"
    )


def _in_mode(runs: Sequence[Run], mode: str) -> list[Run]:
    if not mode:
        return list(runs)
    return [run if run.mode else in_mode(run, mode) for run in runs if mode in run.modes()]


def _by_env(runs: Sequence[Run], mode: str, names: Mapping[tuple[str, str], str]) -> dict[str, list[Run]]:
    """Returns runs by environment; one of several tasks counts for each, a failed one without tasks for its domain."""
    found: dict[str, list[Run]] = {}
    without: list[Run] = []
    for run in runs:
        if mode and not is_environment_known(run.identity, run.folder):
            unknown, _, hint = UNKNOWN_ENVIRONMENT.partition(", ")
            raise UserError(f"{run.name}: {unknown}", hint=hint.partition("; ")[2])
        name = run.record.env_id
        tasks = [names[name, run.identity.env_kwargs]] if name or not mode else list(run.returns.get(mode, {}))
        if not tasks and mode == "generalization":
            without.append(run)
        for task in tasks or ([] if mode == "generalization" else [_UNNAMED]):
            found.setdefault(task, []).append(run)
    for run in without:
        for held in found.values():
            if held[0].identity.domain == run.identity.domain:
                held.append(run)
    return found


def _environments(
    request: Request, by_env: Sequence[Mapping[str, Sequence[Run]]], names: Mapping[tuple[str, str], str]
) -> tuple[list[str], list[str]]:
    """Returns the environments that are compared, and a notice on those that are left out.

    Every group needs a finished run on each; with ``only_shared`` the baseline and one candidate need a run.
    """
    shared = request.only_shared
    held = [
        {env for env, runs in found.items() if shared or any(run.state in _DONE for run in runs)} for found in by_env
    ]
    others = request.candidates or range(len(held))
    every = sorted(set[str]().union(*held))
    notices = []
    if request.env_ids is not None:
        if twice := [env for env, count in Counter(request.env_ids).items() if count > 1]:
            raise UserError(f"{', '.join(twice)}: named more than once", hint="name each environment once")
        # an environment with several sets of arguments has one name per set
        named_as = {env: sorted(name for (of, _), name in names.items() if of == env) for env in request.env_ids}
        chosen = [name for env in request.env_ids for name in named_as[env] or [env]]
    elif request.baseline is None:
        chosen = every
    else:
        ours = held[request.baseline]
        chosen = [env for env in every if env in ours and any(env in held[at] for at in others)]
        if not chosen and all(held):
            listed = "; ".join(
                f"{group.name}: {', '.join(sorted(found)) or 'none'}"
                for group, found in zip(request.groups, held, strict=True)
            )
            raise UserError(
                f"no candidate has runs on a task of the baseline ({listed})",
                hint="name a candidate that has runs on the same tasks",
            )
        chosen = chosen if shared else every
        if left_out := [env for env in every if env not in chosen]:
            notices.append(f"left out, since the baseline or all candidates have no runs on it: {', '.join(left_out)}")
    for env in chosen:
        without = [at for at, found in enumerate(held) if env not in found]
        if without and (not shared or request.baseline in without or set(others) <= set(without)):
            at, kind = without[0], "" if shared else "finished "
            raise UserError(
                f"{request.groups[at].name} has no {kind}run on {env}{did_you_mean(env, held[at])}",
                hint=f"it has runs on {', '.join(sorted(held[at])) or 'none'}",
            )
    return chosen, notices


def _cell(done: Sequence[Run], unfinished: Sequence[Run], scores: Mapping[str, RunScore]) -> GroupRuns:
    """Returns the scored runs of one group on one environment, given the scores by run.

    If there are several trained policies, the first run of each stands for it with the mean of all of its runs.
    """
    held = [run for run in done if run.name in scores]
    failed = sum(run.state in ENDED_BADLY for run in unfinished) + len(done) - len(held)
    units = [[held[index] for index in unit] for unit in units_of([run.identity.policy for run in held])]
    found = [scores[unit[0].name] for unit in units]
    values = np.array([np.mean([scores[run.name].score for run in unit]) for unit in units], np.float64)
    return GroupRuns(
        runs=tuple(unit[0] for unit in units),
        curves=tuple(one.curve for one in found),
        scores=values,
        failed=failed,
        provenance=tuple(one.provenance for one in found),
        without=len(done) - len(held),
    )


def _raise_missing(group: Group, metric: Compared, mode: str, runs: Sequence[Run]) -> None:
    done = [run for run in runs if run.state in _DONE]
    if not done:
        listed = ", ".join(f"{count} {state}" for state, count in sorted(Counter(run.state for run in runs).items()))
        raise UserError(f"no run of {group.name} is finished ({listed})", hint="finish them first")
    known = metrics_of(done[0], mode)
    missing = f"the metric {name_of(metric)!r}" if metric else "the return under a usual name"
    raise UserError(
        f"no run of {group.name} has {missing}{did_you_mean(name_of(metric), known)}",
        hint=f"metrics that exist: {', '.join(known) or 'none'}",
    )
