"""The runs that metrics are computed of: seeds of one another, in one mode."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from a2perf.arrays import Values
from a2perf.metrics import protocol
from a2perf.metrics.submitted import protocol_of
from a2perf.metrics.values import Profile
from a2perf.runs.run import Run
from a2perf.runs.seed_groups import units_of
from a2perf.runs.tracking_record import nothing_tracked

T = TypeVar("T")


class ScoredRuns:
    """Runs of one seed group in one mode.

    Args:
        mode: ``"train"``, ``"inference"`` or ``"generalization"``; what a run recorded in another mode is left out.
        threshold: return from which on the task counts as learned; None if it has none.
        success_return: least return of a successful episode where the environment reports no success; None if the
            protocol has none.

    Attributes:
        units: indices of the runs of each independent unit, over which intervals are; see ``seed_groups.units_of``.
        over: what the units are, ``"runs"`` or ``"trained policies"`` that have several runs each.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        mode: str = "",
        *,
        threshold: float | None = None,
        success_return: float | None = None,
    ) -> None:
        self.runs = [in_mode(run, mode) for run in runs]
        self.threshold = threshold
        self.success_return = success_return
        self.units = units_of([run.identity.policy for run in self.runs])
        self.over = "runs" if len(self.units) == len(self.runs) else "trained policies"
        self._known: dict[tuple[object, Profile], object] = {}

    def once(self, function: Callable[[ScoredRuns, Profile], T], profile: Profile) -> T:
        """Returns what a function makes of these runs; several metrics that share it compute it once."""
        key = (function, profile)
        if key not in self._known:
            self._known[key] = function(self, profile)
        return self._known[key]  # type: ignore[return-value]

    @functools.cached_property
    def curves(self) -> list[tuple[Values, Values]]:
        """``(steps, values)`` of the training return of each run that logged one."""
        return [(run.curve.steps, run.curve.values) for run in self.runs if run.curve is not None]

    @functools.cached_property
    def returns(self) -> dict[str, list[Values]]:
        """Episode returns by task, one array per unit that has episodes."""
        return _by_task([run.returns.get(run.mode, {}) for run in self.runs], self.units)

    @functools.cached_property
    def successes(self) -> dict[str, list[Values]]:
        """0 or 1 per episode by task, one array per unit of an environment that reports success."""
        found = _by_task([run.successes.get(run.mode, {}) for run in self.runs], self.units)
        return {task: values for task, values in found.items() if values}


def scored_runs(runs: Sequence[Run], mode: str, *, threshold: float | None = None) -> ScoredRuns:
    """Returns runs as metrics take them.

    The threshold is by default that of the protocol of the runs, or of the newest one that knows the task.
    """
    if threshold is None and mode in ("train", "inference") and runs:
        identity = runs[0].identity
        found = protocol.scored_task(
            identity.task, identity.fingerprint, protocol_of(run.folder.path for run in runs if run.folder is not None)
        )
        threshold = None if found is None else found.task.threshold_return()
    if mode == "train":
        return ScoredRuns(runs, mode, threshold=threshold)
    return ScoredRuns(runs, mode, success_return=threshold if mode == "inference" else None)


def in_mode(run: Run, mode: str) -> Run:
    """Returns a run with what it recorded in one mode; some layouts keep several modes in one folder."""
    if mode in ("", run.mode):
        return run
    trained, evaluated = mode == "train", mode == "inference"
    return replace(
        run,
        identity=replace(run.identity, mode=mode),
        curve=run.curve if trained else None,
        datasets=run.datasets if trained else [],
        wall_clock_s=run.wall_clock_s if trained else None,
        # the costs of a program are not split by mode
        tracking=run.tracking if trained or "train" not in run.modes() else nothing_tracked(),
        latency_s=run.latency_s if evaluated else {},
        latency_first_s=run.latency_first_s if evaluated else {},
    )


def once_per_run(function: Callable[[Run], T]) -> Callable[[Run], T]:
    """Keeps what a function makes of a run with that run, since several metrics of it share it."""
    name = f"{function.__module__}.{function.__qualname__}"

    @functools.wraps(function)
    def kept(run: Run) -> T:
        if name not in run.__dict__:
            run.__dict__[name] = function(run)
        return run.__dict__[name]  # type: ignore[no-any-return]

    return kept


def _by_task(runs: Sequence[dict[str, Values]], units: Sequence[Sequence[int]]) -> dict[str, list[Values]]:
    found: dict[str, list[Values]] = {}
    for task in sorted({task for run in runs for task in run}):
        of_units = [[runs[at][task] for at in unit if len(runs[at].get(task, ()))] for unit in units]
        found[task] = [values[0] if len(values) == 1 else np.concatenate(values) for values in of_units if values]
    return found
