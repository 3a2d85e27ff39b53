"""Reading a2perf's own bundles. Files are read independently: a damaged one does not affect the others."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from a2perf.arrays import Values, as_finite
from a2perf.errors import UserError
from a2perf.plugins import is_installed
from a2perf.records import (
    FURTHER_EPISODE,
    SCORED_EPISODE,
    Episode,
    LatencyResults,
    Manifest,
    Record,
    RolloutResults,
    RunState,
    StepCosts,
    TrainResults,
)
from a2perf.runs.bundles import inventory, layout
from a2perf.runs.bundles.files import BundleFiles, FileStatus, files_of
from a2perf.runs.bundles.log_files import LogKind, find_logs
from a2perf.runs.bundles.reproduction import mark_of
from a2perf.runs.bundles.run_record import RUN_FILE, ExperimentRun
from a2perf.runs.dataset_notes import read_notes
from a2perf.runs.events.series_cache import SeriesCache
from a2perf.runs.foreign.tables import read_emissions, table_of
from a2perf.runs.run import Run, RunFolder, RunIdentity
from a2perf.runs.series import SeriesReader, read_returns
from a2perf.runs.stores.seed_groups import ranked_task
from a2perf.runs.tracking_record import TrackingReport, nothing_tracked, read_tracking, summed
from a2perf.storage import (
    MAX_JOURNAL_BYTES,
    MAX_JSON_BYTES,
    MAX_RECORD_BYTES,
    MAX_VALUES,
    journal_entries,
    parse_json,
    parse_record,
)
from a2perf.stranger_files import Kind, StrangerFileError

_CALLS = ("infer_once", "preprocess_observation", "round_trip", "processor_time")
_TIMED = {"infer_ns": "infer_once", "preprocess_ns": "preprocess_observation"}
_STEPS = {"round_trip_ns": "round_trip", "cpu_ns": "processor_time"}
_MAX_CHANGES = 10
_EPISODE_VALUES = 8  # an episode costs as much memory as so many values
_MAX_ARRAY_BYTES = 256 << 20  # of the arrays in a compressed file, after decompression
_DAMAGE = (
    UserError, OSError, ValueError, TypeError, EOFError, KeyError, OverflowError, RecursionError, MemoryError,
    zipfile.BadZipFile, zlib.error, msgspec.MsgspecError,
)  # fmt: skip
T = TypeVar("T")
R = TypeVar("R", bound=Record)


def identify(folder: RunFolder) -> RunIdentity:
    """Returns the identity of a bundle's run."""
    return identity_of(folder, BundleReader.of(folder.files()).manifest)


