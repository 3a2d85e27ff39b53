"""The runs that a report is about: what the readers of ``metrics`` found, and what is shown but never scored.

Numbers come from ``metrics.recorded_runs`` alone. Beside them a bundle holds things for the eye: the trace of samples,
the first episodes' pictures, the log of a failure. Reading never stops at damage, and no link leads out of a bundle.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from a2perf.errors import UserError
from a2perf.metrics.values import Values
from a2perf.plain_text import terminal_text
from a2perf.records import Failure, Manifest, TrainResults
from a2perf.runs.inventory import listed_file
from a2perf.runs.recorded_runs import BUNDLE, MODES, RecordedRun, RunFolder, find_runs, identify, read_run
from a2perf.runs.recorded_tables import Table, read_table
from a2perf.storage import read_json, read_record
from a2perf.stranger_files import Bounds, folders

LOG_TAIL_BYTES = 8192
_BOUNDS = Bounds(entries=2_000_000)
LOG_TAIL_LINES = 20


@dataclasses.dataclass(frozen=True)
class Run:
    """One recorded run: a bundle, or a run of another layout.

    Attributes:
        root: name of the run root (submission x task x seed), unique in the report.
        mode: ``""`` for a layout that keeps several modes in one folder.
        recorded: what the scores are computed from.
        trace: samples of the process tree; None where there are none.
        train: the evaluator's record of a training.
        task_failures: why tasks of a generalization run failed.
        media: pictures and films of the first episodes.
        log_tail: the last lines of the log that a failure names.
        conditions: what a reader should know, each with its file.
    """

    root: str
    mode: str
    folder: RunFolder
    recorded: RecordedRun
    trace: Table | None = None
    train: TrainResults | None = None
    task_failures: dict[str, Failure] = dataclasses.field(default_factory=dict)
    media: tuple[Path, ...] = ()
    log_tail: str = ""
    conditions: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Identity inside a report: ``root/mode``."""
        return f"{self.root}/{self.mode}" if self.mode else self.root

    @property
    def state(self) -> str:
        """A ``RunState`` value, ``"unfinished"``, ``"unreadable"`` or ``"recorded"``."""
        return self.recorded.identity.state

    @property
    def manifest(self) -> Manifest | None:
        """The bundle's manifest, where it can be read."""
        return self.recorded.manifest

    @property
    def algorithm(self) -> str:
        """Name of the submission or algorithm, safe to print."""
        return plain_text(self.recorded.identity.algorithm)


def load_runs(paths: Sequence[Path]) -> list[Run]:
    """Finds and reads every run at or below the given folders, ordered by root and then by mode.

    Raises:
        UserError: a path does not exist, or there is nothing recorded anywhere.
    """
    folders = find_runs(paths)
    roots = _root_names(folders)
    runs = [_load(folder, root) for folder, root in zip(folders, roots, strict=True)]
    return sorted(runs, key=lambda run: (run.root, MODES.index(run.mode) if run.mode in MODES else len(MODES)))


