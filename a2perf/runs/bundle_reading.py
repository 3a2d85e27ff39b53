"""Reading a2perf's own bundles. Files are read independently: a damaged one does not affect the others."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from a2perf.arrays import Values, as_finite
from a2perf.errors import UserError
from a2perf.plugins import is_installed
from a2perf.records import (
    LatencyResults,
    Manifest,
    RunState,
    TrainResults,
)
from a2perf.runs.bundles import agreement, inventory, layout
from a2perf.runs.bundles.bundle_reader import BundleReader, read_arrays
from a2perf.runs.bundles.files import BundleFiles, files_of
from a2perf.runs.bundles.run_record import RUN_FILE, ExperimentRun
from a2perf.runs.bundles.tables import read_emissions, table_of
from a2perf.runs.dataset_notes import read_notes
from a2perf.runs.events.log_files import LogKind, find_logs
from a2perf.runs.events.series_cache import SeriesCache
from a2perf.runs.reproduction import mark_of
from a2perf.runs.run import Run, RunFolder, RunIdentity
from a2perf.runs.seed_groups import ranked_task
from a2perf.runs.series import SeriesReader, read_returns
from a2perf.runs.tracking_record import TrackingReport, nothing_tracked, read_tracking, summed
from a2perf.storage import (
    MAX_RECORD_BYTES,
    parse_record,
)
from a2perf.stranger_files import Kind

_CALLS = ("infer_once", "preprocess_observation", "round_trip", "processor_time")
_TIMED = {"infer_ns": "infer_once", "preprocess_ns": "preprocess_observation"}
_STEPS = {"round_trip_ns": "round_trip", "cpu_ns": "processor_time", **_TIMED}
_MAX_CHANGES = 10


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
    if wrong := agreement.disagreements(reader):
        run.changed = True
        run.conditions += [f"{agreement.NOT_COUNTED}: {text}" for text in wrong[:_MAX_CHANGES]]
        return run
    mode = run.identity.mode
    is_program = folder.path.name in layout.PROGRAM_MODES
    tracking = reader.tracking(layout.TRACKING)
    if tracking is None and is_program and manifest is not None and manifest.tracking:
        tracking = read_tracking(manifest.tracking, [])
    if tracking is None:
        run.tracking_by_task = _tracked_tasks(reader)
        tracking = summed(list(run.tracking_by_task.values())) or _of_trace(reader)
    run.tracking = tracking
    for name, evaluation in reader.evaluations.items():
        results, episodes = evaluation.results, evaluation.episodes
        task = name if results is None else results.task or name
        run.episodes[task] = episodes
        if results is not None and results.costs is not None and results.costs.steps > 0:
            run.step_costs[task] = results.costs
        if evaluation.further:
            run.further[task] = evaluation.further
        ranked = run.identity.task if manifest is not None and task == manifest.task else task
        returns = np.array([episode.episode_return for episode in episodes], np.float64)
        run.returns.setdefault(mode, {})[ranked] = returns
        if episodes and all(episode.success is not None for episode in episodes):
            successes = np.array([float(bool(episode.success)) for episode in episodes])
            run.successes.setdefault(mode, {})[ranked] = successes
    run.conditions += _clipped(run)
    run.conditions += _not_read(reader)
    if mode == "inference":
        timed = reader.tolerant(layout.LATENCY_VALUES, lambda name: _times(reader.files, name, _TIMED)) or {}
        # A policy can tell timed calls from scored ones, so these do not stand in for missing steps.
        steps = reader.tolerant(layout.STEPS, lambda name: _times(reader.files, name, _STEPS)) or {}
        run.latency_s, run.has_timed_calls = steps | timed, bool(timed)
        if "infer_once" in steps:  # it is timed in every step: the first one is the first call
            run.latency_first_s = {call: float(seconds[0]) for call, seconds in steps.items()}
        latency = reader.record(layout.LATENCY, LatencyResults)
        for call in _CALLS:
            summary = getattr(latency, call, None)
            if summary is not None:
                run.latency_first_s[call] = summary.first_s
    if reader.is_there(layout.emissions(mode)):
        run.emissions[mode], conditions = read_emissions(reader.files, [layout.emissions(mode)])
        run.conditions += conditions
    if mode == "train" or is_program:
        trained = reader.record(layout.TRAIN, TrainResults)
        run.wall_clock_s = None if trained is None else trained.wall_s
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
        version=manifest.submission.version,
        policy=manifest.submission.policy_sha256,
        fingerprint=manifest.env_identity,
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


def _tracked_tasks(reader: BundleReader) -> dict[str, TrackingReport]:
    """Returns the tracking report of each task of a run with several tasks."""
    found = {}
    for name in reader.below(layout.TASKS, (layout.TRACKING_FILE,)):
        report = reader.tracking(name)
        if report is not None:
            found[name.removeprefix(f"{layout.TASKS}/").rpartition("/")[0]] = report
    return found


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
