"""Whether a process is alive: it is identified by host, boot id, PID namespace, process id and start time.

The kernel reuses process ids; together with the start time of the process and the boot id of the host they are unique.
Another PID namespace (a container) has different ids for the same processes, so the namespace is part of the identity.
A zombie counts as dead: it executes nothing and holds no locks.
"""

from __future__ import annotations

import functools
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from a2perf.system import LINUX

if TYPE_CHECKING:
    from a2perf.records import Attempt

_MARK = re.compile(r"(?P<namespace>\d+)-(?P<pid>\d+)-(?P<started>\d+)(?=-|$)")


@dataclass(frozen=True)
class ProcessIdentity:
    """One process of one boot of one host.

    Attributes:
        boot: boot id of its kernel and, after ``/``, the PID namespace; either is empty if it was not recorded.
        started: start of the process in clock ticks after the boot; None if it was not recorded.
    """

    host: str
    boot: str
    pid: int
    started: int | None

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Returns the identity of a live process of this host; raises ``ProcessLookupError`` without one."""
        started = start_ticks(pid)
        if started is None:
            raise ProcessLookupError(f"no process {pid}")
        return cls(socket.gethostname(), this_boot(), pid, started)

    @classmethod
    def current(cls) -> ProcessIdentity:
        """Returns the identity of this process."""
        return cls.of(os.getpid())

    @classmethod
    def of_attempt(cls, attempt: Attempt) -> ProcessIdentity:
        """Returns the identity of the evaluator of an attempt; older records contain only a part of it."""
        return cls(attempt.host, f"{attempt.boot_id}/{attempt.pid_namespace}", attempt.pid, attempt.start_ticks)

    def alive(self) -> bool | None:
        """Returns whether the process is alive; ``None`` if this process cannot see it."""
        if self.host != socket.gethostname():
            return None
        boot, _, namespace = self.boot.partition("/")
        boot_here, _, namespace_here = this_boot().partition("/")
        if boot and boot != boot_here:
            return False  # the host has rebooted since
        if namespace and namespace != namespace_here:
            return None
        started = start_ticks(self.pid)
        return started is not None and self.started in (None, started)

    def __str__(self) -> str:
        return f"{self.host}|{self.boot}|{self.pid}|{self.started}"

    @classmethod
    def parse(cls, text: str) -> ProcessIdentity:
        """Returns the identity from the text that ``str`` wrote; raises ``ValueError`` for any other."""
        host, boot, pid, started = text.split("|")
        return cls(host, boot, int(pid), None if started == "None" else int(started))


@functools.cache
def this_boot() -> str:
    """Returns the boot id of this kernel and the PID namespace of this process."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    try:
        return f"{boot.read_text().strip()}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return "unknown/unknown"


def start_ticks(pid: int) -> int | None:
    """Returns when a process started; ``None`` if it has ended or is a zombie.

    The unit is clock ticks after the boot; without ``/proc``, microseconds since 1970.
    If its parent was killed too, a dead process stays a zombie until the host's first process reaps it.
    """
    if not LINUX:
        import psutil

        try:
            process = psutil.Process(pid)
            return None if process.status() == psutil.STATUS_ZOMBIE else int(process.create_time() * 1e6)
        except psutil.Error:
            return None
    try:
        # The second field, the program's name in parentheses, may itself contain spaces and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        # The list begins with field 3 of the file, the state; the start time is field 22.
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, IndexError):
        return None


def mark() -> str:
    """Returns this process's PID namespace, id and start time, for file names and labels on this host."""
    return f"{_namespace()}-{os.getpid()}-{start_ticks(os.getpid())}"


def left_behind(text: str) -> bool:
    """Returns whether a name starts with the ``mark`` of a process that has ended.

    False for names without a mark, and for marks of another PID namespace: its processes are not visible here.
    """
    found = _MARK.match(text)
    return (
        found is not None
        and found["namespace"] == _namespace()
        and start_ticks(int(found["pid"])) != int(found["started"])
    )


def _namespace() -> str:
    return this_boot().partition("/")[2].strip("pid:[]") or "0"
