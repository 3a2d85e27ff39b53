"""Train mode: runs and measures ``train()``; its artifacts stay in the bundle."""

from __future__ import annotations

import time

from a2perf.records import Failure, FailureKind, TrainResults
from a2perf.runs.bundle import Bundle
from a2perf.runs.layout import TRAIN_FILE
from a2perf.storage import write_record
from a2perf.submission.evaluator import artifacts, results
from a2perf.submission.evaluator.energy_budget import ENERGY_LIMIT, energy_budget
from a2perf.submission.evaluator.failures import ParticipantFailure
from a2perf.submission.evaluator.identity import RunTask, new_manifest
from a2perf.submission.evaluator.model_relay.handle import RelayCaller, model_relay
from a2perf.submission.evaluator.participants import ParticipantFolders, Participants
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.submission.evaluator.session import run_mode
from a2perf.submission.evaluator.tracking import tracking
from a2perf.submission.settings import Submission

RETURNED = "returned"
TIME_LIMIT = "time limit"
"""Exit reason of a training run that reached its time limit and left artifacts; without artifacts it fails."""


def run(settings: Submission, *, force: bool = False, progress: RunProgress | None = None) -> int:
    """Runs ``train()`` of the submission into the bundle ``<root_dir>/train``.

    Returns:
        The exit status; not 0 if ``train()`` failed.
    """
    progress = progress or RunProgress()
    task = RunTask.configured(str(settings.domain))
    manifest = new_manifest(settings, task, episodes=0)
    return run_mode(settings, manifest, progress, lambda bundle: _train(settings, task, bundle, progress), force=force)


def _train(settings: Submission, task: RunTask, bundle: Bundle, progress: RunProgress) -> str:
    started = time.perf_counter()
    reason = "failed"
    try:
        with model_relay(settings, bundle, progress.say) as relay:
            reason = _trained(settings, task, bundle, progress, None if relay is None else relay.caller)
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
        wall_s = bundle.earlier().train_s + bundle.clock.train_ends()
        bundle.manifest.timings_s["train"] = wall_s
        write_record(
            bundle.metrics / TRAIN_FILE,
            TrainResults(
                wall_s=wall_s,
                participant_wall_s=time.perf_counter() - started,
                exit_reason=reason,
                artifact_bytes=left.size_bytes,
                artifact_files=left.files,
            ),
        )
        results.publish(bundle, settings)
    progress.say(f"train(): {reason} after {wall_s:.1f} s")
    return reason


def _trained(
    settings: Submission, task: RunTask, bundle: Bundle, progress: RunProgress, model: RelayCaller | None
) -> str:
    """Runs ``train()`` with the budgets that earlier attempts left; returns the exit reason.

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
    opened = Participants(settings, task, bundle.manifest, folders, mode="train", tracker=tracker, model=model)
    with opened as participants:
        participant, sampler = participants.start(), participants.sampler
        assert sampler is not None
        limit = "" if limit_s is None else f" (at most {limit_s:g} s)"
        progress.phase(f"training {settings.folder.name} on {task.name}{limit}")
        participants.mark("train")
        bundle.clock.train_begins()
        budget = None
        try:
            with energy_budget(sampler, participant.pid, limit_kwh) as budget:
                participant.train(settings.participant_args, time_limit_s=limit_s)
                return RETURNED
        except ParticipantFailure as error:
            if budget is not None and budget.reached:
                return ENERGY_LIMIT
            if error.failure.kind is FailureKind.TIMEOUT:
                return TIME_LIMIT
            raise
        finally:
            bundle.clock.train_ends()
            participants.mark("end")


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
        kind=FailureKind.TIMEOUT, where="train", message=message,
        log=str(log.relative_to(bundle.path)) if log.exists() else None,
    )  # fmt: skip


def _whatever_left(bundle: Bundle) -> artifacts.Left:
    """Counts the artifacts of a failed run; zero if they cannot be counted."""
    try:
        return artifacts.count(bundle.artifacts, "train", None)
    except ParticipantFailure:
        return artifacts.Left(0, 0)