def read(folder: RunFolder) -> Run:
    """Reads a bundle."""
    reader = BundleReader.of(folder.files())
    manifest = reader.manifest
    run = Run(identity_of(folder, manifest), folder, manifest=manifest, conditions=reader.conditions)
    if manifest is not None:
        run.reproduction = mark_of(folder.path)
        changes = inventory.problems(reader.files, manifest)
        run.changed = bool(changes)
        run.conditions += [*changes[:_MAX_CHANGES], *(["more was changed"] if len(changes) > _MAX_CHANGES else [])]
        run.conditions += [*_how_it_ended(manifest), *_earlier_attempts(manifest)]
    mode = run.identity.mode
    is_program = folder.path.name in layout.PROGRAM_MODES
    tracking = reader.tracking(layout.TRACKING)
    if tracking is None and is_program and manifest is not None and manifest.tracking:
        tracking = read_tracking(manifest.tracking, [])
    if tracking is None:
        run.tracking_by_task = _tracked_tasks(reader)
        tracking = summed(list(run.tracking_by_task.values())) or _of_trace(reader)
    run.tracking = tracking
    for episodes, further, task, costs in _rollouts(reader):
        run.episodes[task] = episodes
        if costs is not None and costs.steps > 0:
            run.step_costs[task] = costs
        if further:
            run.further[task] = further
        ranked = run.identity.task if manifest is not None and task == manifest.task else task
        returns = np.array([episode.episode_return for episode in episodes], np.float64)
        run.returns.setdefault(mode, {})[ranked] = returns
        if episodes and all(episode.success is not None for episode in episodes):
            successes = np.array([float(bool(episode.success)) for episode in episodes])
            run.successes.setdefault(mode, {})[ranked] = successes
    run.conditions += _clipped(run)
    run.conditions += _not_read(reader)
    if mode == "inference":
        run.latency_s = reader.tolerant(layout.LATENCY_VALUES, lambda name: _times(reader.files, name, _TIMED)) or {}
        # A policy can tell timed calls from scored ones: without scored steps a run has no round trip.
        run.latency_s |= reader.tolerant(layout.STEPS, lambda name: _times(reader.files, name, _STEPS)) or {}
        latency = reader.record(layout.LATENCY, LatencyResults)
        for call in _CALLS:
            summary = getattr(latency, call, None)
            if summary is not None:
                run.latency_first_s[call] = summary.first_s
    if reader.is_there(layout.emissions(mode)):
        run.emissions[mode], conditions = read_emissions(reader.files, [layout.emissions(mode)])
        run.conditions += conditions
    if mode == "train" or is_program:
        results = reader.record(layout.TRAIN, TrainResults)
        run.wall_clock_s = None if results is None else results.wall_s
        artifacts = reader.files.status(layout.ARTIFACTS)
        if artifacts is None or artifacts.kind is not Kind.LINK:
            logs = find_logs(reader.files, is_listed=lambda name: inventory.is_listed(manifest, name))
            series = SeriesReader(logs, SeriesCache())
            run.curve, conditions = read_returns(series)
            run.conditions += conditions
            run.datasets, conditions = read_notes(reader.files)
            run.conditions += conditions
            if is_program and manifest is not None:
                _add_program(run, manifest, series)
    return run


def _add_program(run: Run, manifest: Manifest, series: SeriesReader) -> None:
    """Adds what only the bundle of a program holds: its wall time, and the test episodes of a wrapped script."""
    record = _program_record(run.folder)
    wall_s = manifest.timings_s.get("train", manifest.timings_s.get(run.folder.path.name))
    run.wall_clock_s = record.wall_s if wall_s is None and record is not None else wall_s
    tested = series.series(layout.TEST_REWARDS, LogKind.EVENTS)
    if tested is not None:
        run.returns["inference"] = {run.identity.task: tested.values}


