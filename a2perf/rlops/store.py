"""The experiment store: a folder of runs, read through an index, tagged through a journal.

A run is a folder ``R`` with ``rlops.json`` and the bundles of its modes; the benchmark matrix puts it at
``<store>/<experiment>/<env id>/<version>/seed_<n>``. A folder of bundles that has no ``rlops.json`` is a run as well.
The bundles and the journal are the truth, the index and the curve cache under ``.index`` may be deleted at any time.
Nothing is locked for reading, so a store can be read while runs are being written.
"""

from __future__ import annotations

import datetime
import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from a2perf import assets
from a2perf.errors import UserError, did_you_mean
from a2perf.rlops.filters import DEFAULT_AXIS, DEFAULT_METRIC, RunQuery, env_of, experiment_of
from a2perf.rlops.tags import TAGS_FILE, TagJournal
from a2perf.runs.curve_cache import CachedRun, CurveCache
from a2perf.runs.index import Index
from a2perf.runs.recorded_curves import RETURN_TAGS
from a2perf.runs.run_series import LoggedRun
from a2perf.runs.stored_run import StoredRun, stored_run

__all__ = ["RunCurve", "Store", "StoredRun", "store_folder"]

STORE_VARIABLE = "A2PERF_STORE"
RETURN_METRICS = (DEFAULT_METRIC, *RETURN_TAGS, "inference/episode_return")
_AXES = (DEFAULT_AXIS, "step", "_step", "steps")
_MOST_NAMES = 20


@dataclass(frozen=True)
class RunCurve:
    """One metric of one run.

    Attributes:
        metric: its name.
        steps: float64, shape ``(n,)``; values of the axis asked for.
        values: float64, shape ``(n,)``.
        times: float64, shape ``(n,)``: seconds since the first value that the run logged, NaN where unknown.
    """

    metric: str
    steps: NDArray[np.float64] = field(repr=False)
    values: NDArray[np.float64] = field(repr=False)
    times: NDArray[np.float64] = field(repr=False)


def store_folder(given: str | Path | None) -> Path:
    """Returns the store that is meant: the one given, ``A2PERF_STORE``, or ``runs`` in the current folder."""
    return Path(given or os.environ.get(STORE_VARIABLE) or "runs").expanduser()


