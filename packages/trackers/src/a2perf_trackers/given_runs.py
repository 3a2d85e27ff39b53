"""What exporters take: runs in memory, objects that hold a run, paths, and iterables of these."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from a2perf.errors import UserError
from a2perf.runs.reading import read_runs
from a2perf.runs.run import Run


@runtime_checkable
class HoldsRun(Protocol):
    """An object with the attribute ``run``, for example ``a2perf.Result``."""

    @property
    def run(self) -> Run:
        """The recorded run."""


RunSource: TypeAlias = Run | HoldsRun | str | Path
"""One or several runs: a ``Run``, an object that holds one, or the path of a bundle or of a folder of runs."""


def runs_of(given: RunSource | Iterable[RunSource]) -> list[Run]:
    """Returns the runs in what an exporter was given, in the given order.

    Args:
        given: a ``Run``, an object with ``.run`` (``a2perf.Result``), a path, or an iterable of these
            (``a2perf.Runs``). A path stands for every run at or below it, of any layout, packed files included.

    Raises:
        UserError: a path does not exist or holds no run, or an object is none of these.

    Example:
        >>> from a2perf_trackers import runs_of
        >>> [run.mode for run in runs_of("results/recorded/learning")][:3]
        ['inference', 'inference', 'inference']
    """
    found = _found(given)
    if not found:
        raise UserError(
            "no run to export was found", hint="give a bundle, a folder of runs, or a2perf.read_runs(FOLDER)"
        )
    return found


def _found(given: object) -> list[Run]:
    if isinstance(given, Run):
        return [given]
    if isinstance(given, str | Path):
        return read_runs([Path(given)])
    held = getattr(given, "run", None)
    if isinstance(held, Run):
        return [held]
    if isinstance(given, Iterable):
        return [run for item in given for run in _found(item)]
    raise UserError(
        f"cannot export an object of type {type(given).__name__}",
        hint="give a Result, Runs, a path, or a list of these",
    )
