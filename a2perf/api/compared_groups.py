"""The groups that ``compare`` is given: names, functions or runs, resolved against the runs that were read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from a2perf.api.recorded import LazyRun, content_of, run_items
from a2perf.api.result import Result
from a2perf.errors import UserError
from a2perf.rlops.compare.recorded_runs import (
    NamedRuns,
    RecordedRun,
    named_after_content,
    other_groups,
    recorded_runs,
    runs_named,
    unique_names,
)
from a2perf.runs.run import Run

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
