"""Finding recorded runs of every known layout, and the one shape they are all read into.

Layouts: bundles of a2perf, the folders of the earlier public platform, logs of Stable-Baselines3 and other trainers
(event files, ``progress.csv``, ``monitor.csv``), and single CSV files. Nothing here runs code of a participant or needs
a domain; symbolic links are never followed. Whatever is wrong with a run becomes a condition of that run.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from a2perf.errors import UserError
from a2perf.metrics.values import Values
from a2perf.plain_text import terminal_line
from a2perf.records import Episode, Manifest
from a2perf.runs.inventory import MODES as MODES
from a2perf.runs.inventory import is_archived, is_bundle
from a2perf.runs.recorded_curves import Curve, kind_of
from a2perf.runs.recorded_datasets import DatasetNote
from a2perf.stranger_files import Bounds, Kind, StrangerFileError, folders, walk

SCORES_FILE = "scores.json"
BUNDLE, EARLIER, LOGS, TABLE = "a2perf bundle", "earlier platform", "training logs", "CSV file"
_ANY_NAME = ("utf-8", "surrogateescape")
_BOUNDS = Bounds(entries=2_000_000)
MAX_CONDITIONS, MOST_OF_CONDITION = 1000, 2000
"""Of a run, and characters of each: a damaged run must not fill a report."""
_EARLIER_FILES = (
    "train_emissions.csv", "inference_emissions.csv", "inference_metrics_results.json", "generalization_rollouts.json",
)  # fmt: skip


@dataclass(frozen=True)
class RunFolder:
    """Where a run lies.

    Attributes:
        layout: ``BUNDLE``, ``EARLIER``, ``LOGS`` or ``TABLE``.
        path: the folder, or the file of ``TABLE``.
        label: path below the folder that was given; stable when the whole tree moves.
        links: symbolic links met on the way that were not followed, below ``path``.
    """

    layout: str
    path: Path
    label: str
    links: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunIdentity:
    """What a run is a run of; runs that agree in domain, task and algorithm are seeds of one another.

    Attributes:
        domain: the domain, ``""`` when unknown.
        task: the task, ``""`` when unknown or when there are several.
        algorithm: name of the submission or algorithm.
        version: hash of the submission's files, ``""`` when unknown.
        fingerprint: hash of the environment's behaviour, ``""`` when unknown; different ones are never pooled.
        mode: ``"train"``, ``"inference"``, ``"generalization"``, or ``""`` for a folder of all of them.
        seed: the root seed, None when unknown.
        state: how the run ended, ``"recorded"`` when the layout does not say.
    """

    domain: str = ""
    task: str = ""
    algorithm: str = ""
    version: str = ""
    fingerprint: str = ""
    mode: str = ""
    seed: int | None = None
    state: str = "recorded"


@dataclass
class RecordedRun:
    """One run in memory.

    Attributes:
        curve: training returns, where logged.
        returns: episode returns by mode (``"inference"``, ``"generalization"``) and task.
        successes: 0 or 1 per episode by mode and task, where the environment says so.
        latency_s: seconds per timed call, warm-up left out, by call.
        latency_first_s: seconds of the very first call, by call.
        tracking: content of ``tracking.json``; empty when there is none.
        emissions: columns of the emissions table by mode.
        wall_clock_s: seconds of the participant's phase, by the evaluator's clock.
        manifest: of a bundle; None in other layouts and where it cannot be read.
        episodes: the records behind ``returns`` by task; bundles alone have them.
        tracking_by_task: content of each task's ``tracking.json`` in a run of several tasks; ``tracking`` is their sum.
        datasets: what a training noted about the offline data that it used.
        changed: whether the bundle is not what was recorded; its conditions say what was changed.
        conditions: what a reader should know, in words, each with its file.
    """

    identity: RunIdentity
    curve: Curve | None = None
    returns: dict[str, dict[str, Values]] = field(default_factory=dict)
    successes: dict[str, dict[str, Values]] = field(default_factory=dict)
    latency_s: dict[str, Values] = field(default_factory=dict)
    latency_first_s: dict[str, float] = field(default_factory=dict)
    tracking: dict[str, Any] = field(default_factory=dict)
    emissions: dict[str, dict[str, Any]] = field(default_factory=dict)
    wall_clock_s: float | None = None
    manifest: Manifest | None = None
    episodes: dict[str, list[Episode]] = field(default_factory=dict)
    tracking_by_task: dict[str, dict[str, Any]] = field(default_factory=dict)
    datasets: list[DatasetNote] = field(default_factory=list)
    changed: bool = False
    conditions: list[str] = field(default_factory=list)

    def modes(self) -> list[str]:
        """Returns the modes that the run holds something of, in the order of ``MODES``."""
        if self.identity.mode:
            return [self.identity.mode]
        held = {*self.emissions, *self.returns}
        if self.curve is not None:
            held.add("train")
        if self.latency_s:
            held.add("inference")
        return [mode for mode in MODES if mode in held]


def find_runs(paths: Sequence[Path]) -> list[RunFolder]:
    """Finds every run at or below the given folders and files, in a stable order and each once.

    Raises:
        UserError: a path does not exist, or nothing recorded lies at any of them.
    """
    found: dict[str, RunFolder] = {}
    for given in paths:
        if not given.exists():
            raise UserError(f"{given} does not exist", hint="give a run, or a folder that holds runs")
        for run in _find(given):
            found.setdefault(os.path.abspath(run.path), run)
    if not found:
        raise UserError(
            f"nothing recorded in {', '.join(str(path) for path in paths)}",
            hint="give bundles, event files, progress.csv or monitor.csv, a CSV file, or a folder that holds some",
        )
    runs = sorted(found.values(), key=lambda run: (run.label, str(run.path)))
    if len({run.label for run in runs}) == len(runs):
        return runs
    # two folders given on one command line can hold the same names
    common = os.path.commonpath([os.path.abspath(run.path) for run in runs])
    return [
        RunFolder(run.layout, run.path, os.path.relpath(os.path.abspath(run.path), common), run.links) for run in runs
    ]


def fingerprint_of(run: RunFolder) -> str:
    """Returns a hash of the names, sizes and modification times of a run's files; their content is not read."""
    digest = hashlib.sha256(f"{run.layout}\0{os.path.abspath(run.path)}\0{run.label}\0{run.links}".encode())
    if run.path.is_file():
        status = run.path.stat()
        digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
        return digest.hexdigest()
    try:
        # what cannot be listed counts with its name; reading the run says why
        for entry in walk(run.path.resolve(), _BOUNDS, on_error=lambda error: digest.update(error.message.encode())):
            status = entry.status
            if entry.kind is Kind.FOLDER:
                if run.layout == BUNDLE:  # an empty folder is a change too
                    digest.update(f"{entry.path}\0{status.st_mode}\0".encode(*_ANY_NAME))
            elif run.layout == BUNDLE or entry.name not in (".lock", SCORES_FILE):
                # the time of the last change of a file's state cannot be set back, unlike that of its content
                stamps = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_mode}"
                digest.update(f"{entry.path}\0{stamps}\0".encode(*_ANY_NAME))
    except StrangerFileError as error:
        digest.update(error.message.encode())
    return digest.hexdigest()


