"""Generalization mode: evaluates one submission on every task, several tasks at a time.

Every task runs in a separate process, with its own environment, participant process and trackers. Its measurements are
in ``metrics/tasks/<task>/``, whatever happens to the other tasks.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import multiprocessing.connection
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from a2perf.domains.availability import require_packages
from a2perf.domains.registry import get_domain, stored_fingerprint
from a2perf.errors import ConfigError, UserError
from a2perf.fault_point import fault_point
from a2perf.metrics.protocol import fingerprint_of
from a2perf.metrics.trackers.host import describe_host
from a2perf.records import Failure, FailureKind, Manifest, PythonEnvRecord, Record, SandboxRecord
from a2perf.runs.bundles import attempts
from a2perf.runs.bundles.bundle import Bundle, participant_starts
from a2perf.runs.bundles.layout import JOURNAL, METRICS, OUTCOME_FILE, TRACKING_FILE
from a2perf.sandbox import level_text
from a2perf.sandbox.limits import oom_kills
from a2perf.storage import Journal, read_json, read_record, write_json, write_record
from a2perf.submission import configuration
from a2perf.submission.evaluator.inference import episode_seeds, training_artifacts
from a2perf.submission.evaluator.playing import results
from a2perf.submission.evaluator.playing.batch import play_in_batches
from a2perf.submission.evaluator.playing.episode_records import recorded_returns
from a2perf.submission.evaluator.playing.episodes import TaskEpisodes
from a2perf.submission.evaluator.playing.play import environment, play, play_concurrently
from a2perf.submission.evaluator.process.confinement import confinement, parallel_tasks
from a2perf.submission.evaluator.process.failures import EnvironmentFailure, ParticipantFailure
from a2perf.submission.evaluator.process.participant_python import participant_python
from a2perf.submission.evaluator.process.participant_spec import RunLimit
from a2perf.submission.evaluator.process.participants import ParticipantFolders, Participants, run_limit_of
from a2perf.submission.evaluator.process.session import open_mode, recorded_outcome, services_of
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.submission.evaluator.submitted import artifacts
from a2perf.submission.evaluator.submitted.identity import RunTask, new_manifest
from a2perf.submission.evaluator.tracking import tracker
from a2perf.submission.run_services import ServiceSession
from a2perf.submission.settings import Submission
from a2perf.system import end_with_parent, interrupt


class TaskOutcome(Record, kw_only=True):
    """``metrics/tasks/<task>/outcome.json``: how one task of the run ended, and how its participant was confined."""

    task: str
    episodes: int
    mean_return: float | None
    failure: Failure | None = None
    sandbox: SandboxRecord | None = None
    python_env: PythonEnvRecord | None = None
    warnings: list[str] = msgspec.field(default_factory=list)


@dataclass(frozen=True)
class _TaskRun:
    """Arguments of a task's process; has to be picklable."""

    settings: Submission
    task: RunTask
    manifest: Manifest
    config: str
    seeds: list[int]
    folder: Path
    folders: ParticipantFolders
    level: str
    run_limit: RunLimit
    services: tuple[ServiceSession, ...] = ()


def run(settings: Submission, *, force: bool = False, progress: RunProgress | None = None) -> int:
    """Evaluates the submission on all tasks of its domain, or on those listed.

    Returns:
        The exit status; 1 if a task failed.

    Raises:
        UserError: a task is unknown or its environment cannot be created.
    """
    progress = progress or RunProgress()
    domain = get_domain(str(settings.domain))
    names = list(settings.generalization_tasks or domain.generalization_tasks)
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"Submission.generalization_tasks lists {twice!r} twice", hint="list each task once")
    tasks = [RunTask.named(domain.name, name) for name in names]
    require_packages(task.env_id for task in tasks)
    for task in tasks:
        with environment(task):
            pass
    count = settings.num_generalization_episodes
    manifest = new_manifest(settings, RunTask(domain.name, "all", "", _shared(tasks)), episodes=count)
    manifest.env_kwargs = {"tasks": names}
    manifest.env_fingerprint = fingerprint_of({task.name: stored_fingerprint(task.env_id) for task in tasks})

    bundle = open_mode(settings, manifest, progress, force=force)
    if isinstance(bundle, int):
        return bundle
    with recorded_outcome(bundle, progress) as outcome:
        limit = run_limit_of(settings, bundle.manifest)
        runs = [_task_run(settings, task, stream, bundle, limit) for stream, task in enumerate(tasks)]
        with participant_python(settings, bundle.logs):  # built once here; the tasks' processes reuse it
            record = bundle.manifest.sandbox = confinement(settings, {}).record
            progress.say(level_text(record.level, settings.sandbox))
            participant_starts(bundle.path, bundle.manifest)
            with services_of(settings, bundle, progress.say) as services:
                _run_all(settings, runs, bundle, progress, services)
    return outcome.status


