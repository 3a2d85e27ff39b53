"""One supervised attempt at a run: whatever happens in it ends as an honest state in the bundle.

The participant's failure, the host's failure, an interrupt and a bug are told apart here, once, for every mode; what
was measured before stays where it was written.
"""

from __future__ import annotations

import errno
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from a2perf import assets
from a2perf.constants import ExitCode
from a2perf.domains.registry import get_domain
from a2perf.errors import SubmissionError, UserError
from a2perf.metrics.trackers.emissions import resolve_settings
from a2perf.metrics.trackers.host import describe_host
from a2perf.metrics.trackers.sampler import Sampler
from a2perf.records import Attempt, Failure, FailureKind, Manifest, RunState
from a2perf.runs.attempts import with_earlier
from a2perf.runs.bundle import Bundle, participant_starts
from a2perf.storage import write_json
from a2perf.submission.evaluator import disk_space
from a2perf.submission.evaluator.confinement import confinement
from a2perf.submission.evaluator.folder_content import note_changes
from a2perf.submission.evaluator.identity import RunTask, participant_environment
from a2perf.submission.evaluator.participant_process import ParticipantFailure, ParticipantProcess
from a2perf.submission.evaluator.participant_python import participant_python
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.submission.settings import Submission

INTERRUPTED = 130


def supervise(bundle: Bundle, progress: RunProgress, body: Callable[[], str]) -> int:
    """Runs ``body`` and records how it ended.

    Args:
        bundle: the open bundle; it is finished when this returns.
        progress: where a failure is said.
        body: the run; returns the exit reason of a success.

    Returns:
        The exit status: 0 success, 1 the participant failed, 2 usage, 3 infrastructure, 130 interrupted.
    """
    failure: Failure | None = None
    state, status, reason = RunState.FAILED, int(ExitCode.INFRASTRUCTURE), ""
    try:
        with _signals_interrupt(), bundle.clock.beating():
            reason = body()
        state, status = RunState.FINISHED, int(ExitCode.SUCCESS)
    except ParticipantFailure as error:
        failure, reason = error.failure, error.failure.kind.value
        status = int(
            ExitCode.INFRASTRUCTURE if failure.kind is FailureKind.INFRASTRUCTURE else ExitCode.PARTICIPANT_FAILED
        )
        state = RunState.INTERRUPTED if failure.outside else RunState.FAILED
    except KeyboardInterrupt:
        state, status, reason = RunState.INTERRUPTED, INTERRUPTED, "interrupted"
    except UserError as error:
        broken = error.exit_code is ExitCode.PARTICIPANT_FAILED  # the submission does not keep the contract
        kind = FailureKind.CONTRACT if broken else FailureKind.INFRASTRUCTURE
        failure = Failure(kind=kind, where=bundle.manifest.mode, message=str(error))
        # What the caller gave was checked before: a later error of this kind can be the participant's doing.
        late = bundle.manifest.attempts[-1].participant_started_at is not None
        usage = error.exit_code is ExitCode.USAGE and not late
        status = int(ExitCode.INFRASTRUCTURE if late and not broken else error.exit_code)
        reason = "configuration" if usage else kind.value
    except OSError as error:
        failure, reason = _host_failure(bundle.manifest.mode, error), "infrastructure"
    except Exception as error:
        failure = Failure(
            kind=FailureKind.INFRASTRUCTURE,
            where=bundle.manifest.mode,
            message=f"a2perf itself failed: {type(error).__name__}: {error}",
            traceback=traceback.format_exc(),
        )
        reason = "infrastructure"
    progress.close()
    note_changes(bundle.manifest, bundle.path.parent)
    try:
        bundle.finish(state, exit_code=status, reason=reason, failure=failure)
    except OSError as error:
        # A full disk must not hide what happened: the journal and the last manifest are still readable.
        print(f"the manifest of {bundle.path} could not be written: {error.strerror}", file=sys.stderr)
        status = int(ExitCode.INFRASTRUCTURE)
    if failure is not None:
        _tell(progress, bundle.path, failure, reason)
    elif state is RunState.INTERRUPTED:
        progress.say(f"interrupted; what was measured is in {bundle.path}, the same command resumes it")
    return status