class Store:
    """A folder of runs.

    Args:
        path: the folder.
        create: make it when it is not there.

    Raises:
        UserError: it is not there, or is no folder.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = Path(os.path.abspath(path))
        if create:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UserError(
                    f"the store {path} cannot be made: {error.strerror}", hint="give --store DIR"
                ) from error
        if not self.path.is_dir():
            raise UserError(
                f"there is no store at {path}",
                hint=f"give --store DIR or set {STORE_VARIABLE}; `a2perf benchmark` and `a2perf rlops-import` make one",
            )
        self.index_folder = self._index_folder()
        self.tags = TagJournal(self.path / TAGS_FILE)
        self._index = Index(self.path, self.index_folder)
        self._curves = CurveCache(self.index_folder / "curves")

    def runs(self, query: RunQuery | None = None, *, as_of: datetime.datetime | None = None) -> list[StoredRun]:
        """Returns the runs that a query means, by experiment, environment, version and seed.

        Args:
            query: what is meant; every run when None.
            as_of: a run has the tags that it had then; runs that were started later are left out.
        """
        indexed = [run for run in self._index.runs() if as_of is None or _before(run.started_at, as_of)]
        tags = self.tags.applied({run.run_id: run.record.tags for run in indexed}, as_of=as_of)
        found = [stored_run(run, self.path / run.run_id, tags[run.run_id]) for run in indexed]
        if query is not None:
            found = [run for run in found if query.matches(run)]
        return sorted(found, key=lambda run: (run.experiment, run.env_id, run.version, run.seed or 0, run.run_id))

    def select(self, query: RunQuery, *, as_of: datetime.datetime | None = None) -> list[StoredRun]:
        """Returns the runs that a query means, at least one.

        Raises:
            UserError: there is none; the message says which part of the query fits nothing and what exists instead.
        """
        known = self.runs(as_of=as_of)
        found = [run for run in known if query.matches(run)]
        if not found:
            raise _nothing(query, known, self.path)
        return found

    def tag_names(self) -> dict[str, int]:
        """Returns every tag with the number of runs that have it."""
        return dict(sorted(Counter(tag for run in self.runs() for tag in run.tags).items()))

    def born_with(self, tag: str) -> list[str]:
        """Returns the runs that had a tag from their start."""
        return [run.run_id for run in self._index.runs() if tag in run.record.tags]

    def experiment_names(self) -> list[str]:
        """Returns the names of the experiments."""
        return sorted({run.experiment for run in self.runs()})

    def env_ids(self) -> list[str]:
        """Returns the environments."""
        return sorted({run.env_id for run in self.runs()})

    def metric_names(self, runs: Sequence[StoredRun]) -> dict[str, int]:
        """Returns the metrics of runs, each with the number of runs that have it."""
        self._curves.fill({run.run_id: run.path for run in runs})
        counted: Counter[str] = Counter()
        for run in runs:
            counted.update(_names(self._curves.read(run.run_id, run.path)))
        return dict(sorted(counted.items()))

    def notes(self, run: StoredRun) -> list[str]:
        """Returns what a reader should know of the files of a run: damage, what was left out."""
        return list(self._curves.read(run.run_id, run.path).notes)

    def curve(self, run: StoredRun, metric: str | None = None, *, xaxis: str = DEFAULT_AXIS) -> RunCurve | None:
        """Reads one metric of a run.

        Args:
            run: the run.
            metric: its name; when None, the return while training under the first of its usual names.
            xaxis: ``"global_step"`` for the steps at which it was logged, or another metric logged at the same steps.

        Returns:
            The curve, or None when the run has no such metric.
        """
        held = self._curves.read(run.run_id, run.path)
        names = _names(held)
        name = next((usual for usual in RETURN_METRICS if usual in names), None) if metric is None else metric
        series = self._curves.series(run.run_id, run.path, held, name) if name is not None else None
        if series is None or name is None:
            return None
        if xaxis in _AXES:
            return RunCurve(name, series.steps, series.values, series.times)
        axis = self._curves.series(run.run_id, run.path, held, xaxis)
        if axis is None or not len(axis.steps):
            return None
        order = np.argsort(axis.steps, kind="stable")
        along = np.interp(series.steps, axis.steps[order], axis.values[order])
        return RunCurve(name, along, series.values, series.times)

    def curves(
        self,
        runs: Sequence[StoredRun],
        metric: str | None = None,
        *,
        xaxis: str = DEFAULT_AXIS,
        processes: int | None = None,
    ) -> dict[str, RunCurve]:
        """Reads one metric of many runs, by ``run_id``; runs that do not have it are absent.

        Args:
            runs: the runs.
            metric: as for ``curve``.
            xaxis: as for ``curve``.
            processes: how many may read files that the cache does not hold; one for each processor when None.
        """
        self._curves.fill({run.run_id: run.path for run in runs}, processes=processes)
        found = {run.run_id: self.curve(run, metric, xaxis=xaxis) for run in runs}
        return {run_id: curve for run_id, curve in found.items() if curve is not None}

    def _index_folder(self) -> Path:
        if os.access(self.path, os.W_OK):
            return self.path / ".index"
        return assets.cache_dir() / "rlops" / hashlib.sha256(str(self.path).encode()).hexdigest()[:16]


def _before(started_at: str, moment: datetime.datetime) -> bool:
    try:
        return datetime.datetime.fromisoformat(started_at) <= moment
    except (ValueError, TypeError):  # unknown start
        return True


def _names(held: CachedRun | LoggedRun) -> Sequence[str]:
    return list(held.metrics if isinstance(held, CachedRun) else held.series)


def unknown_tag(tag: str, known: Sequence[str]) -> UserError:
    """Returns the error for a tag that no run has; it lists what exists."""
    return UserError(f"no run has the tag {tag!r}{did_you_mean(tag, known)}", hint=_existing("tags", known))


def _nothing(query: RunQuery, known: Sequence[StoredRun], path: Path) -> UserError:
    """Says which part of a query fits no run, and what exists instead."""
    if not known:
        return UserError(
            f"the store {path} holds no runs", hint="fill it with `a2perf benchmark` or `a2perf rlops-import`"
        )
    tags = sorted({tag for run in known for tag in run.tags})
    for tag in query.tags:
        if tag not in tags:
            return unknown_tag(tag, tags)
    experiments = sorted({experiment_of(run, query.experiment_key) for run in known})
    if query.experiment is not None and query.experiment not in experiments:
        return UserError(
            f"no run is of the experiment {query.experiment!r}{did_you_mean(query.experiment, experiments)}",
            hint=_existing("experiments", experiments),
        )
    envs = sorted({env_of(run, query.env_key) for run in known})
    for env in query.env_ids or ():
        if env not in envs:
            return UserError(f"no run is on {env!r}{did_you_mean(env, envs)}", hint=_existing("environments", envs))
    users = sorted({run.user for run in known})
    if query.user is not None and query.user not in users:
        return UserError(f"no run is by {query.user!r}", hint=_existing("users", users))
    for key, values in query.config.items():
        held = sorted({str(run.config[key]) for run in known if key in run.config})
        if not held:
            keys = sorted({name for run in known for name in run.config})
            return UserError(
                f"no run is configured with {key!r}{did_you_mean(key, keys)}", hint=_existing("keys", keys)
            )
        if not held or not any(str(value) in held for value in values):
            given = " or ".join(str(value) for value in values)
            return UserError(f"no run has {key} = {given}", hint=_existing(f"values of {key}", held))
    anyhow = replace(query, states=())
    fitting = [run for run in known if anyhow.matches(run)]
    if fitting:
        states = Counter(run.state for run in fitting)
        words = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        return UserError(f"no run that fits {query} is {' or '.join(query.states)} ({words})", hint="finish them first")
    return UserError(
        f"each part of {query} fits some run, but no run fits them all",
        hint="`a2perf rlops-tags --list` shows which runs have which tags",
    )


def _existing(what: str, names: Sequence[str]) -> str:
    if not names:
        return f"there are no {what}"
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{what} that exist: {', '.join(names[:_MOST_NAMES])}{more}"