def _shared(tasks: Sequence[RunTask]) -> dict[str, Any]:
    """Returns the arguments of the environment that all tasks have in common."""
    return {
        name: value
        for task in tasks[:1]
        for name, value in task.env_kwargs.items()
        if all(name in other.env_kwargs and other.env_kwargs[name] == value for other in tasks)
    }


def _task_run(settings: Submission, task: RunTask, stream: int, bundle: Bundle, run_limit: RunLimit) -> _TaskRun:
    manifest = new_manifest(settings, task, episodes=settings.num_generalization_episodes)
    manifest.seeds = bundle.manifest.seeds  # those of the first attempt; all tasks share one key
    return _TaskRun(
        settings=settings,
        task=task,
        manifest=manifest,
        config=configuration.text(),
        seeds=episode_seeds(settings, manifest, settings.num_generalization_episodes, stream=stream),
        folder=bundle.path / METRICS / "tasks" / task.name,
        folders=ParticipantFolders(
            root_dir=training_artifacts(settings, bundle),
            artifacts=bundle.artifacts / task.name,
            logs=bundle.logs / task.name,
            bundle=bundle.path,
        ),
        level=confinement(settings, {}).record.level,
        run_limit=run_limit,
    )


def _run_all(
    settings: Submission,
    runs: list[_TaskRun],
    bundle: Bundle,
    progress: RunProgress,
    services: tuple[ServiceSession, ...],
) -> None:
    """Runs a process per task, some at a time, and collects what they record.

    Raises:
        ParticipantFailure: a task failed.
    """
    limit = parallel_tasks()
    waiting, outcomes = list(runs), []
    running: dict[Any, tuple[_TaskRun, Any]] = {}
    context = multiprocessing.get_context("spawn")
    kills = oom_kills()
    progress.phase(f"generalization of {settings.folder.name}, {limit} at a time", len(runs))
    try:
        while waiting or running:
            while waiting and len(running) < limit:
                item = waiting.pop(0)
                (item.folder / OUTCOME_FILE).unlink(missing_ok=True)  # of an earlier attempt
                given = dataclasses.replace(item, services=tuple(session.another() for session in services))
                process = context.Process(target=_run_task, args=(given, os.getpid()), name=item.task.name)
                process.start()
                for session in given.services:
                    session.close()  # the process has a copy
                running[process.sentinel] = (item, process)
            for sentinel in multiprocessing.connection.wait(list(running)):
                item, process = running.pop(sentinel)
                process.join()
                outcome = _outcome_of(item, process.exitcode, oom_killed=oom_kills() > kills)
                outcomes.append(outcome)
                progress.advance(len(outcomes))
                if outcome.failure is None:
                    ended = f"{outcome.episodes} episodes, mean return {outcome.mean_return:.2f}"
                else:
                    ended = f"failed ({outcome.failure.kind.value}): {outcome.failure.message}"
                progress.say(f"{outcome.task}: {ended}")
    finally:
        for _, process in running.values():
            process.terminate()
        for _, process in running.values():
            process.join()
    bundle.manifest.seeds["episodes_by_task"] = {item.task.name: item.seeds for item in runs}
    # Each task's process has its own copy of the manifest; its entries come back through the outcome file.
    recorded = (outcome.sandbox for outcome in outcomes if outcome.sandbox is not None)
    bundle.manifest.sandbox = next(recorded, bundle.manifest.sandbox)
    bundle.manifest.python_env = next((outcome.python_env for outcome in outcomes if outcome.python_env), None)
    bundle.manifest.warnings += [f"{outcome.task}: {text}" for outcome in outcomes for text in outcome.warnings]
    bundle.manifest.host = msgspec.to_builtins(describe_host())
    bundle.manifest.tracking = {
        item.task.name: read_json(item.folder / TRACKING_FILE)
        for item in runs
        if (item.folder / TRACKING_FILE).exists()
    }
    bundle.manifest.tracker_failures = [
        failure for report in bundle.manifest.tracking.values() for failure in report["failures"]
    ]
    results.publish_from(bundle.path, "generalization", settings)
    failed = {outcome.task: outcome.failure for outcome in outcomes if outcome.failure is not None}
    if failed:
        # A failure of the participant is a result. An infrastructure failure on another task, which would repeat the
        # run, must not give it a second chance.
        first = min(failed.values(), key=lambda failure: (failure.kind is FailureKind.INFRASTRUCTURE, failure.outside))
        names = ", ".join(f"{task} ({failure.kind.value})" for task, failure in failed.items())
        message = f"{len(failed)} of {len(outcomes)} tasks failed: {names}. First failure: {first.message}"
        raise ParticipantFailure(msgspec.structs.replace(first, message=message))
    artifacts.count(bundle.artifacts, "generalization", settings.artifact_limit_bytes)


