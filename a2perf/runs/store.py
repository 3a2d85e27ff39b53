"""The experiment store: a folder of runs, read through an index.

A run is a folder ``R`` with ``rlops.json`` and the bundles of its modes; the benchmark matrix creates it at
``<store>/<experiment>/<env id>/<version>/seed_<n>``. A folder of bundles without ``rlops.json`` is a run as well. The
index under ``.index`` and the cache of series are derived from the bundles and may be deleted at any time. Readers take
no locks, so a store can be read while runs are being written.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from a2perf import assets
from a2perf.errors import UserError
from a2perf.runs import layout
from a2perf.runs.files import files_of
from a2perf.runs.index import ROLLOUT_MODES, Index
from a2perf.runs.log_files import LogKind, find_logs, given_logs
from a2perf.runs.packed_archive import packed_place, packed_top
from a2perf.runs.run_record import StoredRun
from a2perf.runs.series import EVALUATED_RETURN, RETURN_TAGS, Series, SeriesReader
from a2perf.runs.series_cache import SeriesCache
from a2perf.system import usable_processors
from a2perf.worker_pool import worker_pool

STORE_VARIABLE = "A2PERF_STORE"
RETURN_METRICS = (*RETURN_TAGS, EVALUATED_RETURN)
_FEW = 8  # up to this many runs, starting processes takes longer than reading


def store_folder(given: str | Path | None) -> Path:
    """Returns the path of the store: the given one, ``A2PERF_STORE``, or ``runs`` in the current folder."""
    return Path(given or os.environ.get(STORE_VARIABLE) or "runs").expanduser()


class RunStore:
    """A folder of runs, or a packed file of runs, which is read-only.

    Args:
        path: the folder or packed file.
        create: create it if it does not exist.

    Raises:
        UserError: it does not exist, or is not a folder.
    """

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
        self.index_folder = self._index_folder()
        self._index = Index(self.path, self.index_folder)
        self._cache = SeriesCache()

    def runs(self) -> list[StoredRun]:
        """Returns every run, by experiment, environment, version and seed."""
        return sorted(
            self._index.runs(), key=lambda run: (run.experiment, run.env_id, run.version, run.seed or 0, run.run_id)
        )

    def metric_names(self, runs: Sequence[StoredRun]) -> dict[str, int]:
        """Returns the metrics of runs, each with the number of runs that have it."""
        counted: Counter[str] = Counter()
        for reader in self._readers(runs).values():
            counted.update(reader.names())
        return dict(sorted(counted.items()))

    def notes(self, run: StoredRun) -> list[str]:
        """Returns the remarks about the files of a run: damage and omitted files."""
        return self._reader(run).notes()

    def curve(self, run: StoredRun, metric: str | None = None) -> Series | None:
        """Reads one metric of a run.

        Args:
            metric: its name; None stands for the training return.

        Returns:
            The curve, or None if the run does not have the metric.
        """
        return _curve(self._reader(run), metric)

    def curves(self, runs: Sequence[StoredRun], metric: str | None = None) -> dict[str, Series]:
        """Reads one metric of many runs, by ``run_id``; runs without it are absent.

        Args:
            metric: as for ``curve``.
        """
        readers = self._readers(runs)
        found = {run_id: _curve(reader, metric) for run_id, reader in readers.items()}
        return {run_id: curve for run_id, curve in found.items() if curve is not None}

    def _reader(self, run: StoredRun) -> _RunReader:
        return _RunReader(run, self._cache)

    def _readers(self, runs: Sequence[StoredRun]) -> dict[str, _RunReader]:
        """Returns readers of runs; many files that are missing in the cache are read by several processes."""
        readers = {run.run_id: self._reader(run) for run in runs}
        stale = [run for run in runs if not readers[run.run_id].is_cached()]
        workers = min(usable_processors(), len(stale) // _FEW)
        if workers > 1:
            fill = functools.partial(_fill, folder=self._cache.folder)
            with worker_pool(workers) as pool:
                # The list is needed: map raises the errors of workers only when its results are read.
                list(pool.map(fill, stale, chunksize=max(1, min(16, len(stale) // (4 * workers)))))
        return readers

    def _index_folder(self) -> Path:
        if os.access(self.path, os.W_OK):
            return self.path / ".index"
        return assets.cache_dir() / "rlops" / hashlib.sha256(str(self.path).encode()).hexdigest()[:16]


class _RunReader:
    """Reads the series of one run, from the bundles of all its modes."""

    def __init__(self, run: StoredRun, cache: SeriesCache) -> None:
        self._run = run
        self._modes: dict[str, SeriesReader] = {}
        for mode in run.modes:
            files = files_of(run.path / mode)
            listed = run.logs.get(mode)
            logs = find_logs(files) if listed is None else given_logs(files, listed)
            if listed is None and mode in ROLLOUT_MODES:
                logs.found |= given_logs(files, [layout.ROLLOUTS]).found
            self._modes[mode] = SeriesReader(logs, cache, mode)

    def is_cached(self) -> bool:
        return all(reader.is_cached() for reader in self._modes.values())

    def fill(self) -> None:
        for reader in self._modes.values():
            reader.open_all()

    def notes(self) -> list[str]:
        self.fill()
        return [f"{mode}/{note}" for mode, reader in self._modes.items() for note in reader.notes]

    def names(self) -> set[str]:
        return {name for reader in self._modes.values() for kind in LogKind for name in reader.names(kind)}

    def series(self, metric: str) -> Series | None:
        readers = self._modes.values()
        found = (reader.series(metric, kind) for kind in LogKind for reader in readers)
        return next((series for series in found if series is not None), None)

    def returns(self) -> Series | None:
        readers = self._modes.values()
        found = (reader.returns((kind,)) for kind in LogKind for reader in readers)
        return next((series for series in found if series is not None), None) or self.series(EVALUATED_RETURN)


def _fill(run: StoredRun, folder: Path) -> None:
    _RunReader(run, SeriesCache(folder)).fill()


def _curve(reader: _RunReader, metric: str | None) -> Series | None:
    series = reader.returns() if metric is None else reader.series(metric)
    if series is None:
        return None
    # copies: a view would keep the whole array that was read in memory
    return Series(series.name, series.source, series.steps.copy(), series.values.copy(), series.elapsed_s())