class BundleReader:
    """Reads the files of a bundle one by one and collects the problems.

    Of an ended run it reads only the files that the manifest lists. It follows no links.

    Attributes:
        manifest: its manifest; None if it is missing or unreadable.
        conditions: one sentence per problem.
    """

    def __init__(self, files: BundleFiles, manifest: Manifest | None) -> None:
        self.files = files
        self.manifest = manifest
        self.conditions: list[str] = []

    @classmethod
    def of(cls, files: BundleFiles) -> BundleReader:
        """Reads the manifest of a bundle and returns a reader of the other files."""
        reader = cls(files, None)
        if files.status(layout.MANIFEST) is None:
            reader.conditions.append(f"{layout.MANIFEST} is missing")
            return reader
        try:
            reader.manifest = inventory.manifest_in(files)
        except UserError as error:
            words = error.message.replace(str(files.path / layout.MANIFEST), layout.MANIFEST)
            reader.conditions.append(f"{layout.MANIFEST} could not be read: {words}")
        return reader

    def listed(self, name: str) -> FileStatus | None:
        """Returns the status of a regular file that may be read; None if it is missing, a link, or not listed."""
        status = self.files.status(name)
        if status is None or status.path != name or status.kind is not Kind.FILE:
            return None
        return status if inventory.is_listed(self.manifest, name) else None

    def below(self, folder: str, endings: tuple[str, ...]) -> list[str]:
        """Returns the listed regular files at any depth below a folder that have one of the given suffixes."""
        found = []
        try:
            for entry in self.files.entries(folder, on_error=lambda error: self.conditions.append(error.message)):
                status = entry.status
                wanted = status.kind is Kind.FILE and status.name.endswith(endings)
                if wanted and inventory.is_listed(self.manifest, status.path):
                    found.append(status.path)
        except StrangerFileError as error:
            self.conditions.append(error.message)
        return found

    def is_there(self, name: str) -> bool:
        """Returns whether a file may be read; a link or special file in its place becomes a condition."""
        status = self.files.status(name)
        if status is None:
            return False
        if status.kind is Kind.LINK:
            self.conditions.append(f"{status.path}: symbolic link, not followed")
            return False
        if status.path != name:
            return False
        if status.kind is not Kind.FILE:
            self.conditions.append(f"{name}: not a regular file, not read")
            return False
        return inventory.is_listed(self.manifest, name)

    def tolerant(self, name: str, read: Callable[[str], T]) -> T | None:
        """Returns the result of ``read`` for a file; None if the file is missing or damaged, with a condition."""
        if not self.is_there(name):
            return None
        try:
            return read(name)
        except _DAMAGE as error:
            words = error.message if isinstance(error, UserError) else str(error)
            self.conditions.append(f"{name} could not be read: {words}")
            return None

    def record(self, name: str, kind: type[R]) -> R | None:
        """Returns a record; None if it is missing or damaged, with a condition."""
        return self.tolerant(name, lambda name: parse_record(self.files.read(name, MAX_RECORD_BYTES), kind, name))

    def tracking(self, name: str) -> TrackingReport | None:
        """Returns a tracking report; None if it is missing, empty or damaged, with a condition."""
        content = self.tolerant(name, self.json_object)
        if not content:
            return None
        problems: list[str] = []
        report = read_tracking(content, problems)
        self.conditions += [f"{name}: {words}; left out" for words in problems[:_MAX_CHANGES]]
        return report

    def json_object(self, name: str) -> dict[str, Any]:
        """Returns the content of a JSON file.

        Raises:
            UserError: it cannot be read.
            ValueError: it is not a JSON object.
        """
        value = parse_json(self.files.read(name, MAX_JSON_BYTES), name)
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
        return value


def identity_of(folder: RunFolder, manifest: Manifest | None) -> RunIdentity:
    """Returns the identity of the run with this manifest; None stands for an unreadable manifest."""
    is_program = folder.path.name in layout.PROGRAM_MODES
    mode = "" if is_program else folder.path.name  # the bundle of a program holds its training and its test
    if manifest is None:
        return RunIdentity(algorithm=folder.label, mode=mode, state="unreadable")
    task, env_kwargs, view = ranked_task(manifest)
    algorithm = manifest.submission.name
    if manifest.models:  # with other language models it is another algorithm
        algorithm = f"{algorithm} ({', '.join(manifest.models)})"
    identity = RunIdentity(
        domain=manifest.domain,
        task=task,
        algorithm=algorithm,
        version=manifest.submission.sha256,
        fingerprint=manifest.env_fingerprint or "",
        mode=mode,
        seed=manifest.root_seed,
        state="unfinished" if manifest.state is RunState.RUNNING else manifest.state.value,
        env_kwargs=env_kwargs,
        view=view,
    )
    return _program_identity(folder, manifest, identity) if is_program else identity


def _program_identity(folder: RunFolder, manifest: Manifest, identity: RunIdentity) -> RunIdentity:
    """Returns the identity of a program's run; the record of its store counts before its manifest.

    The version covers the arguments of the program: with others it is another algorithm.
    """
    record = _program_record(folder)
    if record is not None:
        identity = replace(identity, algorithm=record.experiment, task=record.env_id or identity.task)
    if folder.path.name == "imported":
        seed = identity.seed if record is None else record.seed
        return replace(identity, version="" if record is None else record.version, seed=seed)
    words = "\0".join([manifest.submission.sha256, *program_arguments(manifest.command)])
    return replace(identity, version=hashlib.sha256(words.encode()).hexdigest())


