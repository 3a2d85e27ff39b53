"""What the end of a job means: a result, a failure, and whether the run is retried automatically.

Only failures that the participant cannot cause are retried. Before its first instruction these are all failures.
Afterwards they are the failures that the launcher knows to come from outside the run, and an external kill if the
sandbox keeps the participant from signalling the evaluator. Any other failure is final: a participant that can trigger
a retry could try the same seeds until it likes the result.
"""

from __future__ import annotations

import contextlib
import datetime
import socket
from dataclasses import replace
from pathlib import Path

from a2perf.constants import ExitCode
from a2perf.errors import UserError
from a2perf.launch.interface import Cause, ExitStatus
from a2perf.launch.queue_entry import INFRASTRUCTURE, AttemptOutcome, QueueEntry
from a2perf.launch.run_spec import RunCommand
from a2perf.records import Attempt, Episode, Failure, FailureKind, Manifest, RolloutResults, RunState
from a2perf.runs.bundles import inventory, layout
from a2perf.runs.bundles.attempts import OUT_OF_REACH
from a2perf.runs.bundles.bundle import record_end
from a2perf.runs.bundles.bundle_reader import BundleReader
from a2perf.runs.bundles.files import files_of
from a2perf.runs.bundles.run_record import MODES

_INTERRUPTED = 130  # exit status of a command that was interrupted
_FINAL = "not retried automatically because its participant had started (--retry infrastructure runs it again)"


def classify(entry: QueueEntry, ended: ExitStatus) -> AttemptOutcome:
    """Returns what the end of a job means for its run.

    The exit status and the manifest of the bundle decide together; if they disagree, the infrastructure failed. A
    command without a bundle is judged by its exit status alone: 0 finished, 3 and 130 infrastructure, others failed.
    """
    bundle, code = _bundle_of(entry), ended.exit_code
    if bundle is None:
        return _by_exit_status(ended)
    manifest = read_manifest(bundle)
    attempt = _attempt(entry, manifest)
    if ended.timed_out:
        _record(bundle, manifest, FailureKind.TIMEOUT, ended.reason, int(ExitCode.PARTICIPANT_FAILED))
        return AttemptOutcome(False, FailureKind.TIMEOUT.value, ended.reason, int(ExitCode.PARTICIPANT_FAILED))
    failure = None if manifest is None or manifest.state is not RunState.FAILED else manifest.failure
    if ended.lost:
        # A recorded failure stands, even if the evaluator died afterwards.
        if failure is not None and attempt is not None and failure.kind is not FailureKind.INFRASTRUCTURE:
            return _failed(failure)
        return _infrastructure(bundle, manifest, attempt, ended, ended.reason)
    if code == 0 and manifest is not None and manifest.state is RunState.FINISHED:
        return AttemptOutcome(True, reason=manifest.exit_reason or "", exit_code=0)
    if code == int(ExitCode.PARTICIPANT_FAILED) and failure is not None:
        return _failed(failure)
    if code == int(ExitCode.USAGE):
        reason = _refusal(entry.command.log) if failure is None else failure.message
        return AttemptOutcome(False, "configuration", reason, code)
    if failure is not None and failure.kind is FailureKind.INFRASTRUCTURE:
        return _infrastructure(bundle, manifest, attempt, ended, failure.message)
    reason = ended.reason or f"its evaluator ended with status {code} and left no finished bundle"
    return _infrastructure(bundle, manifest, attempt, ended, reason)


def classify_single(command: RunCommand, began: float, ended: ExitStatus) -> ExitStatus:
    """Returns how a single run ended, by the rules for a run among many; records the end that its evaluator could not.

    Args:
        began: time at which it was started, as of ``time.time()``.
    """
    flags = command.evaluator_flags() or ()
    if "--root-dir" not in flags:
        return ended
    root = command.cwd / Path(flags[flags.index("--root-dir") + 1]).expanduser()
    entry = QueueEntry(command.name, command, {"root": str(root)}, started=began)
    outcome = classify(entry, ended)
    if ended.timed_out:
        return replace(ended, exit_code=int(ExitCode.PARTICIPANT_FAILED))
    if outcome.kind != INFRASTRUCTURE or outcome.repeatable or ended.exit_code == ExitCode.INFRASTRUCTURE:
        return ended
    bundle = _bundle_of(entry)
    manifest = None if bundle is None else read_manifest(bundle)
    failure = None if manifest is None else manifest.failure
    where = "" if failure is None else f"the run failed in {failure.where} ({failure.kind.value}): "
    return replace(ended, exit_code=int(ExitCode.INFRASTRUCTURE), reason=f"{where}{outcome.reason}")


def _ended_itself(ended: ExitStatus) -> bool:
    return ended.cause is Cause.OWN and ended.exit_code != _INTERRUPTED


def _unfinished(manifest: Manifest, ended: ExitStatus) -> Failure:
    """Returns the failure of a run if its evaluator ended itself: code in its process did that."""
    reason = ended.reason or f"its evaluator ended with status {ended.exit_code} and left no finished bundle"
    level = None if manifest.sandbox is None else manifest.sandbox.level
    # Below these levels the participant can have ended it with a signal.
    outside = ended.exit_code is not None or level in OUT_OF_REACH
    where = "environment" if outside else manifest.mode
    return Failure(kind=FailureKind.INFRASTRUCTURE, where=where, message=reason)


