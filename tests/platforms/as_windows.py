"""Shows code of a2perf the modules of Python on Windows. A ``.pth`` file of ``host_python`` imports it.

Code of a2perf gets views of ``os``, ``signal`` and others without what Windows does not offer, and cannot import
``fcntl`` and the like. Other packages keep the real modules: they have code of their own for Windows. Text files
without an encoding are in code page 1252, and their lines end in CRLF. A file that the same process has open can be
neither removed nor renamed. Drive letters, backslashes and files that another process has open are not simulated, and
psutil finds here the processor time of ended children and the states of processes as on Linux.
"""

import builtins
import errno
import io
import multiprocessing
import os
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

import without_linux

NO_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
ABSENT = {
    "os": "O_CLOEXEC O_DIRECTORY O_DSYNC O_NOATIME O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC WEXITED WNOHANG WNOWAIT "
    "chown chroot confstr ctermid fchdir fchmod fchown fork forkpty getegid geteuid getgid getgroups getloadavg "
    "getpgid getpgrp getpriority getresgid getresuid getsid getuid getxattr killpg lchown listxattr lockf mkfifo mknod "
    "nice openpty pathconf posix_spawn posix_spawnp pread preadv pwrite pwritev readv register_at_fork removexattr "
    "sched_get_priority_max sched_setscheduler sched_yield sendfile set_blocking setegid seteuid setgid setgroups "
    "setpgid setpriority setregid setreuid setsid setuid setxattr statvfs fstatvfs sync sysconf uname wait wait3 "
    "wait4 writev",
    "signal": "ITIMER_PROF ITIMER_REAL ITIMER_VIRTUAL SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGIO SIGKILL SIGPIPE "
    "SIGPROF SIGQUIT SIGSTOP SIGSYS SIGTRAP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGUSR1 SIGUSR2 SIGVTALRM SIGWINCH SIGXCPU "
    "SIGXFSZ alarm getitimer pause pthread_kill pthread_sigmask setitimer siginterrupt sigpending sigwait",
    "socket": "AF_NETLINK AF_PACKET AF_UNIX CMSG_LEN CMSG_SPACE SCM_RIGHTS recv_fds send_fds",
    "select": "EPOLLIN POLLERR POLLHUP POLLIN POLLOUT epoll poll",
    "time": "CLOCK_MONOTONIC CLOCK_MONOTONIC_RAW CLOCK_PROCESS_CPUTIME_ID CLOCK_REALTIME CLOCK_THREAD_CPUTIME_ID "
    "clock_getres clock_gettime clock_gettime_ns clock_settime pthread_getcpuclockid tzset",
    "mmap": "MAP_ANON MAP_ANONYMOUS MAP_PRIVATE MAP_SHARED PROT_EXEC PROT_READ PROT_WRITE",
}


def _of_a2perf(name: str) -> bool:
    return name.partition(".")[0].startswith("a2perf")


