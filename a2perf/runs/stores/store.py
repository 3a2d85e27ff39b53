"""The experiment store: a folder of runs, read through an index.

A run is a folder ``R`` with ``rlops.json`` and the bundles of its modes; the benchmark matrix creates it at
``<store>/<experiment>/<env id>/<version>/seed_<n>``. A folder of bundles without ``rlops.json`` is a run as well. The
index under ``.index`` and the cache of series are derived from the bundles and may be deleted at any time. Readers take
no locks, so a store can be read while runs are being written.
"""

from __future__ import annotations

import hashlib
import itertools
import operator
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from a2perf import assets
from a2perf.errors import UserError
from a2perf.runs.bundles import layout
from a2perf.runs.bundles.files import files_of
from a2perf.runs.events.log_files import LogKind, find_logs, given_logs
from a2perf.runs.events.series_cache import SeriesCache
from a2perf.runs.packed.packed_archive import packed_place, packed_top
from a2perf.runs.run import Run
from a2perf.runs.series import EVALUATED_RETURN, RETURN_TAGS, Series, SeriesReader
from a2perf.runs.stores.index import ROLLOUT_MODES, Index
from a2perf.system import usable_processors
from a2perf.worker_pool import worker_pool

STORE_VARIABLE = "A2PERF_STORE"
RETURN_METRICS = (*RETURN_TAGS, EVALUATED_RETURN)
_FEW = 8  # up to this many runs, starting processes takes longer than reading


def store_folder(given: str | Path | None) -> Path:
    """Returns the path of the store: the given one, ``A2PERF_STORE``, or ``runs`` in the current folder."""
    return Path(given or os.environ.get(STORE_VARIABLE) or "runs").expanduser()


class RunStore:
    """A folder of runs, or a packed file of runs, which is read-only; a missing one is a ``UserError``."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = packed_top(Path(os.path.abspath(path)))
        if create:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UserError(
                    f"the store {path} cannot be created: {error.strerror}", hint="choose another one with --store DIR"
                ) from error
        if not self.path.is_dir() and packed_place(self.path) is None:
            raise UserError(
                f"there is no store at {path}",
                hint=f"add --store DIR or set {STORE_VARIABLE}; `a2perf benchmark` and `a2perf rlops import` create it",
            )
        self.index_folder = self.path / ".index"
        if not os.access(self.path, os.W_OK):
            name = hashlib.sha256(str(self.path).encode()).hexdigest()[:16]
            self.index_folder = assets.cache_dir() / "rlops" / name
        self._index = Index(self.path, self.index_folder)

    def runs(self) -> list[Run]:
        """Returns every run, by experiment, environment, version and seed."""
        by_record = operator.attrgetter("record.experiment", "record.env_id", "record.version")
        return sorted(self._index.runs(), key=lambda run: (by_record(run), run.record.seed or 0, run.name))


def logged_names(runs: Sequence[Run]) -> dict[str, int]:
    """Returns the names of the values that runs of a store logged, each with the number of runs that have it."""
    counted: Counter[str] = Counter()
    for modes in _readers(runs).values():
        counted.update({name for reader in modes for kind in LogKind for name in reader.names(kind)})
    return dict(sorted(counted.items()))


def read_curve(run: Run, name: str | None = None) -> Series | None:
    """Reads a logged value of a run of a store, by default its training return; None if the run does not have it."""
    return _curve(_readers_of(run), name)


def read_curves(runs: Sequence[Run], name: str | None = None) -> dict[str, Series]:
    """Reads one logged value of many runs as ``read_curve`` does, by name of the run; those without it are absent."""
    found = {run: _curve(readers, name) for run, readers in _readers(runs).items()}
    return {run: curve for run, curve in found.items() if curve is not None}


def _readers(runs: Sequence[Run]) -> dict[str, list[SeriesReader]]:
    """Returns readers of runs; many files that are missing in the cache are read by several processes."""
    found = {run.name: _readers_of(run) for run in runs}
    stale = [run for run in runs if not all(reader.is_cached() for reader in found[run.name])]
    workers = min(usable_processors(), len(stale) // _FEW)
    if workers > 1:
        with worker_pool(workers) as pool:
            # The list is needed: map raises the errors of workers only when its results are read.
            list(pool.map(_fill, stale, chunksize=max(1, min(16, len(stale) // (4 * workers)))))
    return found


def _readers_of(run: Run) -> list[SeriesReader]:
    """Returns readers of the series of one run, one per bundle."""
    found, cache = [], SeriesCache()
    for mode, listed in run.logs.items():
        files = files_of(run.folder.path / mode)
        logs = find_logs(files) if listed is None else given_logs(files, listed)
        if listed is None and mode in ROLLOUT_MODES:
            logs.found |= given_logs(files, [layout.ROLLOUTS]).found
        found.append(SeriesReader(logs, cache))
    return found


def _fill(run: Run) -> None:
    for reader in _readers_of(run):
        reader.open_all()


def _curve(readers: Sequence[SeriesReader], name: str | None) -> Series | None:
    places = [(kind, reader) for kind in LogKind for reader in readers]
    found = (reader.returns((kind,)) for kind, reader in places) if name is None else iter(())
    named = (reader.series(name or EVALUATED_RETURN, kind) for kind, reader in places)
    series = next((series for series in itertools.chain(found, named) if series is not None), None)
    if series is None:
        return None
    # copies: a view would keep the whole array that was read in memory
    return Series(series.name, series.source, series.steps.copy(), series.values.copy(), series.elapsed_s())