def program_arguments(command: Sequence[str]) -> list[str]:
    """Returns the arguments of a recorded program without environment and seed.

    ``a2perf wrap SCRIPT ... -- ARGUMENTS`` and ``COMMAND... --env-id ENV --seed N`` are the two forms.
    """
    words = list(command)
    if words[:2] == ["a2perf", "wrap"]:
        return words[words.index("--") + 1 :] if "--" in words else []
    return words[:-4] if words[-4:-3] == ["--env-id"] and words[-2:-1] == ["--seed"] else words


def _program_record(folder: RunFolder) -> ExperimentRun | None:
    """Returns the record of the store beside a program's bundle; None if it is missing or unreadable."""
    files = files_of(folder.path.parent)
    try:
        if files.status(RUN_FILE) is None:
            return None
        return parse_record(files.read(RUN_FILE, MAX_RECORD_BYTES), ExperimentRun, RUN_FILE)
    except (UserError, OSError):
        return None


def _not_read(reader: BundleReader) -> list[str]:
    """Returns the files of distributions that are not installed."""
    found: dict[str, list[str]] = {}
    for name, distribution in layout.BROUGHT_BY.items():
        if reader.listed(name) and not is_installed(distribution):
            found.setdefault(distribution, []).append(name)
    return [f"{', '.join(names)}: needs {distribution}" for distribution, names in found.items()]


def _earlier_attempts(manifest: Manifest) -> list[str]:
    if len(manifest.attempts) < 2:
        return []
    ends = [attempt.outcome or "no outcome" for attempt in manifest.attempts[:-1]]
    counted = ", ".join(f"{ends.count(end)} x {end}" for end in dict.fromkeys(ends))
    return [f"attempt {len(manifest.attempts)} of this run; earlier attempts ended: {counted}"]


def _clipped(run: Run) -> list[str]:
    """Returns how many actions of the episodes were not in the action space."""
    episodes = [episode for of_task in run.episodes.values() for episode in of_task]
    clipped = sum(episode.clipped_actions for episode in episodes)
    steps = sum(episode.length for episode in episodes)
    return [f"{clipped:,} of {steps:,} actions were outside of the action space and were clipped"] if clipped else []


def _how_it_ended(manifest: Manifest) -> list[str]:
    if manifest.state is RunState.FINISHED:
        return []
    if manifest.state is RunState.FAILED and manifest.failure is not None:
        return [f"the run failed: {manifest.failure.kind.value} in {manifest.failure.where}"]
    if manifest.state is RunState.FAILED:
        return ["the run failed"]
    return ["the run is not finished; what it had measured is scored"]


def _rollouts(reader: BundleReader) -> Iterator[tuple[list[Episode], list[Episode], str, StepCosts | None]]:
    """Yields scored and further episodes with their task and costs; those of a killed run come from its journal."""
    manifest = reader.manifest
    folders = {"": layout.METRICS}
    for name in reader.below(layout.TASKS, (layout.ROLLOUTS_FILE, layout.JOURNAL)):
        folder = name.rpartition("/")[0]
        folders[folder.removeprefix(f"{layout.TASKS}/")] = folder
    for task, folder in sorted(folders.items()):
        name = task or (manifest.task if manifest is not None else "task")
        results = reader.record(f"{folder}/{layout.ROLLOUTS_FILE}", RolloutResults)
        if results is not None:
            yield results.episodes, results.further, results.task or name, results.costs
            continue
        journal = f"{folder}/{layout.JOURNAL}" if task else layout.JOURNAL
        found = reader.tolerant(journal, lambda name: _journalled(reader.files, name))
        if found and any(found):
            episodes, further = found
            missing = f"{folder}/{layout.ROLLOUTS_FILE} is not there"
            reader.conditions.append(f"{missing}; {len(episodes)} episode(s) of the journal")
            yield episodes, further, name, None


