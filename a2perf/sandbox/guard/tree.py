"""A process tree as ``/proc`` shows it: who belongs to it, what it holds, and how to end all of it."""
# ruff: noqa: SIM105

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as signals
else:
    import _signal as signals

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def descendants(root: int) -> list[int]:
    """Returns the process ids of every living or unreaped descendant of ``root``, parents before children."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as stream:
                fields = stream.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it ended while we looked
        children.setdefault(int(fields[1]), []).append(int(entry))
    found = list(children.get(root, ()))
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def kill_descendants(root: int) -> int:
    """Sends SIGKILL to every descendant of ``root``; returns how many there were.

    The tree is stopped first, until a look finds no new member: a process that forks faster than we kill cannot win.
    """
    stopped: set[int] = set()
    for _ in range(100):
        fresh = [pid for pid in descendants(root) if pid not in stopped]
        if not fresh:
            break
        for pid in fresh:
            stopped.add(pid)
            _send(pid, signals.SIGSTOP)
    for pid in stopped:
        _send(pid, signals.SIGKILL)
    return len(stopped)


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def held_bytes(pids: list[int], bound: float) -> int:
    """Returns the memory of some processes together.

    Shared pages count once for a verdict, but reading that is too dear for every sample: the proportional set size is
    read only where the resident sets exceed ``bound``.
    """
    resident = sum(_resident_bytes(pid) for pid in pids)
    return resident if resident <= bound else sum(_proportional_bytes(pid) for pid in pids)


def _resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as stream:
            return int(stream.read().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0


def _proportional_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as stream:
            for line in stream:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, IndexError):
        pass
    return 0
