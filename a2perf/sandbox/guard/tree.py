"""Finds, stops and kills the processes of a tree, through ``/proc``, or else the program ``ps``."""
# ruff: noqa: SIM105

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as signals
else:
    import _signal as signals

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


LINUX = os.path.exists("/proc/self/stat")
_groups: set[int] = set()


def descendants(root: int) -> list[int]:
    """Returns the process ids of every living or unreaped descendant of ``root``, parents before children.

    Without ``/proc`` an orphan is found by its process group, if an earlier call has seen a process of that group.
    """
    children: dict[int, list[int]] = {}
    if not LINUX:
        return _listed_descendants(root)
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as stream:
                # The program's name in parentheses may itself contain blanks and parentheses.
                fields = stream.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended in the meantime
        children.setdefault(int(fields[1]), []).append(int(entry))
    found = list(children.get(root, ()))
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def _listed_descendants(root: int) -> list[int]:
    found, groups = [root], _groups
    listed = _ps("pid", "ppid", "pgid")
    own = os.getpgid(0)
    while fresh := [
        (pid, group)
        for pid, parent, group in listed
        if pid not in found and (parent in found or (group in groups and pid != root))
    ]:
        found.extend(pid for pid, _ in fresh)
        groups.update(group for _, group in fresh if group != own)
    return found[1:]


def resident_bytes(pids: list[int]) -> int:
    """Returns the sum of the resident sets of processes, from ``ps``."""
    return sum(kib for pid, kib in _ps("pid", "rss") if pid in pids) * 1024


def _ps(*columns: str) -> list[tuple[int, ...]]:
    import subprocess

    arguments = [word for name in columns for word in ("-o", f"{name}=")]
    with subprocess.Popen(["/bin/ps", "-A", *arguments], stdout=subprocess.PIPE) as listing:
        assert listing.stdout is not None
        rows = [tuple(map(int, line.split())) for line in listing.stdout]
    return [row for row in rows if row[0] != listing.pid]


def kill_descendants(root: int) -> int:
    """Sends SIGKILL to every descendant of ``root``; returns how many there were.

    The tree is stopped first, until a scan finds no new process. Killing at once would lose the race against a process
    that forks faster than one scan of ``/proc``.
    """
    stopped = stop(root)
    for pid in stopped:
        _send(pid, signals.SIGKILL)
    return len(stopped)


def stop(root: int) -> set[int]:
    """Sends SIGSTOP to every descendant of ``root`` until a scan finds no new one; returns their process ids."""
    stopped: set[int] = set()
    # Bounded: a tree that always has a new process in the next scan must not hold up the guard forever.
    for _ in range(100):
        fresh = [pid for pid in descendants(root) if pid not in stopped]
        if not fresh:
            break
        for pid in fresh:
            stopped.add(pid)
            _send(pid, signals.SIGSTOP)
    return stopped


def release(stopped: set[int]) -> None:
    """Sends SIGCONT to stopped processes."""
    for pid in stopped:
        _send(pid, signals.SIGCONT)


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass
