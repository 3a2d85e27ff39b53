"""Reading a2perf's own bundles for scoring. Every file is read by itself, so that a damaged one costs only itself."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from a2perf.errors import UserError
from a2perf.metrics.values import as_finite
from a2perf.records import Episode, LatencyResults, Manifest, RolloutResults, RunState, TrainResults
from a2perf.runs import inventory
from a2perf.runs.event_cache import EventCache
from a2perf.runs.recorded_curves import CurveFiles, find_curve_files, read_curve
from a2perf.runs.recorded_datasets import read_notes
from a2perf.runs.recorded_emissions import read_emissions
from a2perf.runs.recorded_runs import RecordedRun, RunFolder, RunIdentity
from a2perf.runs.recorded_tables import read_table
from a2perf.runs.recorded_tracking import summed
from a2perf.storage import Journal, read_json, read_record
from a2perf.stranger_files import Kind, StrangerFileError, walk

_LATENCY = {
    "infer_ns": "infer_once", "preprocess_ns": "preprocess_observation", "round_trip_ns": "round_trip",
    "tree_cpu_ns": "processor_time",
}  # fmt: skip
_MOST_CHANGES = 10
_MAX_ARRAY_BYTES = 1 << 30  # of the arrays in a compressed file
_DAMAGE = (
    UserError, OSError, ValueError, TypeError, EOFError, KeyError, OverflowError, RecursionError, MemoryError,
    zipfile.BadZipFile, zlib.error, msgspec.MsgspecError,
)  # fmt: skip
T = TypeVar("T")


def identify(run: RunFolder) -> RunIdentity:
    """Says what a bundle is a run of."""
    return _identity(run, _Reader(run.path).manifest)


def read(run: RunFolder) -> RecordedRun:
    """Reads a bundle."""
    reader = _Reader(run.path)
    manifest = reader.manifest
    found = RecordedRun(_identity(run, manifest), manifest=manifest, conditions=reader.conditions)
    if manifest is not None:
        changes = inventory.problems(run.path, manifest)
        found.changed = bool(changes)
        found.conditions += [*changes[:_MOST_CHANGES], *(["more was changed"] if len(changes) > _MOST_CHANGES else [])]
        found.conditions += [*_how_it_ended(manifest), *_earlier_attempts(manifest)]
    mode = run.path.name
    found.tracking = reader.tolerant("metrics/tracking.json", _json_object) or {}
    if not found.tracking:
        found.tracking_by_task = _tracked_tasks(reader)
        found.tracking = summed(list(found.tracking_by_task.values())) or _of_trace(reader)
    for episodes, task in _rollouts(reader, manifest):
        found.episodes[task] = episodes
        returns = np.array([episode.episode_return for episode in episodes], np.float64)
        found.returns.setdefault(mode, {})[task] = returns
        if episodes and all(episode.success is not None for episode in episodes):
            successes = np.array([float(bool(episode.success)) for episode in episodes])
            found.successes.setdefault(mode, {})[task] = successes
    if mode == "inference":
        found.latency_s = reader.tolerant("metrics/latency.npz", _latency_seconds) or {}
        latency = reader.record("metrics/latency.json", LatencyResults)
        for name in _LATENCY.values():
            summary = getattr(latency, name, None)
            if summary is not None:
                found.latency_first_s[name] = summary.first_s
    name = f"metrics/{mode}_emissions.csv"
    if reader.is_there(name):
        columns, conditions = read_emissions([run.path / name], run.path)
        found.emissions[mode] = columns
        found.conditions += conditions
    if mode == "train":
        results = reader.record("metrics/train.json", TrainResults)
        found.wall_clock_s = None if results is None else results.wall_s
        if not (run.path / "artifacts").is_symlink():
            found.curve, conditions = read_curve(_listed_curves(reader), run.path, EventCache())
            found.conditions += conditions
            found.datasets, conditions = read_notes(run.path / "artifacts")
            found.conditions += conditions
    return found


class _Reader:
    """Reads the files of a bundle one by one and keeps what went wrong.

    Of a run that is over, only files that its manifest lists are read; nothing is read through a link.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.conditions: list[str] = []
        self.manifest: Manifest | None = None
        if not os.path.lexists(folder / inventory.MANIFEST):
            self.conditions.append("manifest.json is missing")
            return
        try:
            self.manifest = inventory.read_manifest(folder)
        except UserError as error:
            words = error.message.replace(str(folder / inventory.MANIFEST), inventory.MANIFEST)
            self.conditions.append(f"manifest.json could not be read: {words}")

    def is_listed(self, path: Path) -> bool:
        return inventory.is_listed(self.manifest, path.relative_to(self.folder).as_posix())

    def below(self, folder: str, names: tuple[str, ...]) -> list[Path]:
        """Returns the listed files of the given names at any depth below a folder; links are not followed."""
        found = []
        top = self.folder / folder
        if top.is_symlink() or not top.is_dir():
            return []
        try:
            for entry in walk(top, on_error=lambda error: self.conditions.append(error.message)):
                if entry.kind is Kind.FILE and entry.name in names and self.is_listed(top / entry.path):
                    found.append(top / entry.path)
        except StrangerFileError as error:
            self.conditions.append(error.message)
        return found

    def is_there(self, name: str) -> bool:
        path = self.folder / name
        for above in list(path.relative_to(self.folder).parents)[:-1]:
            if (self.folder / above).is_symlink():
                self.conditions.append(f"{above}: symbolic link, not followed")
                return False
        if path.is_symlink():
            self.conditions.append(f"{name}: symbolic link, not followed")
            return False
        if path.exists() and not path.is_file():
            self.conditions.append(f"{name}: not a regular file, not read")
            return False
        return path.exists() and self.is_listed(path)

    def tolerant(self, name: str, read: Callable[[Path], T]) -> T | None:
        if not self.is_there(name):
            return None
        path = self.folder / name
        try:
            return read(path)
        except _DAMAGE as error:
            words = error.message if isinstance(error, UserError) else str(error)
            self.conditions.append(f"{name} could not be read: {words.replace(str(path), name)}")
            return None

    def record(self, name: str, kind: type[T]) -> T | None:
        return self.tolerant(name, lambda path: read_record(path, kind))  # type: ignore[type-var]