def by_root(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Returns the runs of each root, in order."""
    grouped: dict[str, list[Run]] = {}
    for run in runs:
        grouped.setdefault(run.root, []).append(run)
    return grouped


def clock(trace: Table | None) -> Values | None:
    """Returns the time of each row in seconds; where a resumed run starts its clock again, time goes on from there."""
    seconds = None if trace is None else trace.numbers("elapsed_s")
    if seconds is None or not seconds.size or not np.isfinite(seconds).all():
        return None
    steps = np.diff(seconds, prepend=seconds[:1])
    result: Values = seconds[0] + np.cumsum(np.where(steps < 0, 0.0, steps))
    return result


def plain_text(text: str) -> str:
    """Makes words of strangers safe to print: drops terminal sequences, control and bidirectional characters.

    Line ends and tabs stay; what is not valid Unicode (bytes of a file name) becomes a question mark.
    """
    text = text.encode("utf-8", errors="replace").decode()
    text = re.sub(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)", "", text)
    return terminal_text(re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", "", text))


def _root_names(folders: Sequence[RunFolder]) -> list[str]:
    """Names the root of each run by its path below what was given, or below all runs where that is not unique."""
    roots, names = [], []
    for folder in folders:
        path = Path(os.path.abspath(folder.path))
        in_root = folder.layout == BUNDLE
        roots.append(path.parent if in_root else path)
        name = folder.label
        if in_root:
            name = name.rpartition("/")[0] or path.parent.name
        names.append(name)
    holders: dict[str, set[Path]] = {}
    for name, root in zip(names, roots, strict=True):
        holders.setdefault(name, set()).add(root)
    if any(len(held) > 1 for held in holders.values()):
        common = os.path.commonpath([root.parent for root in roots])
        names = [os.path.relpath(root, common) for root in roots]
    return [plain_text(name) for name in names]


def _load(folder: RunFolder, root: str) -> Run:
    try:
        recorded = read_run(folder)
    except (OSError, ValueError) as error:
        # a file that changed or vanished while it was read; the other runs are not to suffer
        recorded = RecordedRun(identify(folder), conditions=[f"could not be read: {type(error).__name__}"])
    conditions = dict.fromkeys(plain_text(words) for words in recorded.conditions)
    if folder.layout != BUNDLE:
        return Run(root, recorded.identity.mode, folder, recorded, conditions=tuple(conditions))
    path, manifest = folder.path, recorded.manifest
    trace = None
    if (file := listed_file(path, manifest, "metrics/system_trace.csv")) is not None:
        trace = read_table(file)
        conditions.update(dict.fromkeys(f"metrics/system_trace.csv: {words}" for words in trace.conditions))
    failures = {}
    tasks = path / "metrics" / "tasks"
    for outcome in _listed(path, manifest, "metrics/tasks", ("outcome.json",)):
        task = plain_text(outcome.parent.relative_to(tasks).as_posix())
        try:
            failure = _failure_of(outcome)
        except (OSError, ValueError, UserError) as error:
            words = error.message if isinstance(error, UserError) else str(error)
            conditions[f"metrics/tasks/{task}/outcome.json could not be read: {words.replace(str(outcome), task)}"] = (
                None
            )
            continue
        if failure is not None:
            failures[task] = failure
    return Run(
        root,
        path.name,
        folder,
        recorded,
        trace=trace if trace is not None and trace.rows else None,
        train=_train(listed_file(path, manifest, "metrics/train.json")),
        task_failures=failures,
        media=tuple(_listed(path, manifest, "media", (".png", ".mp4"))),
        log_tail=_log_tail(path, manifest),
        conditions=tuple(conditions),
    )


def _failure_of(path: Path) -> Failure | None:
    value: Any = read_json(path)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return None if value.get("failure") is None else msgspec.convert(value["failure"], Failure)


def _train(path: Path | None) -> TrainResults | None:
    """Returns the record of a training; a broken one is a condition of the scored run already."""
    try:
        return None if path is None else read_record(path, TrainResults)
    except (UserError, OSError, ValueError):
        return None


def _listed(bundle: Path, manifest: Manifest | None, top: str, endings: tuple[str, ...]) -> Iterator[Path]:
    """Yields the files below a folder of a bundle that a reader may open, in a stable order."""
    for folder, names, files in folders(bundle / top, _BOUNDS):
        names.sort()
        for name in sorted(files):
            path = Path(folder, name).relative_to(bundle)
            if name.endswith(endings) and (file := listed_file(bundle, manifest, path.as_posix())) is not None:
                yield file


def _log_tail(folder: Path, manifest: Manifest | None) -> str:
    if manifest is None or manifest.failure is None or manifest.failure.log is None:
        return ""
    path = listed_file(folder, manifest, manifest.failure.log)
    if path is None:
        return ""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
        text = stream.read().decode("utf-8", errors="replace")
    return "\n".join(plain_text(text).splitlines()[-LOG_TAIL_LINES:])
