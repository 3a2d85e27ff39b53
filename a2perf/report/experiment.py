"""The runs that a report is about, read from their bundles into memory.

Reading never stops at damage. A bundle whose manifest cannot be read is still a run with a stated problem, a metrics
file that cannot be read is a problem of that file alone, and what a participant wrote (curves under ``artifacts/``) is
taken only from regular files, never through links.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from a2perf.constants import BenchmarkMode
from a2perf.errors import UserError
from a2perf.records import Episode, Failure, LatencyResults, Manifest, RolloutResults, RunState, TrainResults
from a2perf.report.columns import Columns, Values, read_columns
from a2perf.storage import Journal, read_json, read_record

MODES = tuple(mode.value for mode in BenchmarkMode)
LATENCY_ARRAYS = {"infer_ns": "infer_once", "preprocess_ns": "preprocess_observation", "round_trip_ns": "round_trip"}
STEP_COLUMNS = (
    "env_steps", "total_env_steps", "environment_steps", "steps", "step", "total_steps", "timesteps",
    "time/total_timesteps", "total_timesteps", "iteration",
)  # fmt: skip
RETURN_COLUMNS = (
    "return", "mean_return", "episode_return", "average_return", "AverageReturn", "Metrics/AverageReturn",
    "rollout/ep_rew_mean", "eval/mean_reward", "return_mean",
)  # fmt: skip
_TASK_FILES = ("rollouts.json", "journal.jsonl", "tracking.json", "outcome.json")
LOG_TAIL_BYTES = 8192
LOG_TAIL_LINES = 20
MAX_CURVES = 20
MAX_CURVE_BYTES = 16 * 2**20

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Curve:
    """Returns while training, as the participant logged them (not measured by the evaluator).

    Attributes:
        name: path below ``artifacts/``.
        steps: shape (points,), in ``step_name``.
        values: shape (points,), undiscounted return.
    """

    name: str
    steps: Values
    values: Values
    step_name: str
    value_name: str


@dataclasses.dataclass(frozen=True)
class Bundle:
    """One run in one mode.

    Attributes:
        label: name of the run root, unique in the experiment.
        state: a ``RunState`` value, ``"unfinished"`` for a run without an end, or ``"unreadable"``.
        rollouts: by task.
        latency_s: raw values in seconds by call (``infer_once``, ``preprocess_observation``, ``round_trip``).
        tracking: ``tracking.json`` as plain values, by task; the task is ``""`` but in generalization.
        task_failures: why tasks of a generalization run failed.
        media: pictures and films of the first episodes.
        log_tail: the last lines of the log that a failure names.
        problems: what could not be read, each with its file.
    """

    label: str
    mode: str
    folder: Path
    state: str
    manifest: Manifest | None = None
    rollouts: dict[str, RolloutResults] = dataclasses.field(default_factory=dict)
    latency: LatencyResults | None = None
    latency_s: dict[str, Values] = dataclasses.field(default_factory=dict)
    train: TrainResults | None = None
    emissions: Columns | None = None
    trace: Columns | None = None
    tracking: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    task_failures: dict[str, Failure] = dataclasses.field(default_factory=dict)
    curves: tuple[Curve, ...] = ()
    media: tuple[Path, ...] = ()
    log_tail: str = ""
    problems: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Identity inside a report: ``label/mode``."""
        return f"{self.label}/{self.mode}"


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Runs that are reported together, ordered by label and then by mode."""

    bundles: tuple[Bundle, ...]

    def roots(self) -> dict[str, list[Bundle]]:
        """Returns the bundles by run root, in order."""
        grouped: dict[str, list[Bundle]] = {}
        for bundle in self.bundles:
            grouped.setdefault(bundle.label, []).append(bundle)
        return grouped


def load_experiment(paths: Sequence[Path]) -> Experiment:
    """Finds and reads every bundle at or below the given folders.

    Raises:
        UserError: a path does not exist, or there is no bundle anywhere.
    """
    folders: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            raise UserError(f"{path} is not a folder", mend="give run folders, as --root_dir named them")
        folders.update(dict.fromkeys(_bundle_folders(path.resolve())))
    if not folders:
        raise UserError(
            f"no run in {', '.join(str(path) for path in paths)}",
            mend="give a folder that holds train/, inference/ or generalization/ with a manifest.json",
        )
    labels = _labels({folder.parent for folder in folders})
    bundles = [load_bundle(folder, label=labels[folder.parent]) for folder in folders]
    return Experiment(tuple(sorted(bundles, key=lambda bundle: (bundle.label, _mode_order(bundle.mode)))))


def load_bundle(folder: Path, *, label: str) -> Bundle:
    """Reads one bundle; damage becomes ``problems``."""
    problems: list[str] = []

    def attempt(read: Callable[[Path], T], name: str, *, required: bool = False) -> T | None:
        path = folder / name
        if not path.exists():
            if required:
                problems.append(f"{name} is missing")
            return None
        try:
            return read(path)
        except (UserError, OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            words = error.message if isinstance(error, UserError) else str(error)
            problems.append(f"{name} could not be read: {words.replace(str(path), name)}")
            return None

    mode = folder.name
    manifest = attempt(lambda path: read_record(path, Manifest), "manifest.json", required=True)
    rollouts: dict[str, RolloutResults] = {}
    tracking: dict[str, dict[str, Any]] = {}
    task_failures: dict[str, Failure] = {}
    for task, part in _task_folders(folder).items():
        results = attempt(lambda path: read_record(path, RolloutResults), f"{part}/rollouts.json")
        if results is None:
            results = attempt(
                functools.partial(_journalled, task=task, manifest=manifest),
                "journal.jsonl" if not task else f"{part}/journal.jsonl",
            )
            if results is not None and results.episodes:
                count = len(results.episodes)
                problems.append(f"{part}/rollouts.json is not there; {count} episode(s) are from the journal")
        if results is not None and (results.episodes or not task):
            rollouts[task or results.task] = results
        tracked = attempt(_json_object, f"{part}/tracking.json")
        if tracked is not None:
            tracking[task] = tracked
        failure = attempt(_task_failure, f"{part}/outcome.json")
        if failure is not None:
            task_failures[task] = failure
    latency = attempt(lambda path: read_record(path, LatencyResults), "metrics/latency.json")
    latency_s = attempt(_latency_seconds, "metrics/latency.npz") or {}
    train = attempt(lambda path: read_record(path, TrainResults), "metrics/train.json")
    emissions = attempt(read_columns, f"metrics/{mode}_emissions.csv")
    trace = attempt(read_columns, "metrics/system_trace.csv")
    curves = []
    for name in _curve_files(folder):
        curve = attempt(lambda path: _curve(path, folder / "artifacts"), name)
        if curve is not None:
            curves.append(curve)
    for name, columns in ((f"metrics/{mode}_emissions.csv", emissions), ("metrics/system_trace.csv", trace)):
        problems.extend(f"{name}: {problem}" for problem in (columns.problems if columns is not None else ()))
    return Bundle(
        label=label,
        mode=mode,
        folder=folder,
        state=_state(manifest),
        manifest=manifest,
        rollouts=rollouts,
        latency=latency,
        latency_s=latency_s,
        train=train,
        emissions=emissions,
        trace=trace,
        tracking=tracking,
        task_failures=task_failures,
        curves=tuple(curves),
        media=tuple(_regular_files(folder / "media", (".png", ".mp4"))),
        log_tail=_log_tail(folder, manifest),
        problems=tuple(problems),
    )


def _bundle_folders(top: Path) -> Iterator[Path]:
    if _is_bundle(top):
        yield top
        return
    for folder, names, _ in os.walk(top):
        names.sort()
        found = [name for name in names if _is_bundle(Path(folder) / name)]
        yield from (Path(folder) / name for name in found)
        names[:] = [name for name in names if name not in found and name != "attic" and not name.startswith(".")]


def _is_bundle(folder: Path) -> bool:
    """Says whether a folder is a bundle, also one that was killed before its manifest was written."""
    return folder.name in MODES and any((folder / name).exists() for name in ("manifest.json", "config.gin", "logs"))


def _labels(roots: Iterable[Path]) -> dict[Path, str]:
    """Names run roots by their path below the folder that holds them all."""
    roots = list(roots)
    common = Path(os.path.commonpath([root.parent for root in roots]))
    return {root: plain_text(root.relative_to(common).as_posix()) for root in roots}


def _mode_order(mode: str) -> int:
    return MODES.index(mode) if mode in MODES else len(MODES)


def _state(manifest: Manifest | None) -> str:
    if manifest is None:
        return "unreadable"
    return "unfinished" if manifest.state is RunState.RUNNING else manifest.state.value


def _task_folders(folder: Path) -> dict[str, str]:
    """Returns where each task's files lie; a run of one task has them in ``metrics`` itself, under the name ``""``."""
    tasks = folder / "metrics" / "tasks"
    # a task's name may hold slashes
    found = sorted({path.parent for name in _TASK_FILES for path in tasks.glob(f"**/{name}")})
    return {"": "metrics"} | {path.relative_to(tasks).as_posix(): path.relative_to(folder).as_posix() for path in found}