@contextmanager
def participant_process(
    settings: Submission,
    task: RunTask,
    manifest: Manifest,
    *,
    mode: str,
    root_dir: Path,
    artifacts: Path,
    logs: Path,
    bundle_path: Path,
) -> Iterator[ParticipantProcess]:
    """Makes the (not yet started) participant process of a run, and ends it; its warnings go into the manifest.

    Args:
        settings: the run's configuration.
        task: the environment it is told of.
        manifest: gets the sandbox's level and guarantees, and the Python that runs the participant.
        mode: ``"train"`` imports train.py, any other mode inference.py.
        root_dir: its ``ROOT_DIR``.
        artifacts: its ``A2PERF_ARTIFACTS``, which it may write.
        logs: where its output is captured.
        bundle_path: the bundle's folder; paths of logs are recorded relative to it.

    Raises:
        UserError: the sandbox cannot be had on this host, or the submission's environment cannot be built.
    """
    with participant_python(settings, logs) as chosen:
        manifest.python_env = chosen.record
        environment = participant_environment(settings, task, manifest, root_dir=root_dir)
        confined = confinement(settings, environment)
        _refuse_uncovered(manifest, confined.sandbox.level)
        process = ParticipantProcess(
            settings.folder,
            mode=mode,
            python=chosen.python,
            python_files=chosen.readable,
            sandbox=confined.sandbox,
            environment=environment,
            artifacts=artifacts,
            readable=confined.readable,
            hidden=confined.hidden,
            devices=confined.devices,
            network=confined.network,
            log_dir=logs,
            log_base=bundle_path,
            before_code=lambda: participant_starts(bundle_path, manifest),
            on_full_disk=lambda: disk_space.use_reserve(bundle_path),
            assets=assets.available(get_domain(task.domain).assets),
            limits=confined.limits,
            load_timeout_s=settings.load_timeout_s,
        )
        manifest.sandbox = confined.record
        try:
            with process:
                yield process
        finally:
            manifest.warnings += process.warnings


def _refuse_uncovered(manifest: Manifest, level: str) -> None:
    """Notes what the submission's hash does not cover though the participant can read it.

    Raises:
        SubmissionError: links lead out of the submission, and the level neither hides what they lead to nor is meant
            for one's own code only.
    """
    if level not in ("none", "process") or not manifest.submission.not_covered:
        return
    links = [text for text in manifest.submission.not_covered if " -> " in text]
    if links and level == "process":
        raise SubmissionError(
            f"links lead out of the submission, and its hash cannot cover what they lead to: {', '.join(links)}",
            hint="copy the files into the folder, or choose the level bubblewrap, which hides what is outside",
        )
    manifest.warnings.append(
        f"the submission's hash does not cover what the level {level!r} lets it read: "
        + ", ".join(manifest.submission.not_covered)
    )


@contextmanager
def tracking(settings: Submission, bundle: Bundle, *, energy_mode: str) -> Iterator[Sampler]:
    """Tracks the participant's process tree of a bundle; its main numbers go into the manifest too."""
    with tracker_of(settings, bundle.metrics, energy_mode=energy_mode, attempts=bundle.manifest.attempts) as sampler:
        bundle.clock.follow_energy(lambda: sampler.net_kwh)
        try:
            yield sampler
        finally:
            data = msgspec.to_builtins(sampler.stop())
            last = bundle.manifest.attempts[-1]
            last.net_kwh, last.gross_kwh = data["energy"]["net_kwh"], data["energy"]["gross_kwh"]
            record_tracking(bundle.manifest, with_earlier(data, bundle.manifest.attempts))


@contextmanager
def tracker_of(
    settings: Submission, directory: Path, *, energy_mode: str, attempts: Sequence[Attempt] = ()
) -> Iterator[Sampler]:
    """Tracks a participant's process tree; the report lands in ``tracking.json`` whatever happens.

    Args:
        settings: the run's configuration.
        directory: where the files go.
        energy_mode: the mode, which names the emissions file.
        attempts: of the run; time, energy and emissions of the report are sums over them.
    """
    sampler = Sampler(
        directory=directory,
        mode=energy_mode,
        interval_s=settings.sampling_interval_s or 1.0,
        settings=resolve_settings(),
        with_codecarbon=settings.measure_emissions,
    )
    sampler.prepare()
    try:
        yield sampler
    finally:
        write_json(directory / "tracking.json", with_earlier(msgspec.to_builtins(sampler.stop()), attempts))


def record_tracking(manifest: Manifest, data: dict[str, Any]) -> None:
    """Copies the main numbers of a tracking report into the manifest."""
    manifest.tracking = data
    manifest.tracker_failures = list(data.get("failures", []))
    manifest.host = msgspec.to_builtins(describe_host())
    if warning := data.get("account", {}).get("warning"):
        manifest.warnings.append(str(warning))
    host = data.get("host", {})
    if host.get("noisy"):
        manifest.warnings.append(f"noisy host: {'; '.join(host.get('reasons', []))}")


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Turns SIGTERM and SIGHUP into KeyboardInterrupt, so that a polite end leaves a finished manifest."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    previous = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _host_failure(where: str, error: OSError) -> Failure:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        message = "no space left on the device that holds the run; free some"
    else:
        message = f"the host refused: {error}"
    return Failure(kind=FailureKind.INFRASTRUCTURE, where=where, message=message, traceback=traceback.format_exc())


def _tell(progress: RunProgress, path: Path, failure: Failure, reason: str) -> None:
    whose = "the host" if failure.kind is FailureKind.INFRASTRUCTURE else "the submission"
    if reason == "configuration":
        progress.say(f"{failure.where} cannot be run as configured: {failure.message}")
    else:
        progress.say(f"{whose} failed in {failure.where} ({failure.kind.value}): {failure.message}")
    if failure.traceback:
        progress.say(failure.traceback.rstrip())
    if failure.log:
        progress.say(f"its output: {path / failure.log}")
