"""One supervised attempt at a run: whatever happens in it ends as an honest state in the bundle.

The participant's failure, the host's failure, an interrupt and a bug are told apart here, once, for every mode; what
was measured before stays where it was written.
"""

from __future__ import annotations

import errno
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from a2perf.constants import ExitCode
from a2perf.errors import UserError
from a2perf.records import Failure, FailureKind, Manifest, RunState
from a2perf.runs.bundle import Bundle, Finished, open_bundle
from a2perf.submission import configuration
from a2perf.submission.evaluator.failures import ParticipantFailure
from a2perf.submission.evaluator.folder_content import note_changes
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.submission.settings import Submission

INTERRUPTED = 130


def run_mode(
    settings: Submission, manifest: Manifest, progress: RunProgress, body: Callable[[Bundle], str], *, force: bool
) -> int:
    """Runs one mode into its bundle; a bundle that is finished already is a success and nothing runs.

    Args:
        settings: the run's configuration.
        manifest: of the run that is about to start.
        progress: where phases and failures are shown.
        body: the run; returns the exit reason of a success.
        force: archive an existing bundle and start again.

    Returns:
        The exit status, see ``supervise``.

    Raises:
        UserError: the bundle belongs to another run, or another process is writing it.
    """
    opened = open_bundle(settings.root / manifest.mode, manifest, configuration.text(), force=force)
    if isinstance(opened, Finished):
        progress.say(f"{opened.path} is already finished ({opened.manifest.exit_reason}); --force starts again")
        return int(ExitCode.SUCCESS)
    return supervise(opened, progress, lambda: body(opened))


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
