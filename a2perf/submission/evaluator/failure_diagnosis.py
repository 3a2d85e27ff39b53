"""Why a participant process ended: from its own report, its exit status, the limits and the host's counters.

Pure but for the reading of two files; what it returns is the record that people read.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import msgspec

from a2perf.records import Failure, FailureKind
from a2perf.sandbox import DEFAULT_ARTIFACT_ENTRIES, MOST_DEPTH, Ending, Limits
from a2perf.submission.evaluator import answers

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
    """Returns the failure that a participant process reports of itself, or ``None`` if the reply is not such a report.

    The report is the participant's word: its kind is one that it may claim, its texts are cut.
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
        message=message[:_MAX_TEXT],
        traceback=None if trace is None else trace[:_MAX_TEXT],
        exit_code=code,
    )


def revised(failure: Failure, ending: Ending, limits: Limits) -> Failure:
    """Returns a reported failure with the cause that the kernel counted, where it counted one.

    A limit shows to the participant as an exception or as the death of one of its processes; what it makes of that is
    its own affair, but the record names the limit.
    """
    if failure.kind not in (FailureKind.EXCEPTION, FailureKind.EXIT, FailureKind.BAD_OUTPUT):
        return failure
    if (words := overfull(ending, limits)) is not None:
        return msgspec.structs.replace(failure, kind=FailureKind.OUTPUT_LIMIT, message=f"{words}: {failure.message}")
    if failure.kind is not FailureKind.BAD_OUTPUT and _DISK_FULL.search(failure.message):
        return msgspec.structs.replace(failure, kind=FailureKind.DISK)
    if ending.oom_kills and limits.memory_bytes:
        words = f"the kernel ended {ending.oom_kills} of its processes at {limits.memory_bytes:,} bytes of memory"
        return msgspec.structs.replace(failure, kind=FailureKind.MEMORY, message=f"{words}: {failure.message}")
    if ending.refused_forks and limits.processes:
        words = f"it was refused further processes or threads ({limits.processes} processes are allowed)"
        return msgspec.structs.replace(failure, kind=FailureKind.FORBIDDEN, message=f"{words}: {failure.message}")
    return failure


def overfull(ending: Ending, limits: Limits) -> str | None:
    """Returns which bound on its artifacts a participant broke, in words, or ``None``."""
    value = int(ending.limit_value or 0)
    if ending.limit == "artifact_bytes":
        return f"it wrote {value:,} bytes to its artifacts folder; {limits.artifact_bytes or 0:,} are allowed"
    if ending.limit == "artifact_entries":
        most = limits.artifact_entries or DEFAULT_ARTIFACT_ENTRIES
        return f"it made {value:,} files and folders in its artifacts folder; {most:,} are allowed"
    if ending.limit == "artifact_depth":
        return f"it nested {value} folders in its artifacts folder; {MOST_DEPTH} are allowed"
    if ending.limit == "artifact_unreadable":
        return f"{value} folders in its artifacts folder cannot be read"
    return None


def ended(ending: Ending, where: str, limits: Limits, stderr: str, *, oom_killed: bool) -> Failure:
    """Returns the failure of a process that ended before it answered.

    Args:
        ending: how it ended.
        where: the call that was waiting.
        limits: the bounds it ran under.
        stderr: the end of its standard error.
        oom_killed: whether the kernel killed some process of the host for lack of memory meanwhile.
    """
    trace = stderr if "Traceback (most recent call last)" in stderr or "Fatal Python error" in stderr else None
    name = None if ending.signal is None else signal_name(ending.signal)
    kind, message = _verdict(ending, name, limits, stderr, oom_killed)
    return Failure(
        kind=kind, where=where, message=message, traceback=trace, exit_code=ending.exit_code, signal=name
    )  # fmt: skip


def _verdict(
    ending: Ending, name: str | None, limits: Limits, stderr: str, oom_killed: bool
) -> tuple[FailureKind, str]:
    value = ending.limit_value or 0.0
    if ending.limit == "memory_bytes" or ending.oom_kills:
        used = int(value) or ending.peak_memory_bytes or 0
        allowed = f"{limits.memory_bytes:,}" if limits.memory_bytes else "no more"
        return FailureKind.MEMORY, f"its processes used {used:,} bytes of memory; {allowed} are allowed"
    if ending.limit == "processes":
        return FailureKind.FORBIDDEN, f"it had {int(value)} processes; {limits.processes} are allowed"
    if ending.limit == "wall_s":
        return FailureKind.TIMEOUT, f"it ran for {value:.1f} s; {limits.wall_s:g} s are allowed"
    if (words := overfull(ending, limits)) is not None:
        return FailureKind.OUTPUT_LIMIT, words
    if name == "SIGXCPU" or (name == "SIGKILL" and limits.cpu_s and ending.cpu_s >= limits.cpu_s):
        return FailureKind.TIMEOUT, f"a process used more CPU time than the {limits.cpu_s or 0:g} s that are allowed"
    if name == "SIGXFSZ":
        bound = limits.file_size_bytes or limits.artifact_bytes or 0
        return FailureKind.OUTPUT_LIMIT, f"it wrote a file of more than {bound:,} bytes"
    if name == "SIGKILL" and oom_killed:
        return FailureKind.MEMORY, "the kernel killed it for lack of memory"
    if name is not None:
        return FailureKind.SIGNAL, f"the process was ended by {name} before answering"
    if limits.memory_bytes and ending.exit_code and _OUT_OF_MEMORY.search(stderr):
        return FailureKind.MEMORY, f"it ran out of the {limits.memory_bytes:,} bytes of memory that are allowed"
    if ending.exit_code and _DISK_FULL.search(stderr):
        return FailureKind.DISK, f"the process ended by itself with status {ending.exit_code}: no space left"
    if ending.exit_code is None:
        return FailureKind.SIGNAL, "the process and its guard were killed before answering"
    return FailureKind.EXIT, f"the process ended by itself with status {ending.exit_code} before answering"


def signal_name(number: int) -> str:
    """Returns ``"SIGKILL"`` for 9, ``"signal 40"`` for a real-time signal, which has no name."""
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
            return stream.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""


def oom_kills() -> int:
    """Returns how many processes the kernel of this host has killed for lack of memory since it started."""
    try:
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
