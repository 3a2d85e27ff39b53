"""One attempt at a run: opens its bundle and its services, and records how it ended, also if it failed.

Failures of the participant, failures of the host, interrupts and bugs are distinguished here, for every mode.
Measurements from before the failure are kept.
"""

from __future__ import annotations

import gc
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from a2perf.constants import ExitCode
from a2perf.errors import ConfigError, UserError
from a2perf.records import Failure, FailureKind, Manifest, RunState
from a2perf.runs.bundles import attempts
from a2perf.runs.bundles.bundle import Bundle, Finished, open_bundle
from a2perf.submission import configuration
from a2perf.submission.evaluator.process.confinement import parallel_tasks
from a2perf.submission.evaluator.process.failures import DISK_FULL, EnvironmentFailure, ParticipantFailure
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.submission.evaluator.submitted.folder_content import note_changes
from a2perf.submission.run_services import ServedRun, ServiceSession, open_services
from a2perf.submission.settings import Episodes, Submission
from a2perf.system import POSIX, STOPPING, interrupt, resource

INTERRUPTED = 130
FILES, FILES_PER_EPISODE = 256, 16
"""Open files of a run, and of each concurrent episode: sockets, shared memory, logs, the kernel's clock."""

_DISK_IS_FULL = "no space left on the disk of the run directory; free some space and run the command again"


@dataclass
class ModeOutcome:
    """How a run ended.

    Attributes:
        reason: the exit reason of the manifest; the body of ``recorded_outcome`` may set another one.
        status: the exit status: 0 success, 1 the participant failed, 2 usage, 3 infrastructure, 130 interrupted.
    """

    reason: str = "finished"
    status: int = int(ExitCode.SUCCESS)


def open_mode(settings: Submission, manifest: Manifest, progress: RunProgress, *, force: bool) -> Bundle | int:
    """Opens the bundle of one mode of a run; returns the exit status, which it reports, of a run that has ended.

    Raises:
        UserError: the bundle belongs to another run, another process is writing it, or the run needs more open files
            than the user may have.
    """
    allow_open_files(settings, manifest.mode)
    path, text = settings.root / manifest.mode, configuration.text()
    opened = open_bundle(path, manifest, text, force=force, may_restart=attempts.may_restart)
    progress.opened(opened.path)
    gc.freeze()  # later collections need not look at the imported modules
    gc.enable()
    if isinstance(opened, Finished):
        return _ended_before(opened, progress)
    return opened


@contextmanager
def recorded_outcome(bundle: Bundle, progress: RunProgress) -> Iterator[ModeOutcome]:
    """Records in the bundle how the block ended, and shows it. Exceptions of the block end here."""
    outcome = ModeOutcome()
    failure: Failure | None = None
    state, status, reason = RunState.FAILED, int(ExitCode.INFRASTRUCTURE), ""
    try:
        with _signals_interrupt(), bundle.clock.beating():
            yield outcome
        state, status, reason = RunState.FINISHED, int(ExitCode.SUCCESS), outcome.reason
    except ParticipantFailure as error:
        failure, reason = error.failure, error.failure.kind.value
        status = int(
            ExitCode.INFRASTRUCTURE if failure.kind is FailureKind.INFRASTRUCTURE else ExitCode.PARTICIPANT_FAILED
        )
        state = RunState.INTERRUPTED if failure.outside or failure.resumable else RunState.FAILED
    except KeyboardInterrupt:
        state, status, reason = RunState.INTERRUPTED, INTERRUPTED, "interrupted"
    except UserError as error:
        broken = error.exit_code is ExitCode.PARTICIPANT_FAILED  # the submission violates the contract
        kind = FailureKind.CONTRACT if broken else FailureKind.INFRASTRUCTURE
        failure = Failure(kind=kind, where=bundle.manifest.mode, message=error.text)
        # The caller's settings were checked earlier. A usage error after the participant has started may be its doing.
        late = bundle.manifest.attempts[-1].participant_started_at is not None
        usage = error.exit_code is ExitCode.USAGE and not late
        if bundle.resumed and not late:
            state = RunState.INTERRUPTED  # a model server that is down must not archive what earlier attempts measured
        status = int(ExitCode.INFRASTRUCTURE if late and not broken else error.exit_code)
        reason = "configuration" if usage else kind.value
    except EnvironmentFailure as error:
        failure = Failure(
            kind=FailureKind.INFRASTRUCTURE, where="environment", message=str(error), traceback=traceback.format_exc()
        )
        reason = "environment"
    except Exception as error:
        message = f"error in a2perf: {type(error).__name__}: {error}".rstrip(": ")
        if isinstance(error, OSError):
            message = _DISK_IS_FULL if error.errno in DISK_FULL else f"error of the operating system: {error}"
        failure = Failure(
            kind=FailureKind.INFRASTRUCTURE,
            where=bundle.manifest.mode,
            message=message,
            traceback=traceback.format_exc(),
        )
        reason = "infrastructure"
    progress.close()
    note_changes(bundle.manifest, bundle.path.parent)
    try:
        bundle.finish(state, exit_code=status, reason=reason, failure=failure)
    except OSError as error:
        # On a full disk the journal and the previous manifest are still readable, so report the failure and continue.
        print(f"the manifest of {bundle.path} could not be written: {error.strerror}", file=sys.stderr)
        status = int(ExitCode.INFRASTRUCTURE)
    if failure is not None:
        _show(progress, bundle.path, failure, reason)
    elif state is RunState.INTERRUPTED:
        progress.say(f"interrupted; the results so far are in {bundle.path}. Run the same command again to resume")
    outcome.reason, outcome.status = reason, status


