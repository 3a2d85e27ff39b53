"""Training curves out of what a training left behind: event files, ``progress.csv``, ``monitor.csv``, plain CSV.

A run has one curve. Where a training logged in several ways the first of these is taken: event files, a progress table,
Monitor files. Values that several collectors logged for the same step are averaged, as in the earlier platform.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from a2perf.runs.event_cache import EventCache
from a2perf.runs.event_files import ScalarSeries
from a2perf.runs.tables import Table, read_table
from a2perf.stranger_files import Bounds, Kind, StrangerFileError, walk

RETURN_TAGS = (
    "Metrics/AverageReturn", "rollout/ep_rew_mean", "eval/mean_reward", "charts/episodic_return",
    "return", "mean_return", "episode_return", "average_return", "return_mean", "AverageReturn", "reward", "value", "r",
)  # fmt: skip
STEP_COLUMNS = (
    "env_steps", "total_env_steps", "environment_steps", "time/total_timesteps", "total_timesteps", "timesteps",
    "total_steps", "steps", "step", "iteration",
)  # fmt: skip
TIME_COLUMNS = ("time/time_elapsed", "time_elapsed", "elapsed_s", "wall_s", "wall_time", "time_s", "seconds")
# Participants write these files: reading them must take neither all memory nor hours.
MAX_EVENT_BYTES = 2 << 30
MAX_EVENT_BYTES_OF_RUN = 8 << 30
MAX_FILES = 10_000
MAX_MONITOR_ROWS = 20_000_000
BOUNDS = Bounds(entries=1_000_000)
_MOST_NAMED = 100


@dataclass
class Curve:
    """Returns while training, as the participant logged them; not measured by the evaluator.

    Attributes:
        source: the tag or column, and the kind of file.
        steps: float64, shape ``(n,)``, in the order of the file; may go back after a restart.
        values: float64, shape ``(n,)``.
        times_s: float64, shape ``(n,)``: when each value was logged, by the participant's clock, in seconds; None where
            the files do not say. Since the epoch or since the start of the training: ``times_since`` says which.
        times_since: ``"epoch"`` or ``"start"``.
    """

    source: str
    steps: NDArray[np.float64]
    values: NDArray[np.float64]
    times_s: NDArray[np.float64] | None = None
    times_since: Literal["epoch", "start"] = "epoch"


@dataclass
class CurveFiles:
    """The files below a folder that may hold curves, as regular files only.

    Attributes:
        events: TensorBoard event files.
        progress: tables with one row an iteration.
        monitors: Monitor files of Stable-Baselines3, one row an episode.
        links: symbolic links, which are not followed, and what else is not a regular file.
        problems: what could not be looked at, in words.
    """

    events: list[Path] = field(default_factory=list)
    progress: list[Path] = field(default_factory=list)
    monitors: list[Path] = field(default_factory=list)
    links: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def all(self) -> list[Path]:
        """Returns every file in a stable order."""
        return [*self.events, *self.progress, *self.monitors]


def find_curve_files(top: Path) -> CurveFiles:
    """Finds the files in a folder and below it; symbolic links are listed, not followed."""
    found = CurveFiles()
    if not top.is_dir():
        return found
    try:
        for entry in walk(top.resolve(), BOUNDS, on_error=lambda error: found.problems.append(error.message)):
            path, kind = top / entry.path, kind_of(entry.name)
            if entry.kind is Kind.FILE and kind is not None:
                if len(found.all()) == MAX_FILES:
                    found.problems.append(f"more than {MAX_FILES} files of curves; the rest was left out")
                    break
                getattr(found, kind).append(path)
            elif entry.kind is not Kind.FOLDER and (kind is not None or (entry.kind is Kind.LINK and path.is_dir())):
                found.links.append(path)
    except StrangerFileError as error:
        found.problems.append(error.message)
    return found


def kind_of(name: str) -> str | None:
    """Returns which list of ``CurveFiles`` a file's name puts it into."""
    if "tfevents" in name:
        return "events"
    if name == "progress.csv":
        return "progress"
    return "monitors" if name.endswith("monitor.csv") else None


def read_curve(files: CurveFiles, root: Path, cache: EventCache | None) -> tuple[Curve | None, list[str]]:
    """Reads the curve of a run.

    Args:
        files: where it may lie.
        root: folder that paths in conditions are relative to.
        cache: of event files, or None to read them directly.

    Returns:
        The curve, or None when no file holds returns; and what a reader should know.
    """
    conditions = [
        f"{_name(path, root)}: {'symbolic link, not followed' if path.is_symlink() else 'not a regular file, not read'}"
        for path in files.links[:_MOST_NAMED]
    ]
    conditions += files.problems[:_MOST_NAMED]
    for read in (_of_events, _of_progress, _of_monitors):
        curve = read(files, root, cache, conditions)
        if curve is not None:
            unknown = np.count_nonzero(~np.isfinite(curve.values))
            if unknown:
                conditions.append(f"{unknown} value(s) of the curve are not finite")
            return curve, conditions
    return None, conditions


