"""The kernel's task clock of a process tree, for hosts without a writable control group.

A software event of ``perf_event_open(2)`` that is inherited by ``fork`` counts the processor time of every descendant,
including daemons and children that no process waits for. Any user may open one if ``kernel.perf_event_paranoid`` is 2
or less. The kernel closes it in a process that executes a file without read permission, so the time is a lower bound.
Structure: ``linux/perf_event.h``.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import threading
from functools import cache

from a2perf.system import LINUX, own_cpu_seconds

HINT = "sysctl kernel.perf_event_paranoid=2"

_CALL = {"x86_64": 298, "aarch64": 241}
_ATTRIBUTE_BYTES = 128
_FLAGS_AT = 40
_SOFTWARE, _TASK_CLOCK = 1, 1
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6  # an ordinary user has to set the last two
_CLOSE_ON_EXEC = 8


class TaskClock:
    """Counts the processor time of all descendants that a process starts from now on.

    Args:
        root: the process; its own time is not included.

    Raises:
        OSError: the kernel refuses the event.
    """

    def __init__(self, root: int) -> None:
        self._descriptor = _open(root)
        self._root = root
        self._root_before_s = self._root_s = own_cpu_seconds(root) or 0.0
        self._last_s = 0.0
        self._lock = threading.Lock()  # a sampler thread may read while the caller closes the descriptor

    def seconds(self) -> float:
        """Returns the processor time of the tree so far, including kernel time and dead processes."""
        with self._lock:
            return self._read()

    def close(self) -> None:
        """Reads the clock for the last time; ``seconds`` returns this value from now on."""
        with self._lock:
            if self._descriptor >= 0:
                self._read()
                os.close(self._descriptor)
                self._descriptor = -1

    def _read(self) -> float:
        if self._descriptor >= 0:
            (nanoseconds,) = struct.unpack("=Q", os.read(self._descriptor, 8))
            self._root_s = own_cpu_seconds(self._root) or self._root_s  # the last known value once it has ended
            # The two clocks are read one after the other, so their difference can go back by a little.
            self._last_s = max(self._last_s, nanoseconds / 1e9 - (self._root_s - self._root_before_s))
        return self._last_s


@cache
def why_unavailable() -> str | None:
    """Returns why this user can have no such clock here, or ``None``."""
    try:
        os.close(_open(0))
    except OSError as error:
        return f"perf_event_open: {error.strerror}"
    return None


def _open(pid: int) -> int:
    number = _CALL.get(platform.machine()) if LINUX else None
    if number is None:
        raise OSError(38, "not known for this processor")
    attribute = bytearray(_ATTRIBUTE_BYTES)
    struct.pack_into("=IIQ", attribute, 0, _SOFTWARE, _ATTRIBUTE_BYTES, _TASK_CLOCK)
    struct.pack_into("=Q", attribute, _FLAGS_AT, _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR)
    pointer = (ctypes.c_char * _ATTRIBUTE_BYTES).from_buffer(attribute)
    descriptor: int = ctypes.CDLL(None, use_errno=True).syscall(number, pointer, pid, -1, -1, _CLOSE_ON_EXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return descriptor