def _open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    _no_descriptor(dir_fd)
    if os.path.isdir(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    descriptor = os.open(path, flags, mode)
    _open_files[descriptor] = os.path.abspath(path)
    return descriptor


def _refuse_open_files(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in ("os.remove", "os.rename"):
        return
    for place in arguments[: 1 if event == "os.remove" else 2]:
        path = os.path.abspath(os.fsdecode(place))
        for descriptor, name in list(_open_files.items()):
            if (name == path or name.startswith(f"{path}{os.sep}")) and _is_open(descriptor, name):
                raise PermissionError(errno.EACCES, "the file is being used by another process", path)


def _is_open(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


def _by_path(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(path: Any, *args: Any, dir_fd: int | None = None, **kwargs: Any) -> Any:
        _no_descriptor(dir_fd)
        return function(path, *args, **kwargs)

    return called


def _no_descriptor(descriptor: int | None) -> None:
    if descriptor is not None:
        raise NotImplementedError("dir_fd unavailable on this platform")


def _without_modes(found: os.stat_result) -> os.stat_result:
    """All files may be read and written by everyone, as far as the mode says."""
    fields = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
    return os.stat_result((found.st_mode | 0o666, *found[1:]), fields)


def _stat(path: Any, **kwargs: Any) -> os.stat_result:
    return _without_modes(os.stat(path, **kwargs))


def _scandir(path: Any = ".") -> Any:
    if isinstance(path, int):
        raise TypeError("scandir: path should be string, bytes, os.PathLike or None, not int")
    return os.scandir(path)


def _rename(source: Any, target: Any) -> None:
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    os.rename(source, target)


def _kill(pid: int, number: int) -> None:
    if number == 0:
        raise AssertionError("0 is CTRL_C_EVENT on Windows, which interrupts a process")
    os.kill(pid, 9)


CREATE_NEW_PROCESS_GROUP = 0x200
_PARENT = os.getppid()
_open_files: dict[int, str] = {}


class _Popen(subprocess.Popen):  # type: ignore[type-arg]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        assert not kwargs.pop("pass_fds", ()), "pass_fds not supported on Windows."
        if kwargs.pop("preexec_fn", None) is not None:
            raise ValueError("preexec_fn is not supported on Windows platforms")
        kwargs.pop("start_new_session", None)
        flags = kwargs.pop("creationflags", 0)
        assert flags in (0, CREATE_NEW_PROCESS_GROUP)
        # ctrl-c of a console reaches all processes but those of a new group
        kwargs["process_group"] = 0 if flags else None
        super().__init__(*args, **kwargs)


CHANGED: dict[str, dict[str, Any]] = {
    "os": {
        "open": _open,
        "stat": _by_path(_stat),
        "readlink": _by_path(os.readlink),
        "unlink": _by_path(os.unlink),
        "mkdir": _by_path(os.mkdir),
        "rmdir": _by_path(os.rmdir),
        "scandir": _scandir,
        "rename": _rename,
        "kill": _kill,
        "name": "nt",
        "getppid": lambda: _PARENT,
        "fstat": lambda number: _without_modes(os.fstat(number)),
        "supports_dir_fd": set(),
        "supports_fd": {os.stat},
        "O_BINARY": 0,
        "O_NOINHERIT": 0,
    },
    "subprocess": {"Popen": _Popen, "CREATE_NEW_PROCESS_GROUP": CREATE_NEW_PROCESS_GROUP},
    "platform": {"system": lambda: "Windows", "machine": lambda: "AMD64"},
}


class _View(types.ModuleType):
    """A module without some of its names."""

    def __init__(self, real: types.ModuleType) -> None:
        super().__init__(real.__name__, real.__doc__)
        self.__dict__["_real"] = real
        self.__dict__["_absent"] = frozenset(ABSENT.get(real.__name__, "").split())
        self.__dict__.update(CHANGED.get(real.__name__, {}))

    def __getattr__(self, name: str) -> Any:
        if name in self._absent:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)


_views = {name: _View(__import__(name)) for name in {*ABSENT, *CHANGED}}
_import = builtins.__import__


def _shown(name: str, names: Any = None, local: Any = None, fromlist: Any = (), level: int = 0) -> Any:
    if level == 0 and names and _of_a2perf(names.get("__name__", "")):
        if name in NO_MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name in _views:
            return _views[name]
    return _import(name, names, local, fromlist, level)


def _get_context(method: str | None = None) -> Any:
    if method not in (None, "spawn"):
        raise ValueError(f"cannot find context for {method!r}")
    return _context(method)


def _open_text(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
    given = dict(zip(("buffering", "encoding", "errors", "newline"), args, strict=False)) | kwargs
    if "b" not in mode and isinstance(file, str | os.PathLike) and not os.fspath(file).startswith("/dev/"):
        if given.get("encoding") in (None, "locale"):
            given["encoding"] = "cp1252"
        if given.get("newline") is None and "r" not in mode:
            given["newline"] = "\r\n"
    opened = _opened(file, mode, **given)
    if isinstance(file, str | os.PathLike):
        _open_files[opened.fileno()] = os.path.abspath(file)
    return opened


_context, _opened = multiprocessing.get_context, io.open
multiprocessing.get_context = _get_context  # type: ignore[assignment]
io.open = builtins.open = _open_text
without_linux.HIDDEN = (*without_linux.HIDDEN, "/etc", "/dev/shm")
sys.addaudithook(_refuse_open_files)
builtins.__import__ = _shown
for _stream in (sys.stdout, sys.stderr):
    _stream.reconfigure(encoding="cp1252", newline="\r\n")  # as of a pipe
