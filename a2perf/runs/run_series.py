"""Everything that a run logged as numbers over steps: event files, tables, Monitor files, tracker logs, rollouts.

The files are the run's own, below the ``artifacts`` of its bundles. A metric keeps the name that its writer gave it;
where two kinds of file hold the same name, event files come first, then tracker logs, then tables.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from a2perf.errors import UserError
from a2perf.records import RolloutResults
from a2perf.runs.event_files import ScalarSeries, read_event_file
from a2perf.runs.recorded_curves import (
    BOUNDS,
    MAX_EVENT_BYTES,
    MAX_EVENT_BYTES_OF_RUN,
    MAX_FILES,
    STEP_COLUMNS,
    TIME_COLUMNS,
    averaged,
    kind_of,
)
from a2perf.runs.tables import Table, read_table
from a2perf.runs.run_record import MODES
from a2perf.runs.wandb_log import read_wandb_log
from a2perf.storage import read_record
from a2perf.stranger_files import BoundExceeded, folders

Column = NDArray[np.float64]
_ENDINGS = (".csv", ".wandb")
ROLLOUT_MODES = ("inference", "generalization")


@dataclass(frozen=True)
class Series:
    """One metric of one run.

    Attributes:
        steps: float64, shape ``(n,)``, in the order of the file; may go back after a restart.
        values: float64, shape ``(n,)``; may hold NaN.
        times: float64, shape ``(n,)``: seconds since the first value that the run logged, NaN where unknown.
    """

    steps: Column
    values: Column
    times: Column


@dataclass
class LoggedRun:
    """What a run logged.

    Attributes:
        series: by metric.
        notes: what a reader should know, in words.
    """

    series: dict[str, Series]
    notes: list[str]


def sources(run: Path) -> list[Path]:
    """Returns the files of a run that may hold series, in a stable order; symbolic links are left out.

    A folder among them is one with more names than are looked at; of its files some are missing.
    """
    found: list[Path] = []
    for mode in MODES:
        found += _below(run / mode / "artifacts")
        if mode in ROLLOUT_MODES:
            results = run / mode / "metrics" / "rollouts.json"
            if results.is_file() and not results.is_symlink():
                found.append(results)
    return found


def fingerprint(files: list[Path]) -> str:
    """Returns a hash of names, sizes and modification times; no content is read."""
    digest = hashlib.sha256()
    for path in files:
        try:
            status = path.stat()
        except OSError:  # the run goes on and its writer took the file away
            continue
        digest.update(f"{path}\0{status.st_size} {status.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def read_series(run: Path, files: list[Path] | None = None) -> LoggedRun:
    """Reads every series of a run; damage becomes a note."""
    result = LoggedRun({}, [])
    files = sources(run) if files is None else files
    result.notes += [f"{path.relative_to(run)}: too many files; some were left out" for path in files if path.is_dir()]
    if len(files) > MAX_FILES:
        result.notes.append(f"more than {MAX_FILES} files; the rest was left out")
        files = files[:MAX_FILES]
    events = [path for path in files if kind_of(path.name) == "events"]
    found: list[dict[str, Series]] = [_of_events(events, run, result.notes)]
    for path in files:
        if path.name.endswith(".wandb"):
            log = read_wandb_log(path)
            result.notes += [f"{path.relative_to(run)}: {problem}" for problem in log.problems]
            found.append({name: Series(*columns) for name, columns in log.series().items()})
    for path in files:
        if kind_of(path.name) != "monitors" and path.suffix == ".csv":
            found.append(_of_table(read_table(path), path.relative_to(run), result.notes))
        elif path.name == "rollouts.json":
            found.append(_of_rollouts(path, result.notes))
    found.append(_of_monitors([path for path in files if kind_of(path.name) == "monitors"], run, result.notes))
    for part in found:
        for name, series in part.items():
            result.series.setdefault(name, series)
    return result


def _below(top: Path) -> list[Path]:
    found: list[Path] = []
    try:
        for folder, _, names in folders(top, BOUNDS):
            paths = [os.path.join(folder, name) for name in names if "tfevents" in name or name.endswith(_ENDINGS)]
            found += [Path(path) for path in paths if _is_regular(path)]
    except BoundExceeded:
        found.append(top)
    return sorted(found)


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _of_events(files: list[Path], run: Path, notes: list[str]) -> dict[str, Series]:
    pieces: dict[str, list[ScalarSeries]] = {}
    remaining = MAX_EVENT_BYTES_OF_RUN
    for path in files:
        name, size = path.relative_to(run), path.stat().st_size
        if size > min(MAX_EVENT_BYTES, remaining):
            bounds = f"{MAX_EVENT_BYTES >> 30} GiB, or the files of the run than {MAX_EVENT_BYTES_OF_RUN >> 30} GiB"
            notes.append(f"{name}: larger than {bounds}; left out")
            continue
        remaining -= size
        found = read_event_file(path)
        notes += [f"{name}: byte {problem.offset}: {problem.detail}" for problem in found.problems]
        for tag, points in found.scalars.items():
            pieces.setdefault(tag, []).append(points)
    logged = {tag: averaged(points) for tag, points in pieces.items()}
    began = min((float(times.min()) for _, _, times in logged.values() if times.size), default=0.0)
    return {tag: Series(steps, values, times - began) for tag, (steps, values, times) in logged.items()}


def _of_table(table: Table, name: Path, notes: list[str]) -> dict[str, Series]:
    """Reads a table with a column of steps; one without is something else, such as a table of emissions."""
    step_name = next((column for column in STEP_COLUMNS if table.numbers(column) is not None), None)
    if step_name is None or not table.rows:
        if not table.columns:  # nothing of it could be read
            notes += [f"{name}: {condition}" for condition in table.conditions]
        return {}
    notes += [f"{name}: {condition}" for condition in table.conditions]
    steps = np.asarray(table.columns[step_name], np.float64)
    time_name = next((column for column in TIME_COLUMNS if table.numbers(column) is not None), None)
    times = np.full(table.rows, np.nan) if time_name is None else np.asarray(table.columns[time_name], np.float64)
    found = {}
    for column in table.columns:
        values = table.numbers(column)
        if values is None or column == step_name:
            continue
        # an empty cell says that nothing was logged at that row
        logged = ~np.isnan(steps) & ~np.isnan(values)
        if logged.any():
            found[column] = Series(steps[logged], values[logged], times[logged])
    return found


def _of_monitors(files: list[Path], run: Path, notes: list[str]) -> dict[str, Series]:
    """Joins Monitor files: every column over the steps of all environments together, in order of time."""
    tables = []
    for path in files:
        table = read_table(path, skip_comments=True, needs=("r", "l", "t"))
        notes += [f"{path.relative_to(run)}: {condition}" for condition in table.conditions]
        if table.rows and all(table.numbers(name) is not None for name in "rlt"):
            tables.append(table)
    if not tables:
        return {}
    lengths, times = (
        np.concatenate([np.asarray(table.columns[name], np.float64) for table in tables]) for name in "lt"
    )
    order = np.argsort(times, kind="stable")
    steps = np.cumsum(lengths[order], dtype=np.float64)
    found = {}
    shared = [name for name in tables[0].columns if all(table.numbers(name) is not None for table in tables)]
    for name in shared:
        if name != "t":
            values = np.concatenate([np.asarray(table.columns[name], np.float64) for table in tables])[order]
            found[name] = Series(steps, values, times[order])
    return found


def _of_rollouts(path: Path, notes: list[str]) -> dict[str, Series]:
    """The evaluator's own measurements: the return of each episode, over the number of the episode."""
    try:
        results = read_record(path, RolloutResults)
    except UserError as error:
        notes.append(error.message)
        return {}
    if not results.episodes:
        return {}
    mode = path.parents[1].name
    count = np.arange(1.0, len(results.episodes) + 1)
    times = np.cumsum([episode.wall_s for episode in results.episodes])
    found = {
        f"{mode}/episode_return": [episode.episode_return for episode in results.episodes],
        f"{mode}/episode_length": [float(episode.length) for episode in results.episodes],
    }
    if all(episode.success is not None for episode in results.episodes):
        found[f"{mode}/success"] = [float(bool(episode.success)) for episode in results.episodes]
    return {name: Series(count, np.array(values, np.float64), times) for name, values in found.items()}
