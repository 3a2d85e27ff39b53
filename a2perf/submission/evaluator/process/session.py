"""One supervised attempt at a run: records in the bundle how it ended, whatever happens.

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
from pathlib import Path
from typing import TypeAlias

from a2perf.constants import ExitCode
from a2perf.errors import ConfigError, UserError
from a2perf.records import Failure, FailureKind, Manifest, RunState
from a2perf.runs.bundles.bundle import Bundle, Finished, open_bundle
from a2perf.submission import configuration
from a2perf.submission.evaluator.process.confinement import parallel_tasks
from a2perf.submission.evaluator.process.failures import DISK_FULL, EnvironmentFailure, ParticipantFailure
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.submission.evaluator.submitted.folder_content import note_changes
from a2perf.submission.run_services import ServedRun, ServiceSession, open_services
from a2perf.submission.settings import Confinement, Episodes
from a2perf.system import POSIX, STOPPING, interrupt, resource

INTERRUPTED = 130
FILES, FILES_PER_EPISODE = 256, 16
"""Open files of a run, and of each concurrent episode: sockets, shared memory, logs, the kernel's clock."""

_DISK_IS_FULL = "no space left on the disk of the run directory; free some space and run the command again"

Sessions: TypeAlias = tuple[ServiceSession, ...]


def run_mode(
    settings: Episodes, root: Path, manifest: Manifest, progress: RunProgress, body: Callable[[Bundle], str], *,
    force: bool,
) -> int:  # fmt: skip
    """Runs one mode and writes its bundle. If the bundle is already finished, nothing runs and the status is success.

    Raises:
        UserError: the bundle belongs to another run, another process is writing it, or the run needs more open files
            than the user may have.
    """
    allow_open_files(settings, manifest.mode)
    opened = open_bundle(root / manifest.mode, manifest, configuration.text(), force=force)
    progress.opened(opened.path)
    gc.freeze()  # later collections need not look at the imported modules
    gc.enable()
    if isinstance(opened, Finished):
        progress.recorded(opened.path, opened.manifest.exit_reason or "")
        return int(ExitCode.SUCCESS)
    return supervise(opened, progress, lambda: body(opened))


def supervise(bundle: Bundle, progress: RunProgress, body: Callable[[], str]) -> int:
    """Runs ``body`` and records how it ended.

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
            kind=FailureKind.INFRASTRUCTURE, where=bundle.manifest.mode, message=message,
            traceback=traceback.format_exc(),
        )  # fmt: skip
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
    return status


def services_of(
    settings: Confinement, submission: Path, bundle: Bundle, say: Callable[[str], None]
) -> AbstractContextManager[Sessions]:
    """Opens the services of a recorded run, see ``run_services``, around its participant processes."""
    run = ServedRun(
        submission=submission,
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
