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

STRONGEST = "strongest"
"""What a caller asks for who takes the better one of 'process' and 'bubblewrap' that the host offers."""

DEFAULT_OUTPUT_BYTES = 10 * 1024 * 1024
DEFAULT_SCRATCH_BYTES = 1024 * 1024 * 1024
DEFAULT_ARTIFACT_ENTRIES = 200_000


@dataclass(frozen=True)
class Limits:
    """Bounds on one process tree; ``None`` means no bound.

    Attributes:
        wall_s: wall time of the whole tree, in seconds.
        cpu_s: CPU time of one process, in seconds.
        cpus: how many processors' worth of time the tree gets; needs a control group.
        memory_bytes: private memory of one process, and memory of the tree.
        processes: number of processes in the tree.
        file_size_bytes: size of one file that the tree writes; ``artifact_bytes`` unless given.
        artifact_bytes: what the writable folders hold, a file with its size or its disk space, whichever is more.
        artifact_entries: files and folders in the writable folders; ``DEFAULT_ARTIFACT_ENTRIES`` where
            ``artifact_bytes`` is given.
        output_bytes: how much of each of stdout and stderr is kept; what exceeds it is dropped, never blocked on.
        scratch_bytes: size of ``/tmp`` and of ``/dev/shm``, where the level gives the tree ones of its own.
    """

    wall_s: float | None = None
    cpu_s: float | None = None
    cpus: float | None = None
    memory_bytes: int | None = None
    processes: int | None = None
    file_size_bytes: int | None = None
    artifact_bytes: int | None = None
    artifact_entries: int | None = None
    output_bytes: int = DEFAULT_OUTPUT_BYTES
    scratch_bytes: int = DEFAULT_SCRATCH_BYTES


@dataclass(frozen=True)
class SandboxSpec:
    """One process to start.

    Attributes:
        argv: program (an absolute path) and arguments.
        cwd: working directory.
        env: the complete environment; nothing is inherited.
        readable: paths it must be able to read, where the level hides the rest; the program's own installation is
            found from ``argv``.
        writable: paths it must be able to write, where the level protects the rest.
        hidden: paths it must not see even inside a readable folder, where the level hides anything.
        devices: device files it may use, where the level hides the rest.
        network: whether it reaches the network, where the level can keep it from that.
        limits: bounds on the tree.
        fds: open descriptors it keeps, under the same numbers; every other one is closed.
        stdout: file that captures its standard output; ``None`` drops it.
        stderr: file that captures its standard error; ``None`` drops it.
        temporary: folders that are deleted when the tree has ended, also when the caller was killed before. A level
            with a ``/tmp`` of its own gives the tree a private copy of their folders and links there.
    """

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    readable: Sequence[Path] = ()
    writable: Sequence[Path] = ()
    hidden: Sequence[Path] = ()
    devices: Sequence[Path] = ()
    network: bool = False
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
        limit: name of the bound in ``Limits`` that the tree broke, ``"artifact_depth"`` or ``"artifact_unreadable"``,
            else ``None``; bounds on what it writes are also checked when it has ended.
        limit_value: the value that broke the bound.
        killed: the caller asked for the end.
        cpu_s: CPU time of all processes of the tree together, dead ones included, in seconds.
        max_rss_bytes: largest resident set of one process of the tree.
        peak_memory_bytes: most memory that the tree ever held, file cache included; from its control group.
        oom_kills: processes of the tree that the kernel killed at the memory limit of its control group.
        refused_forks: how often the control group refused the tree another process or thread.
        dropped_bytes: bytes of output beyond the cap, by stream name.
        collected: after the end, how many names in the writable folders were removed since they were neither file,
            folder nor link; were made plain (set-ID bits, access lists, a mode that kept their owner out); or resisted.
    """

    exit_code: int | None
    signal: int | None
    limit: str | None = None
    limit_value: float | None = None
    killed: bool = False
    cpu_s: float = 0.0
    max_rss_bytes: int = 0
    peak_memory_bytes: int | None = None
    oom_kills: int = 0
    refused_forks: int = 0
    dropped_bytes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    collected: tuple[int, ...] = (0, 0, 0)


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
    def cgroups(self) -> tuple[Path, ...]:
        """Folders of the control group that holds the tree and nothing else; empty where there is none."""
        ...

    @property
    def cpu_clock(self) -> Callable[[], float] | None:
        """Returns the seconds of processor time of the tree, as the kernel counts them where there is no control group.

        ``None`` where a control group counts, and where neither can be had.
        """
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

    def guarantees(self, *, network: bool = False) -> list[str]:
        """Says, one sentence each, what it enforces on this host, with or without the network allowed."""
        ...

    def missing(self, *, network: bool = False) -> list[str]:
        """Says, one sentence each, what it does not keep a participant from doing."""
        ...

    def unenforceable(self, limits: Limits) -> list[str]:
        """Says, one sentence each, which of these limits it cannot enforce on this host."""
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
        hint: what makes it available.
    """

    make: Callable[[], Sandbox]
    unavailable: Callable[[], str | None] = lambda: None
    hint: str | None = None


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
    """Returns the sandbox of that level; ``"strongest"`` is the better one of 'process' and 'bubblewrap' here.

    Raises:
        UserError: the level is unknown, or this host cannot offer it; the message says why, the hint what to do.
    """
    if level == STRONGEST:
        level = strongest_level()
    reason = why_unavailable(level)
    if reason is None:
        return _levels[level].make()
    offered = f"this host offers: {', '.join(available_levels())}"
    if level not in _levels:
        known = [*_levels, STRONGEST]
        raise UserError(f"{level!r} is not a sandbox level{did_you_mean(level, known)}", hint=offered)
    raise _not_to_be_had(level, reason, offered)


