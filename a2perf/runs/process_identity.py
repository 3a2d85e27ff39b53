"""Who holds something: a process named so that it is never taken for another one, also after a restart of the host.

A process id alone is reused; with the start time of the process and the boot id of the host it is not. Process ids
mean nothing across PID namespaces, so the namespace counts as part of the boot.
"""

from __future__ import annotations

import functools
import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Owner:
    """One process of one boot of one host.

    Attributes:
        host: name of the host.
        boot: boot id of its kernel and the PID namespace.
        pid: process id there.
        started: start of the process in clock ticks after the boot.
    """

    host: str
    boot: str
    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Owner:
        """Returns the identity of a living process of this host.

        Raises:
            ProcessLookupError: there is none.
        """
        started = start_ticks(pid)
        if started is None:
            raise ProcessLookupError(f"no process {pid}")
        return cls(socket.gethostname(), this_boot(), pid, started)

    @classmethod
    def current(cls) -> Owner:
        """Returns the identity of this process."""
        return cls.of(os.getpid())

    @property
    def here(self) -> bool:
        """Whether this process can see the owner's process id."""
        return self.host == socket.gethostname() and self.boot == this_boot()

    def alive(self) -> bool | None:
        """Whether the process lives; ``None`` when that cannot be seen from here."""
        if self.here:
            return start_ticks(self.pid) == self.started
        if self.host == socket.gethostname() and self.boot.partition("/")[0] != this_boot().partition("/")[0]:
            return False  # this host has been restarted since
        return None

    def __str__(self) -> str:
        return f"{self.host}|{self.boot}|{self.pid}|{self.started}"

    @classmethod
    def parse(cls, text: str) -> Owner:
        """Returns the identity that ``str`` wrote.

        Raises:
            ValueError: it is not one.
        """
        host, boot, pid, started = text.split("|")
        return cls(host, boot, int(pid), int(started))


@functools.cache
def this_boot() -> str:
    """Returns the boot id of this kernel and the PID namespace of this process."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    try:
        return f"{boot.read_text().strip()}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return "unknown/unknown"


def start_ticks(pid: int) -> int | None:
    """Returns when a process started, in clock ticks after the boot; ``None`` when it is gone or only a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
