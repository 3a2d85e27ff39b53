"""Estimates the memory of a tree without a control group: more than the resident sets of its processes.

Files in a ``tmpfs`` and in anonymous shared memory are in a resident set only while they are mapped; pipes and socket
buffers never are. Not counted: anonymous shared mappings that were unmapped, unattached System V segments, and the
kernel's own tables. The result is good enough for a limit, but it is not a measurement.
"""

from __future__ import annotations

import os

from .descriptors import look
from .tree import PAGE_BYTES

INODE_BYTES = 1024
FREE_FLIGHT = 64
"""Descriptors in flight through sockets that are not counted; each further one counts as a full socket buffer."""


class Memory:
    """Counts the memory of a tree."""

    def __init__(self) -> None:
        self._mounts: dict[int, list[str]] = {}
        self._own = _namespace("self")
        self._shared_with_host = {device for device, _ in _tmpfs("self")}

    def held(self, pids: list[int], bound: float) -> int:
        """Returns the total memory of some processes.

        Counting shared pages once is expensive, so it is done only if the sum of the resident sets exceeds ``bound``.
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
        # Mapped parts of the files are in both numbers. The larger one avoids a walk over every mapping.
        return private + max(shared, files) + buffers

    def _scratch(self, pids: list[int]) -> int:
        """Returns the bytes in ``tmpfs`` mounts that exist only in the tree's mount namespaces."""
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
                # By device: one tmpfs can be mounted at several points. Empty files take no blocks, but inodes.
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
            # The kernel writes blanks, line breaks and backslashes in mount points as octal escapes.
            found.append((fields[2], fields[4].encode().decode("unicode_escape")))
    return found


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as stream:
            return int(stream.read().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> tuple[int, int]:
    """Returns the proportional set size of a process, and its part in shared memory and ``tmpfs`` files, in bytes."""
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
    if whole < 0:  # unreadable process: count its shared pages in full
        return _resident(pid), 0
    return whole, max(0, shared)


def _socket_bytes() -> int:
    try:
        with open("/proc/sys/net/core/wmem_max", "rb") as stream:
            # The kernel doubles the size that a program sets for a socket buffer, see socket(7).
            return 2 * int(stream.read())
    except (OSError, ValueError):
        return 1 << 20
