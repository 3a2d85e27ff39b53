"""What a tree holds in memory where no control group counts it: more than the resident sets of its processes.

Files in a ``tmpfs`` and in anonymous shared memory belong to nobody's resident set unless they are mapped, pipes and
socket buffers never do. Not seen are anonymous mappings that were shared and given up again, unattached System V
segments, and the kernel's own tables; so this bounds a tree and does not measure it.
"""

from __future__ import annotations

import os

from .descriptors import look
from .tree import PAGE_BYTES

INODE_BYTES = 1024
FREE_FLIGHT = 64
"""Descriptors that may be on their way through sockets at a time; each one above may hold a full socket."""


class Memory:
    """Counts the memory of a tree."""

    def __init__(self) -> None:
        self._mounts: dict[int, list[str]] = {}
        self._own = _namespace("self")
        self._shared_with_host = {device for device, _ in _tmpfs("self")}

    def held(self, pids: list[int], bound: float) -> int:
        """Returns the memory of some processes together.

        Shared pages count once for a verdict, but reading that is expensive: it is read only where the sum of the
        resident sets exceeds ``bound``.
        """
        found = look(pids, set(), buffers=True)
        files = self._scratch(pids) + found.anonymous_bytes()
        buffers = found.buffers + max(0, found.in_flight - FREE_FLIGHT) * _socket_bytes()
        resident = sum(_resident(pid) for pid in pids)
        if resident + files + buffers <= bound:
            return resident + files + buffers
        private = shared = 0
        for pid in pids:
            of_process, of_shared = _proportional(pid)
            private += of_process - of_shared
            shared += of_shared
        # What is mapped of the files is in both; which part of it, only a look at every mapping would say.
        return private + max(shared, files) + buffers

    def _scratch(self, pids: list[int]) -> int:
        """Returns what lies in the ``tmpfs`` mounts that the tree has and the host does not."""
        total = 0
        seen: set[int] = set()
        for pid in pids:
            space = _namespace(str(pid))
            if space in (0, self._own) or space in seen:
                continue
            seen.add(space)
            if space not in self._mounts:
                found = _tmpfs(str(pid))
                self._mounts[space] = [point for device, point in found if device not in self._shared_with_host]
            devices: dict[int, int] = {}
            for point in self._mounts[space]:
                try:
                    place = os.open(f"/proc/{pid}/root{point}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                except OSError:
                    continue
                values = os.statvfs(place)
                used = (values.f_blocks - values.f_bfree) * values.f_frsize
                devices[os.fstat(place).st_dev] = used + (values.f_files - values.f_ffree) * INODE_BYTES
                os.close(place)
            total += sum(devices.values())
        return total


def _namespace(pid: str) -> int:
    try:
        return os.stat(f"/proc/{pid}/ns/mnt").st_ino
    except OSError:
        return 0


def _tmpfs(pid: str) -> list[tuple[str, str]]:
    """Returns device and mount point of each ``tmpfs`` that a process sees."""
    try:
        with open(f"/proc/{pid}/mountinfo") as stream:
            lines = stream.read().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split()
        if after.startswith("tmpfs "):
            found.append((fields[2], fields[4].encode().decode("unicode_escape")))
    return found


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as stream:
            return int(stream.read().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> tuple[int, int]:
    """Returns the proportional set of a process, and the part of it that is shared memory and ``tmpfs`` files."""
    whole = shared = -1
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as stream:
            for line in stream:
                if line.startswith(b"Pss:"):
                    whole = int(line.split()[1]) * 1024
                elif line.startswith(b"Pss_Shmem:"):
                    shared = int(line.split()[1]) * 1024
    except (OSError, IndexError):
        pass
    if whole < 0:  # it may not be looked into: then what it shares counts in full
        return _resident(pid), 0
    return whole, max(0, shared)


def _socket_bytes() -> int:
    try:
        with open("/proc/sys/net/core/wmem_max", "rb") as stream:
            return 2 * int(stream.read())
    except (OSError, ValueError):
        return 1 << 20
