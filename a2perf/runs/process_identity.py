"""The one rule of liveness: a process is named by host, boot, PID namespace, process id and start time.

A process id alone is reused; with the start time of the process and the boot id of the host it is not. Process ids
mean nothing across PID namespaces, so the namespace belongs to the name. A zombie is dead.
"""

from __future__ import annotations

import functools
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from a2perf.records import Attempt

_MARK = re.compile(r"(?P<namespace>\d+)-(?P<pid>\d+)-(?P<started>\d+)(?=-|$)")


@dataclass(frozen=True)
class ProcessIdentity:
    """One process of one boot of one host.

    Attributes:
        host: name of the host.
        boot: boot id of its kernel and, behind ``/``, the PID namespace; each may be empty where it was not recorded.
        pid: process id there.
        started: start of the process in clock ticks after the boot; None where it was not recorded.
    """

    host: str
    boot: str
    pid: int
    started: int | None

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Returns the identity of a living process of this host.

        Raises:
            ProcessLookupError: there is none.
        """
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
        """Returns the identity of the evaluator that made an attempt; older records know less of it."""
        return cls(attempt.host, f"{attempt.boot_id}/{attempt.pid_namespace}", attempt.pid, attempt.start_ticks)

    def alive(self) -> bool | None:
        """Returns whether the process lives; ``None`` when that cannot be seen from here."""
        if self.host != socket.gethostname():
            return None
        boot, _, namespace = self.boot.partition("/")
        boot_here, _, namespace_here = this_boot().partition("/")
        if boot and boot != boot_here:
            return False  # this host has been restarted since
        if namespace and namespace != namespace_here:
            return None
        started = start_ticks(self.pid)
        return started is not None and self.started in (None, started)

    def __str__(self) -> str:
        return f"{self.host}|{self.boot}|{self.pid}|{self.started}"

    @classmethod
    def parse(cls, text: str) -> ProcessIdentity:
        """Returns the identity that ``str`` wrote.

        Raises:
            ValueError: it is not one.
        """
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
    """Returns when a process started, in clock ticks after the boot; ``None`` when it is gone or only a zombie.

    A process whose parent was killed too stays a zombie until the host's first process reaps it.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, IndexError):
        return None


def mark() -> str:
    """Returns this process as part of a file's name or a label on this host: PID namespace, process id, start time."""
    return f"{_namespace()}-{os.getpid()}-{start_ticks(os.getpid())}"


def left_behind(text: str) -> bool:
    """Returns whether a name that begins with a ``mark`` was made by a process that is gone.

    False for names without a mark, and for marks of another PID namespace, whose processes cannot be seen.
    """
    found = _MARK.match(text)
    return (
        found is not None
        and found["namespace"] == _namespace()
        and start_ticks(int(found["pid"])) != int(found["started"])
    )


def _namespace() -> str:
    return this_boot().partition("/")[2].strip("pid:[]") or "0"
