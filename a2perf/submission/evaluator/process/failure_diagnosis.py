"""Determines why a participant process ended, from its report, its exit status, the limits and the host's counters.

Apart from reading two files these are pure functions. Their messages are what a participant reads.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import msgspec

from a2perf.records import Failure, FailureKind
from a2perf.sandbox import DEFAULT_ARTIFACT_ENTRIES, MOST_DEPTH, Ending, Limits
from a2perf.sandbox.limits import participants_bytes
from a2perf.submission.evaluator.process import answers

_NEAR_LIMIT = 0.95
"""Peak memory, as a share of the limit, from which a kill counts as the limit's: memory is charged in blocks."""

_TAIL_BYTES = 16_384
_MAX_TEXT = 65_536
_REPORTED = {
    kind.value: kind
    for kind in (
        FailureKind.CONTRACT,
        FailureKind.EXCEPTION,
        FailureKind.EXIT,
        FailureKind.MEMORY,
        FailureKind.BAD_OUTPUT,
    )
}
_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_OUT_OF_MEMORY = re.compile(r"MemoryError|bad_alloc|Cannot allocate memory|failed to allocate", re.IGNORECASE)


def reported(reply: Any, where: str) -> Failure | None:
    """Returns the failure that a participant process reports, or ``None`` if the reply is not a valid report.

    The participant controls the report, so only some kinds are accepted and texts are truncated.
    """
    if answers.word_of(reply) != "error" or len(reply) != 6:
        return None
    _, kind, place, message, trace, code = reply
    texts = all(type(text) is str for text in (kind, place, message)) and (trace is None or type(trace) is str)
    if not texts or kind not in _REPORTED or not (code is None or type(code) is int):
        return None
    return Failure(
        kind=_REPORTED[kind],
        where=place[:200] or where,
        message=message[:_MAX_TEXT].strip() or "it gave no reason",
        traceback=None if trace is None else trace[:_MAX_TEXT],
        exit_code=code,
    )


def revised(failure: Failure, ending: Ending, limits: Limits) -> Failure:
    """Returns a reported failure with the limit that caused it, if the kernel's counters show one.

    The participant sees a limit as an exception or as the death of a child process, and may report anything else. The
    record names the limit.
    """
    if failure.kind is FailureKind.MEMORY and limits.memory_bytes:
        return msgspec.structs.replace(failure, message=f"{failure.message}; {_memory_limit(limits)}")
    if failure.kind not in (FailureKind.EXCEPTION, FailureKind.EXIT, FailureKind.BAD_OUTPUT):
        return failure
    if (cause := overfull(ending, limits)) is not None:
        return msgspec.structs.replace(failure, kind=FailureKind.OUTPUT_LIMIT, message=f"{cause}: {failure.message}")
    if failure.kind is not FailureKind.BAD_OUTPUT and _DISK_FULL.search(failure.message):
        return msgspec.structs.replace(failure, kind=FailureKind.DISK)
    if ending.oom_kills:
        kind, cause = _out_of_memory(ending, limits)
        message = f"{cause}; the kernel killed {ending.oom_kills} of its processes: {failure.message}"
        return msgspec.structs.replace(failure, kind=kind, message=message)
    if ending.refused_forks and limits.processes:
        cause = (
            f"it could not start more processes or threads; the limit is {limits.processes} processes"
            " (Submission.process_limit)"
        )
        return msgspec.structs.replace(failure, kind=FailureKind.FORBIDDEN, message=f"{cause}: {failure.message}")
    return failure


def overfull(ending: Ending, limits: Limits) -> str | None:
    """Returns a description of the bound on artifacts that a participant exceeded, or ``None``."""
    value = int(ending.limit_value or 0)
    if ending.limit == "artifact_bytes":
        most = f"{limits.artifact_bytes or 0:,} bytes (Submission.artifact_limit_bytes)"
        return f"it wrote {value:,} bytes to its artifacts folder; the limit is {most}"
    if ending.limit == "artifact_entries":
        most = f"{limits.artifact_entries or DEFAULT_ARTIFACT_ENTRIES:,}"
        return f"it created {value:,} files and folders in its artifacts folder; the limit is {most}"
    if ending.limit == "artifact_depth":
        return f"it nested {value} folders in its artifacts folder; the limit is {MOST_DEPTH}"
    if ending.limit == "artifact_unreadable":
        return f"{value} folders in its artifacts folder cannot be read"
    return None