def identify(run: RunFolder) -> RunIdentity:
    """Says what a run is a run of, from its manifest or its path alone."""
    from a2perf.runs import recorded_bundles, recorded_layouts

    if run.layout == BUNDLE:
        return recorded_bundles.identify(run)
    return recorded_layouts.identify(run)


def read_run(run: RunFolder) -> RecordedRun:
    """Reads a run; damage becomes conditions."""
    from a2perf.runs import recorded_bundles, recorded_layouts

    if run.layout == BUNDLE:
        found = recorded_bundles.read(run)
    else:
        found = recorded_layouts.read(run)
    found.conditions += [f"{link}: symbolic link, not followed" for link in run.links]
    told = sorted(dict.fromkeys(terminal_line(condition, MOST_OF_CONDITION) for condition in found.conditions))
    more = [f"{len(told) - MAX_CONDITIONS} further conditions are not listed"] if len(told) > MAX_CONDITIONS else []
    found.conditions = told[:MAX_CONDITIONS] + more
    return found


def _find(given: Path) -> Iterator[RunFolder]:
    if given.is_file():
        kind = kind_of(given.name)
        label = given.name if kind is None else (given.parent.name or given.name)
        if kind is None and given.suffix != ".csv":
            raise UserError(
                f"{given} is not a recorded run", hint="give a folder, an event file or a file that ends in .csv"
            )
        yield RunFolder(TABLE, given, label)
        return
    top = Path(os.path.abspath(given))
    for folder, names, files in folders(top, _BOUNDS):
        path = Path(folder)
        names[:] = sorted(name for name in names if not is_archived(path / name) and not name.startswith("."))
        label = path.relative_to(top).as_posix() if path != top else top.name
        if is_bundle(path):
            names.clear()
            yield RunFolder(BUNDLE, path, label)
            continue
        modes = [name for name in MODES if name in names and is_bundle(path / name)]
        if modes:
            # the classic files beside bundles are views of them
            names[:] = [name for name in names if name != "metrics"]
            continue
        links = tuple(sorted(name for name in [*names, *files] if os.path.islink(os.path.join(folder, name))))
        if "metrics" in names and any((path / "metrics" / name).exists() for name in _EARLIER_FILES):
            names.clear()
            yield RunFolder(EARLIER, path, label, links)
        elif any(kind_of(name) for name in files):
            yield RunFolder(LOGS, path, label, links)