def _tracked_tasks(reader: BundleReader) -> dict[str, TrackingReport]:
    """Returns the tracking report of each task of a run with several tasks."""
    found = {}
    for name in reader.below(layout.TASKS, (layout.TRACKING_FILE,)):
        report = reader.tracking(name)
        if report is not None:
            found[name.removeprefix(f"{layout.TASKS}/").rpartition("/")[0]] = report
    return found


def _journalled(files: BundleFiles, name: str) -> tuple[list[Episode], list[Episode]]:
    """Returns the scored and the further episodes of a journal."""
    status = files.status(name)
    if status is None or status.size > MAX_JOURNAL_BYTES:
        raise ValueError(f"not a regular file of at most {MAX_JOURNAL_BYTES >> 30} GiB")
    by_kind: dict[str, dict[int, Episode]] = {SCORED_EPISODE: {}, FURTHER_EPISODE: {}}
    with files.open(name) as stream:
        values = 0
        for entry in journal_entries(stream):
            if (values := values + _EPISODE_VALUES) > MAX_VALUES:
                break
            if entry.get("kind") in by_kind:
                episode = msgspec.convert(entry.get("episode"), Episode)
                by_kind[entry["kind"]][episode.index] = episode
    scored, further = ([found[index] for index in sorted(found)] for found in by_kind.values())
    return scored, further


def _of_trace(reader: BundleReader) -> TrackingReport:
    """Returns a tracking report from the samples of the process tree, for a run that was killed before its own."""
    report = nothing_tracked()
    if not reader.is_there(layout.TRACE):
        return report
    table = table_of(reader.files, layout.TRACE, needs=("elapsed_s", "rss_bytes", "cpu_seconds"))
    reader.conditions += [f"{layout.TRACE}: {condition}" for condition in table.conditions]

    def sampled(column: str) -> Values:
        numbers = table.numbers(column)
        return as_finite(() if numbers is None else numbers)[0]

    known = 0
    for values, highest, mean in (
        (sampled("rss_bytes"), "rss_peak_bytes", "rss_mean_bytes"),
        (sampled("pss_bytes"), "pss_peak_bytes", "pss_mean_bytes"),
        (sampled("cpu_seconds"), "cpu_seconds", ""),
        (sampled("elapsed_s"), "wall_s", ""),
    ):
        if values.size:
            known += 1
            setattr(report, highest, float(values.max()))
            if mean:
                setattr(report, mean, float(values.mean()))
    if known:
        reader.conditions.append(f"no tracking report; memory and time are of {table.rows} sample(s) of the trace")
    return report


def _times(files: BundleFiles, name: str, calls: Mapping[str, str]) -> dict[str, Values]:
    arrays = read_arrays(files, name, tuple(calls))
    return {calls[key]: np.asarray(array, np.float64) * 1e-9 for key, array in arrays.items() if array.size}


def read_arrays(files: BundleFiles, name: str, keys: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Returns those of the named arrays that a compressed file holds, flat; nothing in it is unpickled.

    Raises:
        ValueError: the file is not such a file, or its arrays take more than 256 MiB.
        OSError: it cannot be read.
        zipfile.BadZipFile: it is damaged.
    """
    with files.open(name) as stream:
        with zipfile.ZipFile(stream) as archive:
            if sum(item.file_size for item in archive.infolist()) > _MAX_ARRAY_BYTES:
                raise ValueError(f"unpacks to more than {_MAX_ARRAY_BYTES >> 20} MiB")
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as arrays:
            return {key: np.asarray(arrays[key]).ravel() for key in keys if key in arrays.files}
