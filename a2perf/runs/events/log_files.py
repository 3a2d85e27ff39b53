"""The files of a run that may hold series: finding them and reading one into columns.

Event files, ``progress.csv``, Monitor files and evaluations of Stable-Baselines3, files of Weights & Biases and MLflow,
other tables, and the evaluator's rollouts. Participants write most of them, so reading is bounded in memory and time.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import numpy as np

from a2perf.records import RolloutResults
from a2perf.runs.bundles import layout
from a2perf.runs.bundles.files import BundleFiles, FileStatus, files_of, folders_of
from a2perf.runs.bundles.tables import table_of
from a2perf.runs.events import evaluation_files, mlflow_files, wandb_files
from a2perf.runs.events.event_files import read_event_stream
from a2perf.runs.events.series_cache import Columns, LogContent, Reader
from a2perf.storage import MAX_RECORD_BYTES, parse_record
from a2perf.stranger_files import Bounds, Kind, StrangerFileError

_HPARAMS = re.compile(r"\d{9,11}\.\d+")
_PEEK_BYTES = 256 << 10

MAX_FILES = 10_000
WANDB_HINT = "give the .wandb file, or write the rows of wandb.Api().run(...).scan_history() to history.jsonl"
BOUNDS = Bounds(entries=1_000_000)
_MOST_NAMED = 100


class LogKind(StrEnum):
    """Kinds of files that hold series, in order of precedence."""

    EVENTS = "event files"
    PROGRESS = "progress.csv"
    MONITOR = "monitor.csv"
    WANDB = "Weights & Biases"
    MLFLOW = "MLflow"
    EVALUATIONS = "evaluations.npz"
    TABLE = "CSV file"
    ROLLOUTS = "rollouts"


TRAINER_KINDS = (LogKind.EVENTS, LogKind.PROGRESS, LogKind.MONITOR, LogKind.WANDB, LogKind.MLFLOW, LogKind.EVALUATIONS)
"""Kinds that are recognised as a trainer's log by the file name alone."""


NAMES_OF_LOGS = (
    "events.out.tfevents.*",
    "progress.csv",
    "monitor.csv",
    "run-ID.wandb",
    wandb_files.HISTORY,
    mlflow_files.NAME,
    evaluation_files.NAME,
)
"""The files that are recognised in a folder, for people."""


def log_kind(name: str) -> LogKind | None:
    """Returns the kind of a file by its name; None if it holds no series."""
    if "tfevents" in name:
        return LogKind.EVENTS
    if name == "progress.csv":
        return LogKind.PROGRESS
    if name.endswith("monitor.csv"):
        return LogKind.MONITOR
    if name.endswith((wandb_files.SUFFIX, wandb_files.HISTORY)):
        return LogKind.WANDB
    if name == mlflow_files.NAME:
        return LogKind.MLFLOW
    if name.endswith(evaluation_files.NAME):
        return LogKind.EVALUATIONS
    return LogKind.TABLE if name.endswith(".csv") else None


def is_trainer_log(name: str) -> bool:
    """Returns whether a file's name identifies it as a trainer's log."""
    return log_kind(name) in TRAINER_KINDS