def curve_of_table(table: Table, kind: str) -> Curve | None:
    """Returns the curve of a table with a column of steps and one of returns, or None."""
    value_name = next((name for name in RETURN_TAGS if _known(table, name)), None)
    step_name = next((name for name in STEP_COLUMNS if _known(table, name)), None)
    if value_name is None:
        return None
    values = table.numbers(value_name)
    assert values is not None
    steps = table.numbers(step_name) if step_name is not None else np.arange(1.0, table.rows + 1.0)
    assert steps is not None
    # an empty cell says that nothing was logged at that row
    logged = ~np.isnan(steps) & ~np.isnan(values)
    time_name = next((name for name in TIME_COLUMNS if _known(table, name)), None)
    times = table.numbers(time_name) if time_name is not None else None
    return Curve(
        f"{kind}: {value_name}", steps[logged], values[logged], None if times is None else times[logged], "start"
    )


def _of_events(files: CurveFiles, root: Path, cache: EventCache | None, conditions: list[str]) -> Curve | None:
    from a2perf.runs.event_files import read_event_file

    series: dict[str, list[ScalarSeries]] = {}
    left = MAX_EVENT_BYTES_OF_RUN
    for path in files.events:
        size = path.lstat().st_size
        if size > MAX_EVENT_BYTES:
            conditions.append(f"{_name(path, root)}: larger than {MAX_EVENT_BYTES >> 30} GiB; left out")
            continue
        left -= size
        if left < 0:
            conditions.append(f"event files of more than {MAX_EVENT_BYTES_OF_RUN >> 30} GiB; the rest was left out")
            break
        found = cache.read(path, RETURN_TAGS) if cache is not None else read_event_file(path, RETURN_TAGS)
        name = _name(path, root)
        conditions += [f"{name}: byte {problem.offset}: {problem.detail}" for problem in found.problems]
        for tag, points in found.scalars.items():
            if np.any(np.diff(points.wall_times) < 0):
                conditions.append(f"{name}: the clock runs backwards in {tag}")
            series.setdefault(tag, []).append(points)
    wanted = next((tag for tag in RETURN_TAGS if tag in series), None)
    if wanted is None:
        return None
    return Curve(f"event files: {wanted}", *averaged(series[wanted]))


def averaged(pieces: Sequence[ScalarSeries]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Joins what several writers logged; a single writer's points stay in their order, restarts included."""
    if len(pieces) == 1:
        return pieces[0].steps.astype(np.float64), pieces[0].values, pieces[0].wall_times
    steps = np.concatenate([piece.steps for piece in pieces])
    values = np.concatenate([piece.values for piece in pieces])
    distinct, inverse, counts = np.unique(steps, return_inverse=True, return_counts=True)
    # the mean of a step is known when the last of its writers has logged it
    times = np.full(distinct.size, -np.inf)
    np.maximum.at(times, inverse, np.concatenate([piece.wall_times for piece in pieces]))
    return distinct.astype(np.float64), np.bincount(inverse, weights=values) / counts, times


def _of_progress(files: CurveFiles, root: Path, cache: EventCache | None, conditions: list[str]) -> Curve | None:
    for path in files.progress:
        table = read_table(path)
        curve = curve_of_table(table, "progress.csv")
        conditions += [f"{_name(path, root)}: {condition}" for condition in table.conditions]
        if curve is not None:
            return curve
        conditions.append(f"{_name(path, root)}: no column of returns")
    return None


def _of_monitors(files: CurveFiles, root: Path, cache: EventCache | None, conditions: list[str]) -> Curve | None:
    """Joins Monitor files: episode returns over the steps of all environments together, in order of time."""
    tables = []
    for path in files.monitors:
        table = read_table(path, skip_comments=True, needs=("r", "l", "t"))
        conditions += [f"{_name(path, root)}: {condition}" for condition in table.conditions]
        if all(table.numbers(name) is not None for name in ("r", "l", "t")) and table.rows:
            if np.any(np.diff(table.columns["t"]) < 0):
                conditions.append(f"{_name(path, root)}: the clock runs backwards")
            tables.append(table)
            if sum(known.rows for known in tables) > MAX_MONITOR_ROWS:
                conditions.append(f"Monitor files of more than {MAX_MONITOR_ROWS} rows; the rest was left out")
                break
    if not tables:
        return None
    returns, lengths, times = (np.concatenate([np.asarray(table.columns[name]) for table in tables]) for name in "rlt")
    order = np.argsort(times, kind="stable")
    steps = np.cumsum(lengths[order]).astype(np.float64)
    return Curve("monitor.csv: r", steps, returns[order].astype(np.float64), times[order].astype(np.float64), "start")


def _known(table: Table, name: str) -> bool:
    values = table.numbers(name)
    return values is not None and not bool(np.isnan(values).all())


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