def _identity(run: RunFolder, manifest: Manifest | None) -> RunIdentity:
    mode = run.path.name
    if manifest is None:
        return RunIdentity(algorithm=run.label, mode=mode, state="unreadable")
    return RunIdentity(
        domain=manifest.domain,
        task=manifest.task,
        algorithm=manifest.submission.name,
        version=manifest.submission.sha256,
        fingerprint=manifest.env_fingerprint or "",
        mode=mode,
        seed=manifest.root_seed,
        state="unfinished" if manifest.state is RunState.RUNNING else manifest.state.value,
    )


def _earlier_attempts(manifest: Manifest) -> list[str]:
    if len(manifest.attempts) < 2:
        return []
    ends = [attempt.outcome or "no outcome" for attempt in manifest.attempts[:-1]]
    counted = ", ".join(f"{ends.count(end)} x {end}" for end in dict.fromkeys(ends))
    return [f"attempt {len(manifest.attempts)} of this run; earlier attempts ended: {counted}"]


def _how_it_ended(manifest: Manifest) -> list[str]:
    if manifest.state is RunState.FINISHED:
        return []
    if manifest.state is RunState.FAILED and manifest.failure is not None:
        return [f"the run failed: {manifest.failure.kind.value} in {manifest.failure.where}"]
    if manifest.state is RunState.FAILED:
        return ["the run failed"]
    return ["the run is not finished; what it had measured is scored"]


def _rollouts(reader: _Reader, manifest: Manifest | None) -> list[tuple[list[Episode], str]]:
    """Returns the episodes by task; those of a run that was killed are taken from its journal."""
    tasks = reader.folder / "metrics" / "tasks"
    folders = {"": "metrics"}
    for path in reader.below("metrics/tasks", ("rollouts.json", "journal.jsonl")):
        folders[path.parent.relative_to(tasks).as_posix()] = path.parent.relative_to(reader.folder).as_posix()
    found = []
    for task, folder in sorted(folders.items()):
        name = task or (manifest.task if manifest is not None else "task")
        results = reader.record(f"{folder}/rollouts.json", RolloutResults)
        if results is not None:
            found.append((results.episodes, results.task or name))
            continue
        journal = f"{folder}/journal.jsonl" if task else "journal.jsonl"
        episodes = reader.tolerant(journal, _journalled)
        if episodes:
            reader.conditions.append(f"{folder}/rollouts.json is not there; {len(episodes)} episode(s) of the journal")
            found.append((episodes, name))
    return found


def _tracked_tasks(reader: _Reader) -> dict[str, dict[str, Any]]:
    """Returns the tracking report of each task of a run of several."""
    tasks = reader.folder / "metrics" / "tasks"
    found = {}
    for path in reader.below("metrics/tasks", ("tracking.json",)):
        report = reader.tolerant(path.relative_to(reader.folder).as_posix(), _json_object)
        if report:
            found[path.parent.relative_to(tasks).as_posix()] = report
    return found


def _listed_curves(reader: _Reader) -> CurveFiles:
    files = find_curve_files(reader.folder / "artifacts")
    for kind in (files.events, files.progress, files.monitors):
        kind[:] = [path for path in kind if reader.is_listed(path)]
    return files


def _journalled(path: Path) -> list[Episode]:
    episodes: dict[int, Episode] = {}
    for entry in Journal(path).entries():
        if entry.get("kind") == "episode":
            episode = msgspec.convert(entry.get("episode"), Episode)
            episodes[episode.index] = episode
    return [episodes[index] for index in sorted(episodes)]


def _of_trace(reader: _Reader) -> dict[str, Any]:
    """Returns what the samples of the process tree say, for a run that was killed before its tracking report."""
    if not reader.is_there("metrics/system_trace.csv"):
        return {}
    table = read_table(reader.folder / "metrics" / "system_trace.csv", needs=("elapsed_s", "rss_bytes", "cpu_seconds"))
    reader.conditions += [f"metrics/system_trace.csv: {condition}" for condition in table.conditions]
    found: dict[str, Any] = {}
    for column, name in (("rss_bytes", "rss"), ("pss_bytes", "pss")):
        values, _ = as_finite(table.numbers(column) if table.numbers(column) is not None else ())
        if values.size:
            found |= {f"{name}_peak_bytes": float(values.max()), f"{name}_mean_bytes": float(values.mean())}
    for column, name in (("cpu_seconds", "cpu_seconds"), ("elapsed_s", "wall_s")):
        values, _ = as_finite(table.numbers(column) if table.numbers(column) is not None else ())
        if values.size:
            found[name] = float(values.max())
    if found:
        reader.conditions.append(f"no tracking report; memory and time are of {table.rows} sample(s) of the trace")
    return found


def _latency_seconds(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        if sum(item.file_size for item in archive.infolist()) > _MAX_ARRAY_BYTES:
            raise ValueError(f"unpacks to more than {_MAX_ARRAY_BYTES >> 30} GiB")
    with np.load(path, allow_pickle=False) as arrays:
        return {
            name: np.asarray(arrays[key], np.float64).ravel() * 1e-9
            for key, name in _LATENCY.items()
            if key in arrays.files and arrays[key].size
        }


def _json_object(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value
