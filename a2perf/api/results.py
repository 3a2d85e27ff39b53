"""Recorded runs as objects: ``read_run``, ``read_runs``, ``Result`` and ``Runs``."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from a2perf.api.result import Result as Result
from a2perf.api.scoring import Scores, scores_of
from a2perf.api.views.figures import runs_figure
from a2perf.api.views.run_tables import curve_table, episode_table, run_table, runs_text, step_table
from a2perf.api.views.table import Records, Table
from a2perf.arrays import Values
from a2perf.errors import ConfigError, UserError, did_you_mean
from a2perf.metrics.values import Profile
from a2perf.plain_text import plain_text
from a2perf.runs import reading
from a2perf.runs.foreign.foreign_layouts import UNKNOWN_ENVIRONMENT
from a2perf.runs.seed_groups import seed_key

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONDITIONS = ("task", "algorithm", "mode", "seed", "domain", "state", "view")
"""Keywords of ``Runs.where``."""


def read_run(path: str | os.PathLike[str]) -> Result:
    """Reads one recorded run.

    Args:
        path: a bundle, a packed file or a run of another layout, or a folder with exactly one run in or below it.

    Returns:
        The run. Its files are read on first use. A damaged or unfinished run can be read; ``conditions`` lists what
        is wrong.

    Raises:
        UserError: the path does not exist, or holds no run or several.

    Example:
        >>> result = a2perf.read_run("runs/minimal/dog_pace/seed_0/inference")
        >>> result.mean_return, result.interval
    """
    found = reading.read_runs(path)
    if len(found) > 1:
        names = ", ".join(plain_text(run.folder.label) for run in found[:3])
        more = ", ..." if len(found) > 3 else ""
        raise UserError(
            f"{os.fspath(path)} holds {len(found)} runs: {names}{more}",
            hint="give the folder of one run, or read all of them with read_runs",
        )
    return Result(found[0])


def read_runs(*paths: str | os.PathLike[str]) -> Runs:
    """Reads all recorded runs in and below the given paths.

    Args:
        paths: bundles, packed files, folders of the earlier platform, logs of Stable-Baselines3 (progress.csv,
            monitor.csv), event files, CSV files with columns for steps and returns, or folders that hold any of these.

    Returns:
        The runs, ordered by name and mode. The files of a run are read on first use.

    Raises:
        UserError: a path does not exist or holds no run.

    Example:
        >>> runs = a2perf.read_runs("results/recorded")
        >>> runs.where(task="dog_pace", mode="inference").scores()
    """
    return Runs(map(Result, reading.read_runs(paths)))


class Runs(Records[Result]):
    """Recorded runs in a stable order. Immutable: a slice, a sum and ``where`` return other ``Runs``.

    Example:
        >>> runs = a2perf.read_runs("results/recorded")
        >>> dog = runs.where(task="dog_pace")
        >>> dog[0], len(dog), dog + runs.where(task="dog_trot")
        >>> dog.scores()
        >>> dog.to_pandas()
        >>> dog.plot()
    """

    _scores: dict[str, Scores]

    def __init__(self, results: Iterable[Result] = ()) -> None:
        for result in self:
            if not isinstance(result, Result):
                raise TypeError(f"Runs holds Result objects, not {type(result).__name__}; read paths with read_runs")
        self.__dict__["_scores"] = {}

    def __add__(self, other: Iterable[Result]) -> Runs:  # type: ignore[override]
        return Runs((*self, *other)) if isinstance(other, Iterable) else NotImplemented

    def where(self, *predicates: Callable[[Result], bool], **conditions: Any) -> Runs:
        """Returns the runs that meet all conditions.

        Args:
            predicates: functions of a ``Result`` that return whether to keep it.
            conditions: ``task``, ``algorithm``, ``mode``, ``seed``, ``domain``, ``state`` or ``view``: a value, a list
                of values, or a function of the value. A view of a task counts as a task too.

        Raises:
            ConfigError: another keyword.

        Example:
            >>> runs.where(task="dog_pace", mode=["train", "inference"], seed=lambda seed: seed < 3)
            >>> runs.where(lambda result: result.success_rate == 100.0)
        """
        for name in conditions:
            if name not in CONDITIONS:
                near = did_you_mean(name, CONDITIONS)
                raise ConfigError(f"runs have no {name!r}{near}", hint=f"use one of {', '.join(CONDITIONS)}")
        attributes = {"name" if name == "algorithm" else name: wanted for name, wanted in conditions.items()}
        return Runs(
            result
            for result in self
            if all(_meets(result, name, wanted) for name, wanted in attributes.items())
            and all(predicate(result) for predicate in predicates)
        )

    # --- numbers and data ---------------------------------------------------------------------------------------------

    def scores(self, profile: Profile = "corrected") -> Scores:
        """Scores the runs; seeds of the same experiment form one group.

        Args:
            profile: set of formulas, ``"corrected"`` or ``"upstream"``.

        Raises:
            ConfigError: the profile is unknown, or this holds no runs.
        """
        if not self:
            raise ConfigError("the selection holds no runs", hint="check the conditions of where(), or the paths")
        if profile not in self._scores:
            self._scores[profile] = scores_of([result.run for result in self], profile)
        return self._scores[profile]

    @property
    def mean_returns(self) -> Values:
        """Mean return of each run with episodes, float64, shape ``(runs,)``; the runs must be of one task.

        Raises:
            UserError: the runs are of several or unknown tasks; their returns have different scales.
        """
        tasks = sorted({result.task or result.domain or "unknown" for result in self})
        if len(tasks) > 1:
            raise UserError(
                f"the runs are of {len(tasks)} tasks ({', '.join(tasks[:5])}{', ...' if len(tasks) > 5 else ''}); "
                "their returns have different scales",
                hint=f"select one: runs.where(task={tasks[0]!r})",
            )
        if len(self) > 1 and any(seed_key(found.run.identity, found.folder).alone for found in self):
            raise UserError("the environment of a run is unknown", hint=UNKNOWN_ENVIRONMENT.partition("; ")[2])
        means = (result.mean_return for result in self)
        return np.array([mean for mean in means if mean is not None], np.float64)

    def episodes(self) -> Table:
        """Returns one row per episode of all runs: see ``Result.episodes``."""
        return episode_table([result.run for result in self])

    def steps(self) -> Table:
        """Returns one row per step of all runs: see ``Result.steps``."""
        return step_table([result.run for result in self])

    def curves(self) -> Table:
        """Returns one row per point of the training curves: step, return, and seconds since the first point."""
        return curve_table([result.run for result in self])

    def table(self, *, metrics: Collection[str] | None = None) -> Table:
        """Returns one row per run: identity, state and metrics.

        Args:
            metrics: names of further metrics; by default the main ones. A column has the name of its metric.

        Raises:
            ConfigError: an unknown metric.
        """
        return run_table([result.run for result in self], metrics)

    def plot(self, kind: str | None = None) -> Figure:
        """Draws the runs, one panel per task, one colour per algorithm.

        Args:
            kind: ``"curves"``: training returns over steps, with the mean over runs and its 95 % interval;
                ``"returns"``: every episode as a dot. By default returns if there are episodes, else curves.

        Returns:
            A matplotlib figure. It is not registered in pyplot; a notebook shows it once.

        Raises:
            ConfigError: an unknown kind.
            UserError: no run has data of this kind.
        """
        return runs_figure([result.run for result in self], kind)

    def __repr__(self) -> str:
        return runs_text([result.run for result in self])


def _meets(result: Result, name: str, wanted: object) -> bool:
    manifest = result.run.manifest if name == "task" else None
    seen = () if manifest is None or manifest.view is None else (manifest.task,)
    return any(_is_wanted(value, wanted) for value in (getattr(result, name), *seen))


def _is_wanted(value: object, wanted: object) -> bool:
    if callable(wanted):
        return bool(wanted(value))
    if isinstance(wanted, Collection) and not isinstance(wanted, str):
        return value in wanted
    return value == wanted
