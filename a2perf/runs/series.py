"""Series of a run: the reader of learning curves and other values over steps, for all kinds of log files.

Scores, reports and verdicts read the same points, by these rules:

* A metric keeps the name that its writer gave it. If several kinds of files hold it, the first in the order of
  ``LogKind`` counts. The return is the metric with the first name of ``RETURN_TAGS`` in the first kind that has any.
* If a restart wrote a step again, the earlier point is discarded (``kept_points``). Event files of one folder that
  follow one another in time are sessions of one writer.
* The rows of a Monitor file behind a restart of its clock are another session of the run.
* Values that several writers logged for the same step are averaged, as in the earlier platform. The curves of one
  ``add_scalars`` are separate metrics.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from a2perf.errors import UserError
from a2perf.runs.bundles.files import FileStatus
from a2perf.runs.bundles.tables import is_absent
from a2perf.runs.events.log_files import LogFiles, LogKind, child_name, is_hparams_folder, reader_of
from a2perf.runs.events.series_cache import CachedLog, Columns, SeriesCache
from a2perf.stranger_files import StrangerFileError

RETURN_TAGS = (
    "Metrics/AverageReturn",
    "rollout/ep_rew_mean",
    "eval/mean_reward",
    "charts/episodic_return",
    "return",
    "mean_return",
    "episode_return",
    "average_return",
    "return_mean",
    "AverageReturn",
    "reward",
    "value",
    "r",
)
EVALUATED_RETURN = "inference/episode_return"
"""The evaluator's measurement; it is the return of a run that logged none."""
STEP_COLUMNS = (
    "env_steps",
    "total_env_steps",
    "environment_steps",
    "time/total_timesteps",
    "total_timesteps",
    "timesteps",
    "total_steps",
    "steps",
    "step",
    "iteration",
)
TIME_COLUMNS = ("time/time_elapsed", "time_elapsed", "elapsed_s", "wall_s", "wall_time", "time_s", "seconds")
FINAL_VALUES = 100
"""The final return of a training run is the mean of so many last values of its curve."""
MAX_EVENT_BYTES = 2 << 30
MAX_EVENT_BYTES_OF_RUN = 8 << 30
MAX_POINTS_OF_RUN = 20_000_000

Values = NDArray[np.float64]
_ALL = tuple(LogKind)
_TABLES = (LogKind.PROGRESS, LogKind.TABLE)


@dataclass(frozen=True)
class Series:
    """One metric of one run.

    Attributes:
        steps: float64, shape ``(n,)``, not decreasing; the same step may repeat.
        values: float64, shape ``(n,)``; may hold NaN.
        times_s: float64, shape ``(n,)``: when each value was logged by the writer's clock, in seconds; None if the
            files do not contain it.
        times_since: ``"epoch"`` or ``"start"`` of the run.
        began_s: for ``"epoch"``, when the run logged its first value.
        restarts: for each restart, the step before it and the step at which it resumed.
    """

    name: str
    source: str
    steps: Values
    values: Values
    times_s: Values | None = None
    times_since: Literal["epoch", "start"] = "start"
    began_s: float = 0.0
    restarts: tuple[tuple[float, float], ...] = ()
    notes: tuple[str, ...] = ()

    def elapsed_s(self) -> Values:
        """Returns the times since the run logged its first value; NaN where unknown."""
        if self.times_s is None:
            return np.full(self.steps.size, np.nan)
        return self.times_s - self.began_s if self.times_since == "epoch" else self.times_s


def kept_points(
    steps: Values, sessions: Sequence[int] = ()
) -> tuple[NDArray[np.bool_], tuple[tuple[float, float], ...]]:
    """Returns which points of one writer count, and its restarts: the step before each and the step after it.

    A point is discarded when a later restart began at its step or before.

    Args:
        sessions: places at which another session of the writer begins.
    """
    back = steps[1:] < steps[:-1]
    for place in sessions:
        if 0 < place < steps.size:
            # A step may repeat within a session; at the start of another session a repeated step is a restart.
            back[place - 1] |= steps[place] == steps[place - 1]
    starts = np.flatnonzero(back) + 1
    if not starts.size:
        return np.ones(steps.size, bool), ()
    # From the end: any later restart discards a point, not only the next one.
    landing = np.minimum.accumulate(steps[starts][::-1])[::-1]
    earliest = np.full(steps.size, np.inf)
    segment = np.searchsorted(starts, np.arange(steps.size), side="right")
    later = segment < starts.size
    earliest[later] = landing[segment[later]]
    return steps < earliest, tuple(zip(steps[starts - 1].tolist(), steps[starts].tolist(), strict=True))


