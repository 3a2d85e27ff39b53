"""Runs in what functions of the API were given: results, runs in memory, paths, and iterables of these."""

from __future__ import annotations

from collections.abc import Iterable

from a2perf.api.recorded import AnyRuns, LazyRun, recorded_runs
from a2perf.runs.run import Run


def run_items(given: AnyRuns | Run | Iterable[Run]) -> list[LazyRun | Run]:
    """Returns runs: those in memory in their order, then all others in the order of the commands.

    Args:
        given: as for ``recorded_runs``, or ``a2perf.runs.Run`` objects.

    Raises:
        UserError: a path does not exist, or holds no run.
        ConfigError: something else was given, or nothing.
    """
    if isinstance(given, Run):
        return [given]
    if isinstance(given, Iterable) and not isinstance(given, str | LazyRun):
        parts = list(given)
        in_memory = [part for part in parts if isinstance(part, Run)]
        others = [part for part in parts if not isinstance(part, Run)]
        if in_memory:
            return [*in_memory, *(recorded_runs(others) if others else [])]
        given = others
    return list(recorded_runs(given))


def content_of(item: LazyRun | Run) -> Run:
    """Returns the content of a run; it is read on first use."""
    return item if isinstance(item, Run) else item.run
