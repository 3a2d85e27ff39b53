"""What the operating system offers, with its alternatives: the one place that knows that not every host is Linux."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36

LINUX = os.path.exists("/proc/self/stat")
"""Whether the host has ``/proc``, ``prctl`` and the other services of Linux."""

MESSAGES = socket.SOCK_SEQPACKET if LINUX else socket.SOCK_DGRAM
"""The kind of a pair of sockets that keeps the ends of messages."""


def usable_processors() -> int:
    """Returns how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def own_cpu_seconds(pid: int) -> float | None:
    """Returns the processor time of a process or zombie with all its threads, to the nanosecond; None if it is gone."""
    try:
        # clock_getcpuclockid(3) for another process, which Python does not offer; bit layout of linux/posix-timers.h.
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return None


def end_with_parent() -> None:
    """Makes SIGTERM reach this process when its parent ends, also if the parent is killed."""
    if LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    else:
        threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)


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
    import psutil

    deadline = time.monotonic() + timeout_s
    while not any(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE for pid in pids):
        if (rest_s := deadline - time.monotonic()) <= 0:
            return False
        time.sleep(min(rest_s, 0.02))
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


def reserve(descriptor: int, size: int) -> None:
    """Makes a file at least ``size`` bytes long and takes the space for it on the disk.

    Raises:
        OSError: the disk is full.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    elif (missing := size - os.fstat(descriptor).st_size) > 0:
        os.pwrite(descriptor, bytes(missing), size - missing)