def _journalled(path: Path, task: str, manifest: Manifest | None) -> RolloutResults | None:
    """Returns the episodes that a killed run had finished, or None when there is none."""
    episodes: dict[int, Episode] = {}
    for entry in Journal(path).entries():
        if entry.get("kind") == "episode":
            episode = msgspec.convert(entry.get("episode"), Episode)
            episodes[episode.index] = episode
    if not episodes:
        return None
    task = task or (manifest.task if manifest is not None else "task")
    env_id = (manifest.env_id if manifest is not None else None) or ""
    return RolloutResults(task=task, env_id=env_id, episodes=[episodes[index] for index in sorted(episodes)])


def _task_failure(path: Path) -> Failure | None:
    failure = _json_object(path).get("failure")
    return None if failure is None else msgspec.convert(failure, Failure)


def _json_object(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _latency_seconds(path: Path) -> dict[str, Values]:
    seconds = {}
    with np.load(path, allow_pickle=False) as arrays:
        for key, name in LATENCY_ARRAYS.items():
            if key in arrays.files:
                values = np.asarray(arrays[key], dtype=np.float64).ravel() * 1e-9
                if values.size:
                    seconds[name] = values
    return seconds


def _curve_files(folder: Path) -> list[str]:
    found = _regular_files(folder / "artifacts", ("progress.csv",))
    return [path.relative_to(folder).as_posix() for path in found[:MAX_CURVES]]


def _curve(path: Path, artifacts: Path) -> Curve | None:
    columns = read_columns(path, max_bytes=MAX_CURVE_BYTES)
    step_name = next((name for name in STEP_COLUMNS if columns.first(name) is not None), None)
    value_name = next((name for name in RETURN_COLUMNS if columns.first(name) is not None), None)
    if step_name is None or value_name is None:
        return None
    steps, values = columns.numbers[step_name], columns.numbers[value_name]
    known = np.isfinite(steps) & np.isfinite(values)
    return Curve(path.relative_to(artifacts).as_posix(), steps[known], values[known], step_name, value_name)


def _regular_files(top: Path, endings: tuple[str, ...]) -> list[Path]:
    found = []
    for folder, names, files in os.walk(top, followlinks=False):
        names.sort()
        for name in sorted(files):
            path = Path(folder) / name
            if name.endswith(endings) and stat.S_ISREG(path.lstat().st_mode):
                found.append(path)
    return found


def _log_tail(folder: Path, manifest: Manifest | None) -> str:
    if manifest is None or manifest.failure is None or manifest.failure.log is None:
        return ""
    path = folder / manifest.failure.log
    if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
        return ""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
        text = stream.read().decode("utf-8", errors="replace")
    return "\n".join(plain_text(text).splitlines()[-LOG_TAIL_LINES:])


def plain_text(text: str) -> str:
    """Makes words of strangers safe to print: drops terminal sequences, control and bidirectional characters.

    Line ends and tabs stay; what is not valid Unicode (bytes of a file name) becomes a question mark.
    """
    text = text.encode("utf-8", errors="replace").decode()
    text = re.sub(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)", "", text)
    return re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", "", text)
