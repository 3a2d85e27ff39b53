"""How one child process is confined: the specification, the handle, and the registry of levels.

A level is a rung of the ladder none < process < bubblewrap < docker. A caller that asks for a level gets that level
or a ``UserError`` which names what this host has; nothing is downgraded in silence. This room knows nothing of
submissions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from a2perf.errors import UserError, did_you_mean

LADDER = ("none", "process", "bubblewrap", "docker")
"""Every level the design knows, weakest first."""

DEFAULT_OUTPUT_BYTES = 10 * 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """Bounds on one process tree; ``None`` means no bound.

    Attributes:
        wall_s: wall time of the whole tree, in seconds.
        cpu_s: CPU time of one process, in seconds.
        memory_bytes: private memory of one process, and proportional set size of the tree.
        processes: number of processes in the tree.
        file_size_bytes: size of one file that the tree writes.
        output_bytes: how much of each of stdout and stderr is kept; what exceeds it is dropped, never blocked on.
    """

    wall_s: float | None = None
    cpu_s: float | None = None
    memory_bytes: int | None = None
    processes: int | None = None
    file_size_bytes: int | None = None
    output_bytes: int = DEFAULT_OUTPUT_BYTES


@dataclass(frozen=True)
class SandboxSpec:
    """One process to start.

    Attributes:
        argv: program (an absolute path) and arguments.
        cwd: working directory.
        env: the complete environment; nothing is inherited.
        readable: paths it must be able to read, where the level hides the rest.
        writable: paths it must be able to write, where the level protects the rest.
        limits: bounds on the tree.
        fds: open descriptors it keeps, under the same numbers; every other one is closed.
        stdout: file that captures its standard output; ``None`` drops it.
        stderr: file that captures its standard error; ``None`` drops it.
        temporary: folders that are deleted when the tree has ended, also when the caller was killed before.
    """

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    readable: Sequence[Path] = ()
    writable: Sequence[Path] = ()
    limits: Limits = Limits()
    fds: Sequence[int] = ()
    stdout: Path | None = None
    stderr: Path | None = None
    temporary: Sequence[Path] = ()


@dataclass(frozen=True)
class Ending:
    """How a confined process ended, and what its tree used.

    Attributes:
        exit_code: its status, where it ended by itself.
        signal: number of the signal that ended it, else ``None``.
        limit: name of the bound in ``Limits`` for which the tree was killed, else ``None``.
        limit_value: the value that broke the bound.
        killed: the caller asked for the end.
        cpu_s: CPU time of all processes of the tree together, dead ones included, in seconds.
        max_rss_bytes: largest resident set of one process of the tree.
        dropped_bytes: bytes of output beyond the cap, by stream name.
    """

    exit_code: int | None
    signal: int | None
    limit: str | None = None
    limit_value: float | None = None
    killed: bool = False
    cpu_s: float = 0.0
    max_rss_bytes: int = 0
    dropped_bytes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


class Confined(Protocol):
    """A running confined process tree."""

    @property
    def pid(self) -> int:
        """Process id of the started program on this host."""
        ...

    @property
    def tree_root(self) -> int:
        """Process id whose descendants are the whole tree, orphans included; itself it is not part of it."""
        ...

    @property
    def cgroup(self) -> Path | None:
        """The control group that holds the tree, where the level makes one."""
        ...

    def fileno(self) -> int:
        """Descriptor that becomes readable when there may be news; for use with ``select.poll``."""
        ...

    def poll(self) -> Ending | None:
        """Returns how the program ended, or ``None`` while it runs. Never blocks.

        The tree's remains may still be on their way out; ``wait`` waits for them.
        """
        ...

    def wait(self, timeout_s: float | None = None) -> Ending | None:
        """Waits until the program has ended and nothing of its tree is left; ``None`` when the time is over first."""
        ...

    def kill_tree(self) -> Ending:
        """Kills every process of the tree and waits until none is left. Calling it again changes nothing."""
        ...


class Sandbox(Protocol):
    """One level of confinement."""

    @property
    def level(self) -> str:
        """Its name on the ladder."""
        ...

    def guarantees(self) -> list[str]:
        """Says, one sentence each, what it enforces on this host."""
        ...

    def missing(self) -> list[str]:
        """Says, one sentence each, what it does not keep a participant from doing."""
        ...

    def start(self, spec: SandboxSpec) -> Confined:
        """Starts one process.

        Raises:
            InfrastructureError: the host could not start it.
        """
        ...


@dataclass(frozen=True)
class Level:
    """A registered level.

    Attributes:
        make: builds the sandbox.
        unavailable: returns why this host cannot offer it, or ``None`` when it can.
    """

    make: Callable[[], Sandbox]
    unavailable: Callable[[], str | None] = lambda: None


_levels: dict[str, Level] = {}


def register_sandbox(name: str, level: Level) -> None:
    """Adds a level to the registry; a later registration of the same name replaces the earlier one."""
    _levels[name] = level


def available_levels() -> list[str]:
    """Returns the levels that this host can offer, weakest first."""
    order = {name: index for index, name in enumerate(LADDER)}
    names = [name for name, level in _levels.items() if level.unavailable() is None]
    return sorted(names, key=lambda name: (order.get(name, len(order)), name))


def get_sandbox(level: str) -> Sandbox:
    """Returns the sandbox of that level.

    Raises:
        UserError: the level is unknown, or this host cannot offer it; the message names those that it can.
    """
    offered = ", ".join(available_levels())
    if level not in _levels:
        known = sorted({*_levels, *LADDER})
        reason = "not installed here" if level in LADDER else f"not a known level{did_you_mean(level, known)}"
        raise UserError(f"sandbox level {level!r} is {reason}", mend=f"this host offers: {offered}")
    reason_against = _levels[level].unavailable()
    if reason_against is not None:
        raise UserError(
            f"sandbox level {level!r} is not available on this host: {reason_against}",
            mend=f"this host offers: {offered}",
        )
    return _levels[level].make()


def is_linux() -> bool:
    """Whether the host has what the guard needs: ``/proc`` and ``prctl``."""
    return os.path.exists("/proc/self/stat")
