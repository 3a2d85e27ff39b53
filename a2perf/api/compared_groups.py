"""The groups that ``compare`` is given: names, functions or runs; for a store tags, filters and experiments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from a2perf.api.recorded import LazyRun, content_of, run_items
from a2perf.api.result import Result
from a2perf.errors import UserError, did_you_mean, names_text
from a2perf.metrics import registry
from a2perf.rlops.compare.recorded_runs import (
    NamedRuns,
    RecordedRun,
    named_after_content,
    other_groups,
    recorded_runs,
    runs_named,
    unique_names,
)
from a2perf.rlops.compare.references import EPISODE_RETURN
from a2perf.rlops.compare.request import Group, groups_of_queries
from a2perf.rlops.filters import RunQuery, parse_experiment, parse_tag_expression
from a2perf.rlops.store import Store
from a2perf.runs.files import files_of
from a2perf.runs.index import find_run_folders
from a2perf.runs.run import Run
from a2perf.runs.run_record import RUN_FILE

Item = tuple[Any, RecordedRun]
"""What the caller gave (a ``Result`` or a ``Run``), and the run in it."""


def given_runs(given: Any) -> list[Item]:
    """Returns the runs in what ``compare`` was given.

    Raises:
        ConfigError: it holds something else than runs, results and paths, or nothing.
        UserError: a path does not exist, or holds no run.
    """
    # functions that select runs get a Result, also for runs that were given as a path
    items = [item if isinstance(item, Run | Result) else Result(item.folder) for item in run_items(given)]
    contents = [content_of(item) for item in items]
    by_content = {id(run): item for run, item in zip(contents, items, strict=True)}
    return [(by_content[id(one.run)], one) for one in recorded_runs(contents)]


def chosen_groups(
    items: Sequence[Item], baseline: Any, candidate: Any, tasks: Sequence[str] | None = None
) -> list[NamedRuns]:
    """Returns the groups, the baseline first.

    Args:
        items: the runs.
        baseline: a name, a function of an item, or runs.
        candidate: the same, or a list of names and functions; None for every other group that shares a task with the
            baseline.
        tasks: the tasks that are compared; None for all.

    Raises:
        UserError: a group has no runs, or it is the only group.
        ConfigError: a group is none of these.
    """
    runs = [run for _, run in items]
    first = _group(items, baseline, "baseline")
    if candidate is None:
        every = other_groups(runs, first)
        wanted = _tasks(first) if tasks is None else set(tasks)
        # all of them if none has one of the tasks, for the error that lists their tasks
        others = [group for group in every if _tasks(group) & wanted] or every
    elif isinstance(candidate, str) or callable(candidate) or _holds_runs(candidate):
        others = [_group(items, candidate, "candidate")]
    elif isinstance(candidate, Iterable):
        given = list(candidate)
        others = [_group(items, one, f"candidate {place}") for place, one in enumerate(given, start=1)]
    else:
        others = [_group(items, candidate, "candidate")]
    runs_of = [frozenset(id(one) for one in group.runs) for group in others]
    for group, ids in zip(others, runs_of, strict=True):
        if runs_of.count(ids) > 1:
            raise UserError(f"the candidate {group.name} is given twice", hint="name each candidate once")
    if not others:
        raise UserError("no candidate was named", hint="leave candidate= out to compare every other group")
    return unique_names([first, *others])


def _tasks(group: NamedRuns) -> set[str]:
    found: set[str] = set()
    for one in group.runs:
        found |= {one.task} if one.task else {task for of in one.run.returns.values() for task in of} or {""}
    return found


def _group(items: Sequence[Item], given: Any, role: str) -> NamedRuns:
    if isinstance(given, str):
        return runs_named([run for _, run in items], given)
    if callable(given):
        found = [run for item, run in items if given(item)]
        if not found:
            raise UserError(f"the {role} selects none of {len(items)} runs", hint="check the condition of the function")
        return named_after_content(found, role)
    return named_after_content([run for _, run in given_runs(given)], role)


def _holds_runs(given: Any) -> bool:
    """Returns whether an object stands for one group: a result, a path, or a sequence of results."""
    if isinstance(given, Run | LazyRun | Path):
        return True
    return isinstance(given, Sequence) and bool(given) and isinstance(given[0], Run | LazyRun)


def store_groups(
    path: Path, baseline: Any, candidate: Any, metrics: Sequence[str], experiment: str | None
) -> tuple[Store, tuple[Group, ...], tuple[str, ...]] | None:
    """Returns the store, the groups to compare with the baseline first, and the logged metrics.

    None if the path is not an experiment store, the groups are not named by texts, or a metric is one of recorded runs:
    the runs are then read one by one.

    Raises:
        UserError: a name is neither a tag nor an experiment of the store, or a filter cannot be read.
    """
    several = isinstance(candidate, Sequence) and not isinstance(candidate, str)
    names = [baseline, *(candidate if several else [candidate])]
    if not all(isinstance(name, str) for name in names) or not path.exists():
        return None
    if all(files_of(found.path).status(RUN_FILE) is None for found in find_run_folders(path)):
        return None
    store = Store(path)
    if names_costs(store, metrics):
        return None
    values = store.metric_names(store.runs())
    logged = tuple(name for name in metrics if name in values or registry.meaning(name) != EPISODE_RETURN)
    queries = [_query(store, name, experiment) for name in names]
    return store, groups_of_queries(queries), logged


def names_costs(store: Store, metrics: Sequence[str]) -> bool:
    """Returns whether a metric is one of recorded runs, such as ``"energy"``, and not a value that runs logged."""
    meant = [name for name in metrics if registry.meaning(name) not in (None, EPISODE_RETURN)]
    return bool(meant) and not set(meant).issubset(store.metric_names(store.runs()))


def _query(store: Store, text: str, experiment: str | None) -> RunQuery:
    experiments = {run.experiment for run in store.runs()}
    if "=" in text or text in experiments:
        return parse_experiment(text)
    query = replace(parse_tag_expression(text), experiment=experiment)
    tags = store.tag_names()
    for tag in query.tags:
        if tag not in tags:
            raise UserError(
                f"{text!r} is neither a tag nor an experiment of {store.path}"
                f"{did_you_mean(tag, [*tags, *experiments])}",
                hint=f"tags: {names_text(sorted(tags))}; experiments: {names_text(sorted(experiments))}",
            )
    return query
