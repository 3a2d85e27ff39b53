"""What the operating system offers, with its alternatives: the one place that knows that not every host is Linux."""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import errno
import os
import select
import signal
import socket
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

from a2perf.errors import UserError

try:
    import fcntl as fcntl
    import resource as resource
except ImportError:  # Windows
    fcntl = resource = None  # type: ignore[assignment]

_JUNCTION = 0xA0000003  # stat.IO_REPARSE_TAG_MOUNT_POINT
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36

LINUX = os.path.exists("/proc/self/stat")
"""Whether the host has ``/proc``, ``prctl`` and the other services of Linux."""


class UserInterrupt(KeyboardInterrupt):
    """A signal asks this process to end; a ``KeyboardInterrupt`` that foreign code raises is not one."""


def interrupt(number: int, frame: object) -> None:
    """Handler of the signals in ``STOPPING``."""
    raise UserInterrupt


MESSAGES = socket.SOCK_SEQPACKET if LINUX else socket.SOCK_DGRAM
"""The kind of a pair of sockets that keeps the ends of messages."""


POSIX = hasattr(os, "fork")
"""Whether the host is Linux, macOS or another POSIX system."""

STOPPING = tuple(signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""The signals that ask a process to end."""

KILL = int(getattr(signal, "SIGKILL", 9))
"""What ends a process at once; any signal does on a host that is not POSIX."""

ENDS_WITH_INPUT = "A2PERF_ENDS_WITH_INPUT"
"""Environment variable of an evaluator that ends with its standard input."""

_SYSTEM = ("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "NUMBER_OF_PROCESSORS")
SYSTEM_VARIABLES = {} if POSIX else {name: value for name, value in os.environ.items() if name in _SYSTEM}
"""Environment variables without which programs of Windows find neither its libraries nor its sockets."""


def require_posix(what: str) -> None:
    """Refuses what needs a POSIX system on any other with a ``UserError``."""
    if not POSIX:
        raise UserError(f"{what} need Linux or macOS", hint="use WSL 2 on Windows")


def usable_processors() -> int:
    """Returns how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_bytes() -> int:
    """Returns the memory of this machine."""
    if POSIX:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    import psutil

    return int(psutil.virtual_memory().total)


def own_cpu_seconds(pid: int) -> float | None:
    """Returns the processor time of a process or zombie with all its threads, to the nanosecond; None if it is gone."""
    try:
        # clock_getcpuclockid(3) for another process, which Python does not offer; bit layout of linux/posix-timers.h.
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return None


def end_with_parent(parent: int) -> None:
    """Makes SIGTERM reach this process when its parent ends, also if the parent is killed or has ended before."""
    if LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # it ended before the call above, so no signal will come
            os.kill(os.getpid(), signal.SIGTERM)
    else:
        threading.Thread(target=_watch_parent, args=(parent,), daemon=True).start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent if POSIX else not _has_ended(parent):
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)


def end_with_input(descriptor: int, *, orderly: bool = False) -> None:
    """Ends this process with a pipe from its parent: if ``orderly``, by its handler of SIGTERM, else with all below."""
    threading.Thread(target=_watch_input, args=(descriptor, orderly), daemon=True).start()


def _watch_input(descriptor: int, orderly: bool) -> None:
    while os.read(descriptor, 4096):
        pass
    if orderly and signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return _thread.interrupt_main(signal.SIGTERM)
    with contextlib.suppress(Exception):
        import psutil

        for child in psutil.Process().children(recursive=True):
            child.kill()
    os._exit(128 + signal.SIGTERM)


def adopt_orphans() -> None:
    """Makes orphaned descendants children of this process; without effect where the system cannot do that."""
    if LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def wait_for_end(pids: Collection[int], timeout_s: float) -> bool:
    """Waits until one of some children has ended, at most that long, and reaps none; returns whether one has."""
    if LINUX:
        descriptors = [os.pidfd_open(pid) for pid in pids]
        poll = select.poll()
        for descriptor in descriptors:
            poll.register(descriptor, select.POLLIN)
        try:
            return bool(poll.poll(1000 * timeout_s))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
    deadline = time.monotonic() + timeout_s
    while not any(map(_has_ended, pids)):
        if (rest_s := deadline - time.monotonic()) <= 0:
            return False
        time.sleep(min(rest_s, 0.02))
    return True