def restart_note(discarded: int, restarts: int) -> str:
    """Returns the sentence about points that restarts discarded."""
    return f"the step counter went back {restarts} time(s); {discarded} points from before a restart are left out"


class SeriesReader:
    """Reads the series of one bundle; each file is opened when it is first needed.

    Args:
        cache: of log files; None reads them directly.
        held: files that were read already, by path.
    """

    def __init__(
        self, logs: LogFiles, cache: SeriesCache | None = None, held: Mapping[str, CachedLog] = MappingProxyType({})
    ) -> None:
        self.notes = list(logs.notes)
        self._logs = logs
        self._cache = cache
        self._fresh: dict[str, CachedLog] = dict(held)
        self._opened: dict[LogKind, list[tuple[FileStatus, CachedLog]]] = {}

    def is_cached(self) -> bool:
        """Returns whether the cache holds every file."""
        if self._cache is None:
            return False
        for held in self._logs.found.values():
            for status in held:
                log = self._cache.fresh(self._logs.files, status)
                if log is None:
                    return False
                self._fresh[status.path] = log
        return True

    def open_all(self) -> None:
        """Opens every file: brings the cache up to date and completes ``notes``."""
        for kind in self._logs.found:
            self._of(kind)

    def names(self, kind: LogKind) -> Collection[str]:
        """Returns the metrics that files of a kind hold."""
        logs = self._of(kind)
        if kind is LogKind.MONITOR:
            tables = [log.names for _, log in logs if _is_monitor(log)]
            first = tables[0] if tables else {}
            return [name for name in first if name != "t" and all(name in table for table in tables)]
        if kind is LogKind.EVENTS:
            return self._event_pieces()
        return dict.fromkeys(name for _, log in logs for name in self._metrics(kind, log))

    def series(self, name: str, kind: LogKind) -> Series | None:
        """Reads a metric from the files of a kind; None if they do not have it."""
        if name not in self.names(kind):
            return None
        if kind is LogKind.EVENTS:
            return self._event_series(name)
        if kind is LogKind.MONITOR:
            return self._monitor_series(name)
        held = [(status, log) for status, log in self._of(kind) if name in self._metrics(kind, log)]
        if kind not in _TABLES:
            return _of_one_writer(name, f"{kind}: {name}", *self._columns(kind, *held[0], name))
        paths = [status.path for status, _ in held]
        if len(paths) > 1:
            others = paths[1] if len(paths) == 2 else f"{len(paths) - 1} others such as {paths[1]}"
            note = f"{paths[0]} counts, {others} with the same column does not; log one training run to one file"
            self.notes += [note] if note not in self.notes else []
        return self._table_series(kind, *held[0], name)

    def returns(self, kinds: Collection[LogKind] = _ALL) -> Series | None:
        """Reads the return while training under the first of its usual names; None when none was logged."""
        for kind in LogKind:
            if kind in kinds and kind in self._logs.found:
                names = self.names(kind)
                found = next((tag for tag in RETURN_TAGS if tag in names), None)
                series = self.series(found, kind) if found is not None else None
                if series is not None:
                    return series
                if kind is LogKind.PROGRESS:
                    self.notes += [f"{status.path}: no column of returns" for status, _ in self._of(kind)]
        return None

    def _of(self, kind: LogKind) -> list[tuple[FileStatus, CachedLog]]:
        """Returns the opened files of a kind."""
        if kind in self._opened:
            return self._opened[kind]
        held = self._opened[kind] = []
        left = MAX_EVENT_BYTES_OF_RUN
        points = 0
        for status in self._logs.found.get(kind, ()):
            if kind is LogKind.EVENTS:
                if status.size > MAX_EVENT_BYTES:
                    self.notes.append(f"{status.path}: larger than {MAX_EVENT_BYTES >> 30} GiB; left out")
                    continue
                left -= status.size
                if left < 0:
                    bound = f"{MAX_EVENT_BYTES_OF_RUN >> 30} GiB"
                    self.notes.append(f"event files of more than {bound}; the rest was left out")
                    break
            log = self._open(kind, status)
            if log is None:
                continue
            held.append((status, log))
            if (points := points + sum(log.names.values())) > MAX_POINTS_OF_RUN:
                self.notes.append(f"logs of more than {MAX_POINTS_OF_RUN} values; the rest was left out")
                break
            if kind is not LogKind.TABLE or not log.names or self._metrics(kind, log):
                for offset, detail in log.problems:
                    self.notes.append(f"{status.path}: {f'byte {offset}: ' if offset >= 0 else ''}{detail}")
        return held

    def _open(self, kind: LogKind, status: FileStatus, *, again: bool = False) -> CachedLog | None:
        if status.path in self._fresh and not again:
            return self._fresh[status.path]
        files = self._logs.files
        reader = reader_of(files, status.path, kind)
        try:
            if self._cache is None or kind is LogKind.MLFLOW:  # its metrics are other files, which change by themselves
                return CachedLog.of(reader(), status)
            return self._cache.read(files, status, reader, again=again)
        except (StrangerFileError, UserError) as error:
            words = error.message.removeprefix(f"{status.path} ").removeprefix(f"{status.path}: ")
        except OSError as error:
            words = f"cannot be read: {error.strerror}"
        self.notes.append(f"{status.path}: {words}")
        return None

    def _columns(self, kind: LogKind, status: FileStatus, log: CachedLog, name: str) -> Columns:
        """Reads columns; if the cache file is damaged, reads the log file again."""
        found = log.read(name)
        if found is None:
            fresh = self._open(kind, status, again=True)
            found = fresh.read(name) if fresh is not None and name in fresh.names else None
        return np.empty((3, 0)) if found is None else found

    def _event_pieces(self) -> dict[str, list[tuple[FileStatus, CachedLog, str]]]:
        """Returns files and tag of each metric: curves of ``add_scalars`` have one tag and differ by their folder."""
        logs = self._of(LogKind.EVENTS)
        folders = {status.path.rpartition("/")[0] for status, _ in logs}
        found: dict[str, dict[str, list[tuple[FileStatus, CachedLog, str]]]] = {}
        for status, log in logs:
            folder = status.path.rpartition("/")[0]
            above, _, name = folder.rpartition("/")
            if is_hparams_folder(name) and above in folders:
                continue
            for tag in log.names:
                child = child_name(name, tag) if above in folders else None
                found.setdefault(tag, {}).setdefault(child or "", []).append((status, log, tag))
        pieces = {}
        for tag, curves in found.items():
            for child, files in curves.items():
                pieces[f"{tag}/{child}" if child and len(curves) > 1 else tag] = files
        return pieces

    def _event_series(self, name: str) -> Series:
        pieces: list[tuple[str, Columns]] = []
        began = min((log.began_s for _, log in self._of(LogKind.EVENTS) if log.began_s is not None), default=0.0)
        for status, log, tag in self._event_pieces()[name]:
            columns = self._columns(LogKind.EVENTS, status, log, tag)
            if np.any(np.diff(columns[2]) < 0):
                self.notes.append(f"{status.path}: the clock runs backwards in {tag}")
            pieces.append((status.path.rpartition("/")[0], columns))
        series = _of_writers(name, f"{LogKind.EVENTS}: {name}", pieces)
        return replace(series, times_since="epoch", began_s=float(began))

    def _metrics(self, kind: LogKind, log: CachedLog) -> Collection[str]:
        """Returns the metrics of a file; of a table all columns over the step column, or the returns by row."""
        names = log.names
        if kind not in _TABLES:
            return names
        step = next((name for name in STEP_COLUMNS if name in names), None)
        if step is not None:
            return [name for name in names if name != step]
        needs_no_steps = kind is LogKind.PROGRESS or self._logs.is_chosen
        return [name for name in RETURN_TAGS if name in names] if needs_no_steps else []

    def _table_series(self, kind: LogKind, status: FileStatus, log: CachedLog, name: str) -> Series | None:
        values = self._columns(kind, status, log, name)[0]
        step_name = next((column for column in STEP_COLUMNS if column in log.names), None)
        time_name = next((column for column in TIME_COLUMNS if column in log.names), None)
        steps = np.arange(1.0, values.size + 1.0)
        if step_name is not None:
            steps = self._columns(kind, status, log, step_name)[0]
        times = None if time_name is None else self._columns(kind, status, log, time_name)[0]
        if steps.size != values.size or (times is not None and times.size != values.size):
            return None  # the file was replaced while it was read
        # an empty cell means that the metric was not logged in that row, a NaN that the run had failed
        logged = ~np.isnan(steps) & ~is_absent(values)
        if not logged.any():
            return None
        return _of_one_writer(
            name, f"{kind}: {name}", steps[logged], values[logged], None if times is None else times[logged]
        )

    def _monitor_series(self, name: str) -> Series:
        """Joins Monitor files: a column over the summed steps of all environments, in order of time.

        A resumed run appends to its files, and their clock begins again at 0: another session of the run.
        """
        held = [(status, log) for status, log in self._of(LogKind.MONITOR) if _is_monitor(log)]
        columns = []
        for status, log in held:
            table = [self._columns(LogKind.MONITOR, status, log, column)[0] for column in (name, "l", "t")]
            if len({column.size for column in table}) > 1:
                continue
            back = np.diff(table[2], prepend=table[2][:1]) < 0
            if back.sum() > max(5, back.size / 4):  # processes wrote it at the same time, each with its own clock
                table[2], back = np.maximum.accumulate(table[2]), np.zeros_like(back)
            if back.any():
                self.notes.append(f"{status.path}: the run was resumed {int(back.sum())} time(s)")
            columns.append([*table, np.cumsum(back)])
        values, lengths, times, sessions = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        order = np.lexsort((times, sessions))
        steps = np.cumsum(lengths[order], dtype=np.float64)
        ends = np.zeros(int(sessions.max(initial=0)) + 1)
        np.maximum.at(ends, sessions, times)
        elapsed = (times + (np.cumsum(ends) - ends)[sessions])[order]
        return Series(name, f"{LogKind.MONITOR}: {name}", steps, values[order], elapsed)