def _not_to_be_had(level: str, reason: str, otherwise: str) -> UserError:
    hint = _levels[level].hint
    return UserError(
        f"sandbox level {level!r} is not available on this host: {reason}",
        hint=f"{hint}; {otherwise}" if hint else otherwise,
    )


def why_unavailable(level: str) -> str | None:
    """Returns why this host cannot offer a level, or ``None`` when it can."""
    return _levels[level].unavailable() if level in _levels else "it is not known"


def hint_of(level: str) -> str | None:
    """Returns what makes a level available."""
    return _levels[level].hint if level in _levels else None


def strongest_level(at_most: str = "bubblewrap") -> str:
    """Returns the strongest level of the ladder that this host can offer, up to the given one."""
    for name in reversed(LADDER[: LADDER.index(at_most) + 1]):
        if why_unavailable(name) is None:
            return name
    raise UserError("this host can confine nothing", hint="a2perf runs submissions on Linux only")


def choose_sandbox(asked: str, limits: Limits, *, allow_weaker: bool = False) -> tuple[Sandbox, list[str]]:
    """Returns a sandbox that keeps what was asked for, or, where that was allowed, the strongest that comes near.

    Args:
        asked: a level, or ``"strongest"``.
        limits: the bounds that have to hold.
        allow_weaker: whether less than what was asked for will do.

    Returns:
        The sandbox, and one sentence for everything that was asked for and is not in force.

    Raises:
        UserError: the level or a limit cannot be had on this host, and ``allow_weaker`` is not set.
    """
    lost: list[str] = []
    level = strongest_level() if asked == STRONGEST else asked
    reason = why_unavailable(level) if level in _levels else None
    if reason is not None and not allow_weaker:
        raise _not_to_be_had(level, reason, "or accept the strongest level that this host offers with --allow-weaker")
    if reason is not None and level in LADDER:
        weaker = strongest_level(LADDER[LADDER.index(level) - 1])
        lost.append(f"the level {level!r} that was asked for: {reason}")
        level = weaker
    sandbox = get_sandbox(level)
    without = sandbox.unenforceable(limits)
    if without and not allow_weaker:
        raise UserError(
            f"what was asked for cannot be enforced at level {level!r} on this host: {'; '.join(without)}",
            hint="leave the limit out, choose a stronger level (`a2perf doctor` shows what this host can enforce),"
            " or accept less with --allow-weaker",
        )
    return sandbox, lost + without


def is_linux() -> bool:
    """Whether the host has what the guard needs: ``/proc`` and ``prctl``."""
    return os.path.exists("/proc/self/stat")