def recorded(entry: QueueEntry) -> AttemptOutcome | None:
    """Returns the failure that a lost entry's bundle recorded before its launcher died, or ``None``.

    If the evaluator recorded a failure, the run has ended, although no launcher reported it to the queue.
    """
    bundle = _bundle_of(entry)
    manifest = None if bundle is None else read_manifest(bundle)
    if manifest is None or manifest.state is not RunState.FAILED or _attempt(entry, manifest) is None:
        return None
    failed = ExitCode.PARTICIPANT_FAILED
    return classify(entry, ExitStatus(int(failed) if manifest.exit_code is None else manifest.exit_code))


def read_manifest(bundle: Path) -> Manifest | None:
    """Returns the manifest of a bundle; ``None`` if it is missing or unreadable."""
    try:
        return inventory.read_manifest(bundle)
    except (UserError, OSError):
        return None


def mean_return(entry: QueueEntry) -> float | None:
    """Returns the mean episode return of a finished run; ``None`` if its mode has no episodes."""
    returns = [episode.episode_return for episode in scored_episodes(entry)]
    return sum(returns) / len(returns) if returns else None


def scored_episodes(entry: QueueEntry) -> list[Episode]:
    """Returns the scored episodes of a run, of all its tasks; none if it has no bundle or no episodes."""
    if entry.bundle is None:
        return []
    reader = BundleReader.of(files_of(entry.bundle))
    names = [layout.ROLLOUTS, *sorted(reader.below(layout.TASKS, (layout.ROLLOUTS_FILE,)))]
    results = [found for name in names if (found := reader.record(name, RolloutResults)) is not None]
    return [episode for found in results for episode in found.episodes]


def _bundle_of(entry: QueueEntry) -> Path | None:
    """Returns the bundle of an entry; without a stated one, the one below its root that this attempt wrote to."""
    if entry.bundle is not None or entry.root is None:
        return entry.bundle
    bundles = [layout.bundle_path(entry.root, mode) for mode in MODES]
    attempts = {bundle: _attempt(entry, read_manifest(bundle)) for bundle in bundles}
    written = {bundle: attempt.started_at for bundle, attempt in attempts.items() if attempt is not None}
    return max(written, key=lambda bundle: written[bundle], default=None)


def _by_exit_status(ended: ExitStatus) -> AttemptOutcome:
    code = ended.exit_code
    reason = ended.reason or f"its command ended with status {code}"
    if ended.timed_out:
        return AttemptOutcome(False, FailureKind.TIMEOUT.value, ended.reason, code)
    if ended.lost or code in (None, int(ExitCode.INFRASTRUCTURE), _INTERRUPTED):
        return AttemptOutcome(False, INFRASTRUCTURE, reason, code)
    if code == 0:
        return AttemptOutcome(True, exit_code=0)
    return AttemptOutcome(False, FailureKind.EXIT.value, reason, code)


def _attempt(entry: QueueEntry, manifest: Manifest | None) -> Attempt | None:
    """Returns the attempt of a lease; ``None`` if its evaluator recorded none."""
    if manifest is None or not manifest.attempts:
        return None
    last = manifest.attempts[-1]
    if entry.started is not None and last.host == socket.gethostname():  # clocks of other hosts differ
        began = datetime.datetime.fromisoformat(last.started_at).timestamp()
        # The manifest cuts its times to milliseconds, so an attempt may seem to begin before its lease.
        if began < entry.started - 0.01:
            return None
    return last


def _failed(failure: Failure) -> AttemptOutcome:
    message = f"{failure.where}: {failure.message}"
    return AttemptOutcome(False, failure.kind.value, message, int(ExitCode.PARTICIPANT_FAILED))


def _infrastructure(
    bundle: Path, manifest: Manifest | None, attempt: Attempt | None, ended: ExitStatus, reason: str
) -> AttemptOutcome:
    if _repeatable(manifest, attempt, ended):
        return AttemptOutcome(False, INFRASTRUCTURE, reason, ended.exit_code)
    message = f"{reason}; {_FINAL}"
    where = _unfinished(manifest, ended).where if manifest is not None and _ended_itself(ended) else ""
    _record(bundle, manifest, FailureKind.INFRASTRUCTURE, message, int(ExitCode.INFRASTRUCTURE), where)
    return AttemptOutcome(False, INFRASTRUCTURE, message, ended.exit_code, repeatable=False)


def _repeatable(manifest: Manifest | None, attempt: Attempt | None, ended: ExitStatus) -> bool:
    if manifest is None or attempt is None or attempt.participant_started_at is None:
        return True
    if manifest.state is RunState.INTERRUPTED and manifest.failure is not None and manifest.failure.outside:
        return True
    killed = ended.cause is Cause.KILLED or ended.exit_code == _INTERRUPTED
    level = None if manifest.sandbox is None else manifest.sandbox.level
    return ended.cause is Cause.OUTSIDE or (killed and level in OUT_OF_REACH)


def _record(
    bundle: Path, manifest: Manifest | None, kind: FailureKind, reason: str, exit_code: int | None, where: str = ""
) -> None:
    """Writes the failure into the bundle, because the evaluator could not; one that the same command resumes stays."""
    if manifest is None or manifest.state not in (RunState.RUNNING, RunState.INTERRUPTED):
        return
    if manifest.state is RunState.INTERRUPTED and manifest.failure is not None and manifest.failure.resumable:
        return
    with contextlib.suppress(OSError):  # a full disk: the queue still knows it
        record_end(
            bundle, manifest, Failure(kind=kind, where=where or manifest.mode, message=reason), exit_code=exit_code
        )


def _refusal(log: Path | None) -> str:
    """Returns the message with which an evaluator refused its configuration."""
    try:
        lines = [] if log is None else log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    starts = [number for number, line in enumerate(lines) if line.startswith("a2perf: ")]
    return " ".join(line.strip() for line in lines[starts[-1] :]) if starts else "the configuration was refused"