def _run_task(item: _TaskRun, parent: int) -> None:
    """Main of a task's process."""
    end_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which ends this process with SIGTERM
    signal.signal(signal.SIGTERM, interrupt)
    configuration.restore(item.config)
    failure: Failure | None = None
    item.folder.mkdir(parents=True, exist_ok=True)
    journal = Journal(item.folder / JOURNAL)
    try:
        item.folders.artifacts.mkdir(parents=True, exist_ok=True)
        with (
            environment(item.task) as env,
            journal,
            Participants(
                item.settings,
                item.task,
                item.manifest,
                item.folders,
                mode="generalization",
                tracker=tracker(item.folder, item.settings, mode="generalization"),
                services=item.services,
                run_limit=item.run_limit,
                env=env,
            ) as participants,
        ):
            participants.load()
            fault_point("task: policy loaded")
            participants.mark("rollouts")
            episodes = TaskEpisodes(item.settings, item.task, item.seeds, journal, RunProgress(quiet=True))
            try:
                if not episodes.in_turn:
                    play_concurrently(episodes, participants)
                elif item.settings.batch == 1:
                    play(episodes, env, participants)
                else:
                    play_in_batches(episodes, env, participants)
            finally:
                participants.warn(episodes.write(item.folder))
            participants.mark("end")
    except ParticipantFailure as error:
        failure = error.failure
    except KeyboardInterrupt:
        return
    except EnvironmentFailure as error:
        failure = Failure(kind=FailureKind.INFRASTRUCTURE, where="environment", message=str(error))
    except (UserError, OSError) as error:
        failure = Failure(kind=FailureKind.INFRASTRUCTURE, where=item.task.name, message=str(error))
    returns = recorded_returns(journal)
    write_record(
        item.folder / OUTCOME_FILE,
        TaskOutcome(
            task=item.task.name,
            episodes=len(returns),
            mean_return=float(returns.mean()) if len(returns) else None,
            failure=failure,
            sandbox=item.manifest.sandbox,
            python_env=item.manifest.python_env,
            warnings=item.manifest.warnings,
        ),
    )


def _outcome_of(item: _TaskRun, exit_code: int | None, *, oom_killed: bool) -> TaskOutcome:
    path = item.folder / OUTCOME_FILE
    if path.exists():
        return read_record(path, TaskOutcome)
    failure = Failure(
        kind=FailureKind.INFRASTRUCTURE,
        where=item.task.name,
        message=f"the evaluator process of the task exited with status {exit_code} before it wrote an outcome",
        exit_code=exit_code,
        outside=attempts.killed_from_outside(-(exit_code or 0), item.level, oom_killed=oom_killed),
    )
    outcome = TaskOutcome(task=item.task.name, episodes=0, mean_return=None, failure=failure)
    write_json(path, msgspec.to_builtins(outcome))
    return outcome
