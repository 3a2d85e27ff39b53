"""Takes from this interpreter what a2perf would not find on macOS. A ``.pth`` file of ``host_python`` imports it.

``/proc`` and ``/sys`` are hidden from code of a2perf only: other packages choose their own code by ``sys.platform``,
which is not changed. What macOS adds, such as its own sizes of memory or its sandbox, is not simulated.
"""

import ctypes
import errno
import fcntl
import multiprocessing
import os
import resource
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

ABSENT: dict[Any, tuple[str, ...]] = {
    os: (
        "O_PATH",
        "O_TMPFILE",
        "copy_file_range",
        "eventfd",
        "fdatasync",
        "getresuid",
        "memfd_create",
        "pidfd_open",
        "pipe2",
        "posix_fadvise",
        "posix_fallocate",
        "sched_getaffinity",
        "sched_setaffinity",
        "setresgid",
        "setresuid",
        "splice",
        "waitid",
    ),
    time: ("CLOCK_BOOTTIME",),
    resource: ("RLIMIT_MSGQUEUE", "RLIMIT_NICE", "RLIMIT_SIGPENDING", "prlimit"),
    fcntl: ("F_ADD_SEALS", "F_GET_SEALS", "F_SEAL_GROW", "F_SEAL_SHRINK", "F_SETPIPE_SZ"),
    socket: ("MSG_NOSIGNAL", "SO_PEERCRED"),
    signal: ("pidfd_send_signal", "sigtimedwait", "sigwaitinfo"),
}
NOT_IN_LIBC = ("prctl", "malloc_trim", "syscall")
HIDDEN = ("/proc", "/sys")


def _refuse(function: Callable[..., Any], refused: Callable[..., bool], error: int) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        if refused(*args):
            raise OSError(error, os.strerror(error), args[0] if args and isinstance(args[0], str) else None)
        return function(*args, **kwargs)

    return called


def _is_hidden(path: Any = None, *_: Any) -> bool:
    path = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
    if not path.startswith(HIDDEN):
        return False
    frame = sys._getframe(2)
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package in ("psutil", "codecarbon"):
            return False
        if package in ("a2perf", "guard"):
            return True
        frame = frame.f_back
    return False


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and arguments and _is_hidden(arguments[0]):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), arguments[0])


class _Library(ctypes.CDLL):
    def __getattr__(self, name: str) -> Any:
        if self._name is None and name in NOT_IN_LIBC:
            raise AttributeError(f"symbol {name} not found")
        return super().__getattr__(name)


def _socketpair(family: int = socket.AF_UNIX, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> Any:
    if kind == socket.SOCK_SEQPACKET:
        raise OSError(errno.EPROTONOSUPPORT, os.strerror(errno.EPROTONOSUPPORT))
    return _pair(family, kind, protocol)


tempfile._O_TMPFILE_WORKS = False  # type: ignore[attr-defined]
for _module, _names in ABSENT.items():
    for _name in _names:
        if hasattr(_module, _name):
            delattr(_module, _name)
for _name in ("clock_gettime", "clock_gettime_ns"):
    setattr(time, _name, _refuse(getattr(time, _name), lambda clock: clock < 0, errno.EINVAL))
for _name in ("stat", "lstat", "readlink", "access"):
    setattr(os, _name, _refuse(getattr(os, _name), _is_hidden, errno.ENOENT))
_pair = socket.socketpair
socket.socketpair = _socketpair  # type: ignore[assignment]
ctypes.CDLL = _Library  # type: ignore[misc]
sys.addaudithook(_on_event)
multiprocessing.set_start_method("spawn", force=True)