def services_of(
    settings: Submission, bundle: Bundle, say: Callable[[str], None]
) -> AbstractContextManager[tuple[ServiceSession, ...]]:
    """Opens the services of a recorded run, see ``run_services``, around its participant processes."""
    run = ServedRun(
        submission=settings.folder,
        folder=bundle.path,
        logs=bundle.logs,
        attempt=bundle.manifest.attempts[-1].number,
        passed_variables=settings.pass_environment,
        warn=bundle.manifest.warnings.append,
        say=say,
    )
    return open_services(settings.services or (), run)


def allow_open_files(settings: Episodes, mode: str) -> None:
    """Raises the soft limit on this process's open files, if the concurrent episodes of a run need it.

    The relay of a service and the participants inherit the limit.

    Raises:
        ConfigError: the user may not open so many files.
    """
    episodes = settings.concurrent_episodes
    if mode == "generalization" and episodes > 1:
        episodes *= parallel_tasks()
    if not POSIX:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES + FILES_PER_EPISODE * episodes
    if episodes == 1 or soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        most = max(1, (hard - FILES) // FILES_PER_EPISODE)
        raise ConfigError(
            f"{episodes} concurrent episodes need {wanted} open files, and this user may open {hard}",
            hint=f"use --concurrent-episodes {most} or less, or raise `ulimit -Hn`",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Turns SIGTERM and SIGHUP into KeyboardInterrupt: a terminated run then still writes its final manifest."""
    previous = {number: signal.signal(number, interrupt) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _ended_before(ended: Finished, progress: RunProgress) -> int:
    """Reports a run that has ended, and returns its exit status."""
    manifest = ended.manifest
    if manifest.state is not RunState.FAILED:
        progress.recorded(ended.path, manifest.exit_reason or "")
        return int(ExitCode.SUCCESS)
    failure = manifest.failure
    of_host = failure is None or failure.kind is FailureKind.INFRASTRUCTURE
    if failure is not None:
        _show(progress, ended.path, failure, manifest.exit_reason or "")
    option = attempts.RETRY_INFRASTRUCTURE if of_host else attempts.RETRY_FAILED
    progress.failed(f"this is the recorded end of the same run; {option} or --force starts it again")
    return int(ExitCode.INFRASTRUCTURE if of_host else ExitCode.PARTICIPANT_FAILED)


def _show(progress: RunProgress, path: Path, failure: Failure, reason: str) -> None:
    cause = "the host" if failure.kind is FailureKind.INFRASTRUCTURE else "the submission"
    if failure.where == "environment":
        cause = "the run"
    if reason == "configuration":
        text = f"the configuration of {failure.where} is not valid: {failure.message}"
    else:
        text = f"{cause} failed in {failure.where} ({failure.kind.value}): {failure.message}"
    progress.failed(text)
    if failure.traceback:
        progress.failed(failure.traceback.rstrip().removesuffix(failure.message).rstrip())  # the reason is above
    if failure.log:
        progress.failed(f"output of the submission: {path / failure.log}")