def _has_ended(pid: int) -> bool:
    import psutil

    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:  # there are no zombies on Windows
        return True


class StallError(RuntimeError):
    """A call has not returned for too long."""


@contextlib.contextmanager
def stall_limit(seconds: float, progress: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Raises ``StallError`` in the block once ``progress()`` has stayed equal for ``seconds`` to twice that time.

    Without effect outside of the main thread, where the system has no interval timer, and on code that never returns
    to the interpreter. It costs nothing per step.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    seen = [object()]

    def look(number: int, frame: object) -> None:
        if seen == [now := progress()]:
            raise StallError(f"it has not returned for {seconds:g} s")
        seen[:] = [now]

    previous = signal.signal(signal.SIGALRM, look)
    outer = signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *outer)
        signal.signal(signal.SIGALRM, previous)


def permissions(status: os.stat_result) -> int:
    """Returns the permission bits of a file or folder; usual ones where the system has none."""
    return stat.S_IMODE(status.st_mode) if POSIX else 0o755 if stat.S_ISDIR(status.st_mode) else 0o644


def reserve(descriptor: int, size: int) -> None:
    """Makes a file at least ``size`` bytes long and takes the space on the disk; a full one is an ``OSError``."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    elif (missing := size - os.fstat(descriptor).st_size) > 0:
        files.pwrite(descriptor, bytes(missing), size - missing)


class _FilesByPath:
    """Stands for ``os`` where folders have no descriptors: a descriptor of a folder stands for its path.

    A link is looked for before its path is used, so a program that runs at the same time could put one in between: only
    recorded files are read in this way.
    """

    O_CLOEXEC = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
    O_NONBLOCK = O_NOCTTY = 0
    O_DIRECTORY, O_NOFOLLOW = 1 << 28, 1 << 29

    def __init__(self) -> None:
        self._folders: dict[int, str] = {}
        self._reading = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _place(self, path: Any, dir_fd: int | None) -> Any:
        if dir_fd is None:
            return path
        # one name, so neither a part of another path nor a stream of a file
        if not {"/", "\\", ":"}.isdisjoint(path):
            raise OSError(errno.EINVAL, "is not the name of a file", path)
        return os.path.join(self._folders[dir_fd], path)

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        place = self._place(path, dir_fd)
        if flags & self.O_NOFOLLOW and os.path.lexists(place):
            kind = self.stat(place, follow_symlinks=False).st_mode
            if stat.S_ISLNK(kind):
                raise OSError(errno.ELOOP, "is a link", path)
            if flags & self.O_DIRECTORY and not stat.S_ISDIR(kind):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if not os.path.isdir(place):
            return os.open(place, flags & ~(self.O_DIRECTORY | self.O_NOFOLLOW), mode)
        descriptor = os.open(os.devnull, os.O_RDONLY)
        self._folders[descriptor] = os.path.abspath(place)
        return descriptor

    def stat(self, path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        found = os.stat(self._place(path, dir_fd), follow_symlinks=follow_symlinks)
        # a junction leads elsewhere as a link does, but has the mode of a folder
        if not follow_symlinks and getattr(found, "st_reparse_tag", 0) == _JUNCTION:
            raise OSError(errno.ELOOP, "is a junction, which is not followed", path)
        return found

    def readlink(self, path: Any, *, dir_fd: int | None = None) -> str:
        return str(os.readlink(self._place(path, dir_fd)))

    def scandir(self, path: Any) -> Any:
        return os.scandir(self._folders[path] if isinstance(path, int) else path)

    def dup(self, descriptor: int) -> int:
        copy = os.dup(descriptor)
        if descriptor in self._folders:
            self._folders[copy] = self._folders[descriptor]
        return copy

    def close(self, descriptor: int) -> None:
        self._folders.pop(descriptor, None)
        os.close(descriptor)

    def pread(self, descriptor: int, size: int, offset: int) -> bytes:
        with self._reading:
            os.lseek(descriptor, offset, os.SEEK_SET)
            return os.read(descriptor, size)

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        with self._reading:
            os.lseek(descriptor, offset, os.SEEK_SET)
            return os.write(descriptor, data)


if TYPE_CHECKING:
    files = os
else:
    files = os if POSIX else _FilesByPath()
"""``os`` itself, or what stands for it where files are opened by path."""
