"""Train mode: runs and measures ``train()``; its artifacts stay in the bundle."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from a2perf.domains.availability import require_packages
from a2perf.metrics.trackers.sampler import Sampler
from a2perf.records import Failure, FailureKind, TrainResults
from a2perf.runs.bundles.bundle import Bundle
from a2perf.runs.bundles.layout import TRAIN_FILE
from a2perf.storage import write_record
from a2perf.submission.evaluator.playing import results
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from a2perf.submission.evaluator.process.participant_process import ParticipantProcess
from a2perf.submission.evaluator.process.participants import ParticipantFolders, Participants
from a2perf.submission.evaluator.process.session import open_mode, recorded_outcome, services_of
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.submission.evaluator.submitted import artifacts
from a2perf.submission.evaluator.submitted.identity import RunTask, new_manifest
from a2perf.submission.evaluator.tracking import tracking
from a2perf.submission.run_services import ServiceSession
from a2perf.submission.settings import Submission
from a2perf.system import KILL

_MOST_OUTSIDE_S, _MOST_OUTSIDE = 2.0, 0.1
"""Time outside of ``train()`` without a warning, in seconds and as a share of the whole."""

RETURNED, TIME_LIMIT, ENERGY_LIMIT = "returned", "time limit", "energy limit"
"""Exit reasons; a training run that reached a limit and left no artifacts has failed."""

_ENERGY_POLL_S = 0.1


def run(settings: Submission, *, force: bool = False, progress: RunProgress | None = None) -> int:
    """Runs ``train()`` of the submission into the bundle ``<root_dir>/train``.

    Returns:
        The exit status; not 0 if ``train()`` failed.

    Raises:
        MissingDependency: a package of the environment is not installed; nothing has been started.
    """
    progress = progress or RunProgress()
    task = RunTask.configured(str(settings.domain))
    if settings.shares_packages:
        require_packages([task.env_id])  # train() would fail as if the submission were wrong
    manifest = new_manifest(settings, task, episodes=0)
    bundle = open_mode(settings, manifest, progress, force=force)
    if isinstance(bundle, int):
        return bundle
    with recorded_outcome(bundle, progress) as outcome:
        outcome.reason = _train(settings, task, bundle, progress)
    return outcome.status


def _train(settings: Submission, task: RunTask, bundle: Bundle, progress: RunProgress) -> str:
    reason, timings = "failed", bundle.manifest.timings_s
    timings["train_call"] = 0.0
    try:
        with services_of(settings, bundle, progress.say) as services:
            reason = _trained(settings, task, bundle, progress, services)
        left = artifacts.count(bundle.artifacts, "train", settings.artifact_limit_bytes)
        if reason in (TIME_LIMIT, ENERGY_LIMIT) and not left.files:
            raise ParticipantFailure(_left_nothing(settings, bundle, reason))
    except ParticipantFailure as error:
        reason, left = error.failure.kind.value, _whatever_left(bundle)
        raise
    except BaseException:
        left = _whatever_left(bundle)
        raise
    finally:
        own_s = bundle.clock.train_ends()
        wall_s = bundle.earlier().train_s + own_s
        outside_s = max(0.0, own_s - timings["train_call"])
        timings["train"] = wall_s
        if outside_s > _MOST_OUTSIDE_S + _MOST_OUTSIDE * own_s:
            bundle.manifest.warnings.append(
                f"{outside_s:.1f} of {own_s:.1f} s of training passed outside of train(): while the interpreter started"
                " or after train() had returned; all of it counts"
            )
        write_record(
            bundle.metrics / TRAIN_FILE,
            TrainResults(
                wall_s=wall_s,
                participant_wall_s=own_s,
                call_wall_s=timings["train_call"],
                exit_reason=reason,
                artifact_bytes=left.size_bytes,
                artifact_files=left.files,
            ),
        )
        results.publish_from(bundle.path, "train", settings)
    progress.say(f"train(): {reason} after {wall_s:.1f} s, {outside_s:.1f} s of them outside of train()")
    return reason


def _trained(
    settings: Submission, task: RunTask, bundle: Bundle, progress: RunProgress, services: tuple[ServiceSession, ...]
) -> str:
    """Runs ``train()`` with the budgets that earlier attempts left; returns the exit reason.

    Time and energy are those of the participant's process tree, from its first instruction to its last.

    Raises:
        ParticipantFailure: ``train()`` failed for another reason than a limit.
    """
    earlier = bundle.earlier()
    limit_s = _rest(settings.train_time_limit_s, earlier.train_s)
    limit_kwh = _rest(settings.train_energy_limit_kwh, earlier.net_kwh)
    if limit_s == 0 or limit_kwh == 0:
        with tracking(settings, bundle):  # writes the record with the usage of the earlier attempts
            return TIME_LIMIT if limit_s == 0 else ENERGY_LIMIT
    folders = ParticipantFolders(
        root_dir=bundle.artifacts, artifacts=bundle.artifacts, logs=bundle.logs, bundle=bundle.path
    )
    tracker = tracking(settings, bundle)
    opened = Participants(settings, task, bundle.manifest, folders, mode="train", tracker=tracker, services=services)
    with opened as participants:
        process, sampler = participants.process, participants.sampler
        assert sampler is not None
        limit = "" if limit_s is None else f" (at most {limit_s:g} s)"
        progress.say(participants.level_text)
        progress.phase(f"training {settings.folder.name} on {task.name}{limit}")
        participants.mark("train")
        budget = None
        try:
            participants.start(time_limit_s=limit_s, on_started=bundle.clock.train_begins)
            bundle.manifest.timings_s["start"] = process.wall_s
            with _energy_budget(sampler, process.tree.pid, limit_kwh) as budget:
                began = time.perf_counter()
                try:
                    process.train(settings.participant_args)
                finally:
                    bundle.manifest.timings_s["train_call"] = time.perf_counter() - began
                participants.mark("end")
                participants.end_process()
            return _reason_of_end(process, budget)
        except ParticipantFailure as error:
            if error.failure.kind is FailureKind.TIMEOUT and process.exceeded_run_limit:
                raise
            if error.failure.kind is FailureKind.TIMEOUT or (budget is not None and budget.is_set()):
                return _reason_of_end(process, budget)
            raise
        finally:
            participants.end_process()
            bundle.clock.train_ends(process.wall_s)


@contextmanager
def _energy_budget(sampler: Sampler, pid: int, limit_kwh: float | None) -> Iterator[threading.Event]:
    """Ends a participant process that uses up its energy budget inside the context.

    Args:
        sampler: attached to the participant's tree. It is updated once per sampling interval, so a training run may
            exceed its budget by the energy of one interval.
        limit_kwh: energy above idle in kWh; ``None`` does not watch.

    Yields:
        An event that is set when the process was killed.
    """
    reached, over = threading.Event(), threading.Event()

    def watch() -> None:
        while limit_kwh is not None and not over.wait(_ENERGY_POLL_S):
            if sampler.net_kwh >= limit_kwh:
                reached.set()
                # Only the first process: its closed connection makes the evaluator end the rest of the tree.
                with suppress(ProcessLookupError):
                    os.kill(pid, KILL)
                return

    thread = threading.Thread(target=watch, name="a2perf-energy-budget", daemon=True)
    thread.start()
    try:
        yield reached
    finally:
        over.set()
        thread.join()


def _reason_of_end(process: ParticipantProcess, budget: threading.Event | None) -> str:
    if budget is not None and budget.is_set():
        return ENERGY_LIMIT
    return TIME_LIMIT if process.reached_time_limit else RETURNED


def _rest(limit: float | None, used: float) -> float | None:
    return None if limit is None else max(0.0, limit - used)


def _left_nothing(settings: Submission, bundle: Bundle, reason: str) -> Failure:
    if reason == ENERGY_LIMIT:
        limit = f"{settings.train_energy_limit_kwh:g} kWh (Submission.train_energy_limit_kwh)"
    else:
        limit = f"{settings.train_time_limit_s:g} s (Submission.train_time_limit_s)"
    message = f"it reached its limit of {limit} and was killed before it wrote any artifacts"
    log = bundle.logs / "stderr.log"
    return Failure(
        kind=FailureKind.TIMEOUT,
        where="train",
        message=message,
        log=str(log.relative_to(bundle.path)) if log.exists() else None,
    )


def _whatever_left(bundle: Bundle) -> artifacts.Left:
    """Counts the artifacts of a failed run; zero if they cannot be counted."""
    try:
        return artifacts.count(bundle.artifacts, "train", None)
    except ParticipantFailure:
        return artifacts.Left(0, 0)