@dataclass
class LogFiles:
    """The log files of one bundle.

    Attributes:
        found: the status of each file by kind, sorted by name.
        notes: files that were not read, with the reason.
        is_chosen: whether the user named the files; a table then needs no column of steps.
    """

    files: BundleFiles
    found: dict[LogKind, list[FileStatus]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    is_chosen: bool = False

    def add(self, status: FileStatus, kind: LogKind) -> None:
        """Adds a file."""
        self.found.setdefault(kind, []).append(status)

    def __len__(self) -> int:
        return sum(map(len, self.found.values()))


def find_logs(
    files: BundleFiles,
    below: str = layout.ARTIFACTS,
    *,
    kinds: Collection[LogKind] = tuple(LogKind),
    is_listed: Callable[[str], bool] = lambda name: True,
) -> LogFiles:
    """Finds the log files in and below a folder; links are noted, not followed.

    Args:
        below: the folder; ``""`` for all of the run.
        is_listed: whether a file may be read.
    """
    result = LogFiles(files)
    links: list[str] = []
    problems: list[str] = []
    try:
        for entry in files.entries(below, BOUNDS, on_error=lambda error: problems.append(error.message)):
            status = entry.status
            if status.kind is Kind.FOLDER:
                continue
            kind = log_kind(status.name)
            kind = kind if kind in kinds else None
            if status.kind is Kind.FILE:
                if kind is None or not is_listed(status.path):
                    continue
                if len(result) == MAX_FILES:
                    problems.append(f"more than {MAX_FILES} files of curves; the rest was left out")
                    break
                result.add(status, kind)
            elif status.kind is Kind.LINK and (kind is not None or (files.path / status.path).is_dir()):
                links.append(f"{status.path}: symbolic link, not followed")
            elif kind is not None:
                links.append(f"{status.path}: not a regular file, not read")
    except StrangerFileError as error:
        problems.append(error.message)
    result.notes = links[:_MOST_NAMED] + problems[:_MOST_NAMED]
    return result


def given_logs(files: BundleFiles, names: Sequence[str]) -> LogFiles:
    """Returns the log files with the given names; skips names that are missing or not regular files."""
    result = LogFiles(files)
    for name in names:
        status = files.status(name)
        kind = LogKind.ROLLOUTS if name == layout.ROLLOUTS else log_kind(name.rpartition("/")[2])
        if status is not None and status.path == name and status.kind is Kind.FILE and kind is not None:
            result.add(status, kind)
    return result


def reader_of(files: BundleFiles, name: str, kind: LogKind) -> Reader:
    """Returns the function that reads one log file into columns.

    Event files, rollouts and files of Weights & Biases give steps, values and times by metric. Tables give one column
    per name, without columns that hold no number.
    """

    def events() -> LogContent:
        with files.open(name) as stream:
            found = read_event_stream(stream)
        columns: dict[str, Columns] = {tag: np.stack(points) for tag, points in found.scalars.items()}
        return LogContent(columns, [problem[1:] for problem in found.problems])

    def table() -> LogContent:
        monitor = kind is LogKind.MONITOR
        found = table_of(files, name, skip_comments=monitor, needs=("r", "l", "t") if monitor else ())
        columns: dict[str, Columns] = {}
        for column in found.columns if found.rows else ():
            numbers = found.numbers(column)
            if numbers is not None and not np.isnan(numbers).all():
                columns[column] = np.asarray(numbers, np.float64)[None, :]
        return LogContent(columns, [(-1, condition) for condition in found.conditions])

    def rollouts() -> LogContent:
        episodes = parse_record(files.read(name, MAX_RECORD_BYTES), RolloutResults, name).episodes
        mode = files.path.name
        values = {
            f"{mode}/episode_return": [episode.episode_return for episode in episodes],
            f"{mode}/episode_length": [float(episode.length) for episode in episodes],
        }
        if all(episode.success is not None for episode in episodes):
            values[f"{mode}/success"] = [float(bool(episode.success)) for episode in episodes]
        count = np.arange(1.0, len(episodes) + 1)
        times = np.cumsum([episode.wall_s for episode in episodes])
        return LogContent({metric: np.stack([count, column, times]) for metric, column in values.items() if column})

    chosen: dict[LogKind, Reader] = {
        LogKind.EVENTS: events,
        LogKind.WANDB: lambda: wandb_files.read_wandb_log(files, name),
        LogKind.MLFLOW: lambda: mlflow_files.read_mlflow_run(files, name),
        LogKind.EVALUATIONS: lambda: evaluation_files.read_evaluations(files, name),
        LogKind.ROLLOUTS: rollouts,
    }
    return chosen.get(kind, table)


def writer_children(folder: Path, names: Iterable[str], files: Sequence[str]) -> dict[str, list[str]]:
    """Returns the event files of each folder below one with event files that its writer created.

    ``add_scalars("loss", {"policy": ..., "value": ...})`` writes the tag ``loss`` into the folders ``loss_policy`` and
    ``loss_value``; ``add_hparams`` writes final values into a folder that is named by the time.
    """
    if not any(log_kind(file) is LogKind.EVENTS for file in files):
        return {}
    found = {}
    for name in names:
        _, _, inner = next(folders_of(folder / name), ("", [], []))
        logs = [file for file in inner if is_trainer_log(file)]
        if logs and all(log_kind(file) is LogKind.EVENTS for file in logs) and _is_child(folder / name, logs):
            found[name] = sorted(logs)
    return found


def is_hparams_folder(name: str) -> bool:
    """Returns whether a folder's name is the time at which ``add_hparams`` was called."""
    return _HPARAMS.fullmatch(name) is not None


def child_name(folder: str, tag: str) -> str | None:
    """Returns the name of a curve of ``add_scalars`` from its folder and its tag; None if it is not one of them."""
    start = tag.replace("/", "_") + "_"
    return folder.removeprefix(start) if folder.startswith(start) and folder != start else None


def _is_child(folder: Path, logs: Sequence[str]) -> bool:
    if is_hparams_folder(folder.name):
        return True
    tags: set[str] = set()
    for log in logs:
        try:
            with files_of(folder).open(log) as stream:
                beginning = stream.read(_PEEK_BYTES)
        except (StrangerFileError, OSError):
            return False
        tags |= set(read_event_stream(io.BytesIO(beginning)).scalars)
    return all(child_name(folder.name, tag) is not None for tag in tags)
