"""What the processes of a tree hold open: deleted files, anonymous memory files, pipes and socket buffers.

None of these appears in a folder or in the resident set of a process. Descriptor tables belong to threads: a thread can
have a private one, and the first thread of a process may have ended. Descriptors in flight through a socket belong to
no process; the kernel shows only their number (``scm_fds`` in ``fdinfo``).
"""

from __future__ import annotations

import _socket  # ``socket`` takes several milliseconds to load
import ctypes
import fcntl
import os
import stat
import struct

PIDFD_GETFD = 438
_KCMP = {"x86_64": 312, "aarch64": 272}
_KCMP_FILES = 2
_SOL_SOCKET, _SO_MEMINFO, _MEMINFO_BYTES = 1, 55, 36
_RMEM, _WMEM, _FORWARD, _QUEUED, _OPTMEM, _BACKLOG = 0, 2, 4, 5, 6, 7


class Held:
    """What some processes hold, each open file counted once.

    Attributes:
        nameless: bytes of each deleted regular file, by file system and inode.
        anonymous: bytes of each file of anonymous shared memory (``memfd_create``), by file system and inode.
        buffers: bytes of pipes and sockets; 0 unless requested.
        hidden: threads that could not be inspected, and mappings of deleted files with unknown size.
    """

    def __init__(self) -> None:
        self.nameless: dict[tuple[int, int], int] = {}
        self.anonymous: dict[tuple[int, int], int] = {}
        self.buffers = 0
        self.in_flight = 0
        self.hidden = 0
        self._seen: set[tuple[int, int]] = set()

    def nameless_bytes(self, devices: set[int]) -> int:
        """Returns the bytes of the deleted files on some file systems."""
        return sum(size for (device, _), size in self.nameless.items() if device in devices)

    def anonymous_bytes(self) -> int:
        """Returns the bytes of all anonymous memory files."""
        return sum(self.anonymous.values())


def look(pids: list[int], devices: set[int], *, buffers: bool) -> Held:
    """Inspects every descriptor and mapping of some processes.

    Args:
        devices: file systems on which deleted files are looked up.
        buffers: whether to measure pipes and sockets, which requires a copy of each descriptor.
    """
    held = Held()
    memory = _memory_device()
    for pid in pids:
        for thread in _tables(pid):
            _look_at_table(pid, thread, memory, held, buffers=buffers)
        _look_at_mappings(pid, devices, memory, held)
    return held


def _memory_device() -> int:
    """Returns the device number of the file system that holds anonymous shared memory."""
    try:
        descriptor = os.memfd_create("a2perf")
    except OSError:
        return -1
    device = os.fstat(descriptor).st_dev
    os.close(descriptor)
    return device


def _tables(pid: int) -> list[str]:
    """Returns one living thread for each descriptor table of a process."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    number = _KCMP.get(os.uname().machine)
    # Without kcmp a shared table is read once per thread.
    if len(threads) < 2 or number is None:
        return threads
    compare = ctypes.CDLL(None).syscall
    apart: list[str] = []  # kcmp returns 0 if two threads share a table
    for thread in threads:
        if not any(compare(number, int(thread), int(other), _KCMP_FILES, 0, 0) == 0 for other in apart):
            apart.append(thread)
    return apart


def _look_at_table(pid: int, thread: str, memory: int, held: Held, *, buffers: bool) -> None:
    table = f"/proc/{pid}/task/{thread}"
    try:
        numbers = os.listdir(f"{table}/fd")
    except FileNotFoundError:
        return
    except OSError:
        held.hidden += 1
        return
    copy = _Copies(int(thread)) if buffers else None
    for number in numbers:
        try:
            found = os.stat(f"{table}/fd/{number}")
        except OSError:
            continue  # closed in the meantime
        key = (found.st_dev, found.st_ino)
        if stat.S_ISREG(found.st_mode):
            _note(held, key, found, memory)
        elif stat.S_ISSOCK(found.st_mode):
            if key not in held._seen:
                held._seen.add(key)
                held.in_flight += _in_flight(f"{table}/fdinfo/{number}")
                held.buffers += copy.socket(int(number)) if copy is not None else 0
        elif stat.S_ISFIFO(found.st_mode) and copy is not None and key not in held._seen:
            held._seen.add(key)
            held.buffers += copy.pipe(int(number))
    if copy is not None:
        copy.close()


def _note(held: Held, key: tuple[int, int], found: os.stat_result, memory: int) -> None:
    if found.st_dev == memory:
        # Not its length: only written pages take memory, and the wire's own region has 64 MiB of mostly unused space.
        held.anonymous[key] = found.st_blocks * 512
    elif found.st_nlink == 0:
        held.nameless[key] = max(found.st_blocks * 512, found.st_size)


def _look_at_mappings(pid: int, devices: set[int], memory: int, held: Held) -> None:
    """Finds deleted files that are mapped but not open; only root can read their size."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as stream:
            lines = [line for line in stream if line.endswith(b" (deleted)\n")]
    except FileNotFoundError:
        return
    except OSError:
        held.hidden += 1
        return
    for line in lines:
        fields = line.split(None, 5)
        major, minor = (int(part, 16) for part in fields[3].split(b":"))
        key = (os.makedev(major, minor), int(fields[4]))
        known = key in held.nameless or key in held.anonymous
        if known or (key[0] != memory and key[0] not in devices):
            continue
        try:
            _note(held, key, os.stat(f"/proc/{pid}/map_files/{fields[0].decode()}"), memory)
        except FileNotFoundError:
            continue
        except OSError:
            if key[0] != memory:  # common: every program with several processes maps anonymous shared memory
                held.hidden += 1


def _in_flight(path: str) -> int:
    try:
        with open(path, "rb") as stream:
            for line in stream:
                if line.startswith(b"scm_fds:"):
                    return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return 0


class _Copies:
    """Duplicates descriptors of another process for a moment, to query the kernel about them."""

    def __init__(self, pid: int) -> None:
        try:
            self._process = os.pidfd_open(pid)
        except OSError:
            self._process = -1  # pidfd_open accepts only the first thread of a process
        self._call = ctypes.CDLL(None).syscall

    def pipe(self, number: int) -> int:
        """Returns the capacity of a pipe that is not empty: a single byte can occupy a page."""
        descriptor = self._copy(number)
        if descriptor < 0:
            return 0
        try:
            waiting = struct.unpack("i", fcntl.ioctl(descriptor, 0x541B, b"\0\0\0\0"))[0]  # FIONREAD
            return fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ) if waiting else 0
        except OSError:
            return 0
        finally:
            os.close(descriptor)

    def socket(self, number: int) -> int:
        """Returns the memory charged to a socket."""
        descriptor = self._copy(number)
        if descriptor < 0:
            return 0
        taken = _socket.socket(fileno=descriptor)
        try:
            values = struct.unpack("9I", taken.getsockopt(_SOL_SOCKET, _SO_MEMINFO, _MEMINFO_BYTES))
        except (OSError, struct.error):
            return 0
        finally:
            taken.close()
        sent = max(values[_WMEM], values[_QUEUED])  # TCP counts its send queue separately
        return int(sent + sum(values[at] for at in (_RMEM, _FORWARD, _OPTMEM, _BACKLOG)))

    def close(self) -> None:
        if self._process >= 0:
            os.close(self._process)

    def _copy(self, number: int) -> int:
        if self._process < 0:
            return -1
        descriptor: int = self._call(PIDFD_GETFD, self._process, number, 0)
        return descriptor