def read_returns(reader: SeriesReader) -> tuple[Series | None, list[str]]:
    """Reads the return of a training run, and the remarks about it and its files."""
    series = reader.returns()
    if series is None:
        return None, reader.notes
    unknown = int(np.count_nonzero(~np.isfinite(series.values)))
    unknown_note = [f"{unknown} value(s) of the curve are not finite"] if unknown else []
    return series, [*reader.notes, *series.notes, *unknown_note]


def _is_monitor(log: CachedLog) -> bool:
    return all(name in log.names for name in "rlt")


def _of_one_writer(
    name: str, source: str, steps: Values, values: Values, times: Values | None, sessions: Sequence[int] = ()
) -> Series:
    kept, restarts = kept_points(steps, sessions)
    if not restarts:
        return Series(name, source, steps, values, times)
    note = restart_note(steps.size - int(np.count_nonzero(kept)), len(restarts))
    kept_times = None if times is None else times[kept]
    return Series(name, source, steps[kept], values[kept], kept_times, restarts=restarts, notes=(note,))


def _of_writers(name: str, source: str, pieces: Sequence[tuple[str, Columns]]) -> Series:
    """Joins the files of several writers; files of one folder that follow one another in time have one writer."""
    writers: list[list[Columns]] = []
    ended: dict[str, list[tuple[float, int]]] = {}  # by folder: a heap with the time of each writer's last value
    for folder, columns in sorted(pieces, key=lambda piece: _span(piece[1])[0]) if len(pieces) > 1 else pieces:
        first, last = _span(columns)
        known = ended.setdefault(folder, [])
        if known and known[0][0] < first:
            _, place = heapq.heappop(known)
            writers[place].append(columns)
        else:
            place = len(writers)
            writers.append([columns])
        heapq.heappush(known, (last, place))
    parts = []
    for files in writers:
        steps, values, times = files[0] if len(files) == 1 else np.concatenate(files, axis=1)
        begins = np.cumsum([columns.shape[1] for columns in files[:-1]], dtype=int).tolist()
        parts.append(_of_one_writer(name, source, steps, values, times, begins))
    if len(parts) == 1:
        return parts[0]
    steps = np.concatenate([part.steps for part in parts])
    distinct, inverse, counts = np.unique(steps, return_inverse=True, return_counts=True)
    # the mean of a step counts from the time at which the last of its writers logged it
    times = np.full(distinct.size, -np.inf)
    # Not indexed assignment, which would keep only one of the writers of a step.
    np.maximum.at(times, inverse, np.concatenate([part.elapsed_s() for part in parts]))
    values = np.bincount(inverse, weights=np.concatenate([part.values for part in parts])) / counts
    restarts = tuple(restart for part in parts for restart in part.restarts)
    notes = tuple(note for part in parts for note in part.notes)
    return Series(name, source, distinct, values, times, restarts=restarts, notes=notes)


def _span(columns: Columns) -> tuple[float, float]:
    """Returns when a file's first and last value were logged."""
    times = columns[2]
    return (float(times.min()), float(times.max())) if times.size else (np.inf, -np.inf)