def ended(ending: Ending, where: str, limits: Limits, stderr: str) -> Failure:
    """Returns the failure of a process that ended before it answered."""
    trace = stderr if "Traceback (most recent call last)" in stderr or "Fatal Python error" in stderr else None
    name = None if ending.signal is None else signal_name(ending.signal)
    kind, message = _verdict(ending, name, limits, stderr)
    return Failure(kind=kind, where=where, message=message, traceback=trace, exit_code=ending.exit_code, signal=name)


def _verdict(ending: Ending, name: str | None, limits: Limits, stderr: str) -> tuple[FailureKind, str]:
    value = ending.limit_value or 0.0
    if ending.limit == "memory_bytes" or ending.oom_kills:
        return _out_of_memory(ending, limits)
    if ending.limit == "processes":
        most = f"the limit is {limits.processes} (Submission.process_limit)"
        return FailureKind.FORBIDDEN, f"it had {int(value)} processes; {most}"
    if ending.limit == "wall_s":
        return FailureKind.TIMEOUT, f"it ran for {value:.1f} s; the limit is {limits.wall_s:g} s"
    if (cause := overfull(ending, limits)) is not None:
        return FailureKind.OUTPUT_LIMIT, cause
    # The kernel sends SIGXCPU at the soft limit and SIGKILL a second later to a process that ignores it.
    if name == "SIGXCPU" or (name == "SIGKILL" and limits.cpu_s and ending.cpu_s >= limits.cpu_s):
        return FailureKind.TIMEOUT, f"one of its processes reached the limit of {limits.cpu_s or 0:g} s of CPU time"
    if name == "SIGXFSZ":
        bound = limits.file_size_bytes or limits.artifact_bytes or 0
        return FailureKind.OUTPUT_LIMIT, f"it wrote a file larger than the limit of {bound:,} bytes"
    if name is not None:
        # Only its own control group could say that the kernel killed it for memory: other processes of the host may
        # meet their limits at the same time.
        unknown = "; cause unknown" if name == "SIGKILL" and ending.oom_kills is None else ""
        return FailureKind.SIGNAL, f"the process was killed by {name} before it answered{unknown}"
    if limits.memory_bytes and ending.exit_code and _OUT_OF_MEMORY.search(stderr):
        return FailureKind.MEMORY, f"it ran out of memory; {_memory_limit(limits)}"
    if ending.exit_code and _DISK_FULL.search(stderr):
        return FailureKind.DISK, f"the process exited with status {ending.exit_code}: no space left on the disk"
    if ending.exit_code is None:
        return FailureKind.SIGNAL, "the process and its guard were killed before it answered"
    return FailureKind.EXIT, f"the process exited with status {ending.exit_code} before it answered"


def _out_of_memory(ending: Ending, limits: Limits) -> tuple[FailureKind, str]:
    """Returns the kind and cause of a failure in which the kernel, or the guard, killed processes for memory."""
    used = int(ending.limit_value or 0) if ending.limit == "memory_bytes" else 0
    used = max(used, ending.peak_memory_bytes or 0)
    if used >= _NEAR_LIMIT * (limits.memory_bytes or participants_bytes()):
        return FailureKind.MEMORY, f"its processes used {used:,} bytes of memory; {_memory_limit(limits)}"
    message = f"the memory of the host ran out while its processes used {used:,} bytes; {_memory_limit(limits)}"
    return FailureKind.INFRASTRUCTURE, message


def _memory_limit(limits: Limits) -> str:
    if not limits.memory_bytes:
        return "the host had no more"
    if limits.memory_shares is None:
        return f"the limit is {limits.memory_bytes:,} bytes (Submission.memory_limit_bytes)"
    return (
        f"the limit is {limits.memory_bytes:,} bytes, derived from this host (1/{limits.memory_shares} of its memory"
        " for participants): set Submission.memory_limit_bytes"
    )


def signal_name(number: int) -> str:
    """Returns the name of a signal: ``"SIGKILL"`` for 9, ``"signal 40"`` for a real-time signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def tail(log: Path) -> str:
    """Returns the end of a captured stream, or an empty string."""
    try:
        with log.open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - _TAIL_BYTES))
            return stream.read().decode("utf-8", "replace").replace("\r\n", "\n").strip()
    except OSError:
        return ""
