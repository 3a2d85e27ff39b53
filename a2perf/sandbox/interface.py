"""How one child process is confined: the specification, the handle, and the registry of levels.

The built-in levels, weakest first, are none < process < bubblewrap < docker. An installed package adds its own through
the entry point ``a2perf.sandboxes``, which names a ``Level``. A caller gets the level it requests, or a ``UserError``
that lists the levels of this host; a weaker level is never used silently. This package knows nothing about submissions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from a2perf.errors import UserError, did_you_mean
from a2perf.plugins import RejectedPlugin, load_plugins

GROUP = "a2perf.sandboxes"
"""The entry point group of levels: its name is the level's name, its value names a ``Level``."""

LADDER = ("none", "process", "bubblewrap", "docker")
"""The built-in levels, weakest first."""

STRONGEST = "strongest"
"""Requests 'bubblewrap' if the host offers it, else 'process'."""

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
        memory_bytes: memory of the tree, and private memory of each process unless it is derived from the host.
        memory_shares: set if ``memory_bytes`` is derived from the host: the number of trees among which its memory is
            divided. Processes may then reserve more private memory than they use, as numeric libraries do.
        file_size_bytes: size of one file that the tree writes; by default ``artifact_bytes``.
        artifact_bytes: total size of the files in the writable folders. Each file counts with its length or its disk
            space, whichever is larger.
        artifact_entries: files and folders in the writable folders; by default ``DEFAULT_ARTIFACT_ENTRIES`` if
            ``artifact_bytes`` is set.
        output_bytes: bytes kept of each of stdout and stderr; further output is read and dropped.
        scratch_bytes: size of a private ``/tmp`` and of a private ``/dev/shm``, at levels that provide them.
    """

    wall_s: float | None = None
    cpu_s: float | None = None
    cpus: float | None = None
    memory_bytes: int | None = None
    memory_shares: int | None = None
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
        readable: paths it must be able to read, at levels that hide the rest. The program's own installation is
            derived from ``argv``.
        writable: paths it must be able to write, at levels that protect the rest.
        hidden: paths it must not see, even inside a readable folder, at levels that can hide files.
        devices: device files it may use, at levels that hide the rest.
        network: whether it may use the network, at levels that can prevent it.
        fds: open descriptors it keeps under the same numbers; all others are closed.
        stdin: its standard input, which stays open until the tree ends; only where no descriptors are inherited.
        temporary: folders that are deleted when the tree has ended, even if the caller was killed before. At a level
            with a private ``/tmp`` the tree gets a private copy of their folders and links there.
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
    stdin: bytes = b""
    temporary: Sequence[Path] = ()


@dataclass(frozen=True)
class Ending:
    """How a confined process ended, and what its tree used.

    Attributes:
        limit: name of the bound in ``Limits`` that the tree broke, ``"artifact_depth"`` or ``"artifact_unreadable"``,
            else ``None``. Bounds on files are checked once more after the end.
        wall_s: wall time from the start of the program to the end of the last process, in seconds; ``None`` if the
            guard was killed.
        cpu_s: CPU time of all processes of the tree, dead ones included, in seconds.
        max_rss_bytes: largest resident set of one process of the tree.
        peak_memory_bytes: peak memory of the tree, file cache included, from its control group.
        oom_kills: processes of the tree that the kernel killed because memory ran out, at the limit of the tree or on
            the host; ``None`` without a control group that counts them.
        refused_forks: how often the control group refused the tree another process or thread.
        dropped_bytes: bytes of output beyond the cap, by stream name.
        collected: three counts over the writable folders after the end: entries removed (neither file, folder nor
            link), entries reset (set-ID bits, access lists, a mode that locks out the owner), and entries that failed.
    """

    exit_code: int | None
    signal: int | None
    limit: str | None = None
    limit_value: float | None = None
    killed: bool = False
    wall_s: float | None = None
    cpu_s: float = 0.0
    max_rss_bytes: int = 0
    peak_memory_bytes: int | None = None
    oom_kills: int | None = None
    refused_forks: int = 0
    dropped_bytes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    collected: tuple[int, ...] = (0, 0, 0)


class Confined(Protocol):
    """A running confined process tree."""

    @property
    def pid(self) -> int:
        """Process id of the started program on this host."""

    @property
    def tree_root(self) -> int:
        """Process id of an ancestor of the whole tree, orphans included; it is not part of the tree itself."""

    @property
    def cgroups(self) -> tuple[Path, ...]:
        """Folders of the control group that holds exactly this tree; empty without a control group."""

    @property
    def cpu_clock(self) -> Callable[[], float] | None:
        """A function that returns the tree's processor time in seconds, from the kernel's task clock.

        ``None`` if a control group counts the time, or if the host offers neither.
        """

    def fileno(self) -> int:
        """Descriptor that becomes readable when the state may have changed; for use with ``select.poll``."""

    def poll(self) -> Ending | None:
        """Returns how the program ended, or ``None`` while it runs. Never blocks.

        Other processes of the tree may still be ending; ``wait`` waits for them.
        """

    def wait(self, timeout_s: float | None = None) -> Ending | None:
        """Waits until no process of the tree is left. Returns ``None`` on timeout."""

    def kill_tree(self) -> Ending:
        """Kills every process of the tree and waits until none is left. Calling it again changes nothing."""


class Sandbox(Protocol):
    """One level of confinement."""

    @property
    def level(self) -> str:
        """The name under which it is registered."""

    def guarantees(self, *, network: bool = False) -> list[str]:
        """Returns what it enforces on this host, one phrase each; ``network``: whether the network is allowed."""

    def missing(self, *, network: bool = False) -> list[str]:
        """Returns what it does not prevent on this host, one phrase each."""

    def unenforceable(self, limits: Limits) -> list[str]:
        """Returns which of these limits it cannot enforce on this host, one phrase each."""

    def start(self, spec: SandboxSpec) -> Confined:
        """Starts one process.

        Raises:
            InfrastructureError: the host could not start it.
        """


@dataclass(frozen=True)
class Level:
    """A registered level.

    Attributes:
        unavailable: returns why this host cannot offer it, or ``None`` if it can.
        above: the built-in level that this one is stronger than. Lists sort it behind that level, and
            ``allow_weaker`` falls back to it. A built-in level takes its place from ``LADDER``.
        hides_files: whether the program sees only the host's files that ``SandboxSpec`` names. Links out of a
            submission are harmless at such a level, and errors of the submission at any other.
    """

    make: Callable[[], Sandbox]
    unavailable: Callable[[], str | None] = lambda: None
    hint: str | Callable[[], str] | None = None
    above: str = "none"
    hides_files: bool = False


_levels: dict[str, Level] = {}


def register_sandbox(name: str, level: Level) -> None:
    """Adds a level to the registry; a later registration of the same name replaces the earlier one."""
    _levels[name] = level


def levels() -> Mapping[str, Level]:
    """Returns every registered level by name, weakest first; those of installed packages are included."""
    found = {**_installed()[0], **_levels}
    return MappingProxyType(dict(sorted(found.items(), key=lambda item: _rank(*item))))


def problems() -> Mapping[str, str]:
    """Returns, by name, why an entry point of an installed package could not be used."""
    return MappingProxyType(_installed()[1])


@functools.cache
def _installed() -> tuple[dict[str, Level], dict[str, str]]:
    found: dict[str, Level] = {}

    def accept(name: str, level: object) -> None:
        # A package must not be able to replace a level on which competitions and the rules on retries rely.
        if name in (*LADDER, STRONGEST):
            raise RejectedPlugin(f"the name {name!r} is taken")
        if not isinstance(level, Level):
            raise RejectedPlugin(f"{level!r} is not a Level")
        if level.above not in LADDER:
            raise RejectedPlugin(f"above={level.above!r} is not one of {', '.join(LADDER)}")
        found[name] = level

    problems = load_plugins(GROUP, accept)
    return found, {name: str(problem) for name, problem in problems.items()}


def _rank(name: str, level: Level) -> tuple[int, bool, str]:
    built_in = name in LADDER
    return LADDER.index(name if built_in else level.above), not built_in, name


def available_levels() -> list[str]:
    """Returns the levels that this host can offer, weakest first."""
    return [name for name, level in levels().items() if level.unavailable() is None]


def get_sandbox(level: str) -> Sandbox:
    """Returns the sandbox of that level; ``"strongest"`` is 'bubblewrap' if this host offers it, else 'process'.

    Raises:
        UserError: the level is unknown, or this host cannot offer it.
    """
    if level == STRONGEST:
        level = strongest_level()
    reason = why_unavailable(level)
    known = levels()
    if reason is None:
        return known[level].make()
    if level not in known:
        wrong = f": {problems()[level]}" if level in problems() else did_you_mean(level, [*known, STRONGEST])
        hint = f"choose one of: {', '.join([*available_levels(), STRONGEST])}"
        raise UserError(f"{level!r} is not a sandbox level{wrong}", hint=hint)
    raise _refusal(level, reason, f"or choose a level of this host: {', '.join(available_levels())}")


def _refusal(level: str, reason: str, otherwise: str) -> UserError:
    hint = hint_of(level)
    return UserError(
        f"sandbox level {level!r} is not available on this host: {reason}",
        hint=f"{hint}; {otherwise}" if hint else otherwise.removeprefix("or "),
    )


def level_text(level: str, asked: str) -> str:
    """Returns the first line of a run: its level, and why ``"strongest"`` was not a stronger one."""
    reason = why_unavailable("bubblewrap") if asked == STRONGEST and level == "process" else None
    return f"sandbox: {level}" + (f", which hides no files of this host ({reason})" if reason else "")


def why_unavailable(level: str) -> str | None:
    """Returns why this host cannot offer a level, or ``None`` if it can."""
    known = levels()
    return known[level].unavailable() if level in known else "unknown level"


def hint_of(level: str) -> str | None:
    """Returns how to make a level available, or ``None`` if that is unknown."""
    known = levels()
    hint = known[level].hint if level in known else None
    return hint() if callable(hint) else hint


def strongest_level(at_most: str = "bubblewrap") -> str:
    """Returns the strongest built-in level that this host can offer, up to and including ``at_most``."""
    for name in reversed(LADDER[: LADDER.index(at_most) + 1]):
        if why_unavailable(name) is None:
            return name
    return LADDER[0]


def choose_sandbox(asked: str, limits: Limits, *, allow_weaker: bool = False) -> tuple[Sandbox, list[str]]:
    """Returns the requested sandbox; with ``allow_weaker`` the strongest level below it if the host cannot offer it.

    Args:
        asked: a level, or ``"strongest"``.
        allow_weaker: whether a weaker level, or the level without some limits, is acceptable.

    Raises:
        UserError: this host cannot offer the level or enforce a limit, and ``allow_weaker`` is not set.
    """
    lost: list[str] = []
    level = strongest_level() if asked == STRONGEST else asked
    known = levels()
    reason = known[level].unavailable() if level in known else None
    if reason is not None and not allow_weaker:
        raise _refusal(level, reason, "or add --allow-weaker to use the strongest level that this host offers")
    if reason is not None:
        below = LADDER[LADDER.index(level) - 1] if level in LADDER else known[level].above
        lost.append(f"the requested level {level!r}: {reason}")
        level = strongest_level(below)
    sandbox = get_sandbox(level)
    without = sandbox.unenforceable(limits)
    if without and not allow_weaker:
        raise UserError(
            f"level {level!r} cannot enforce these limits on this host: {'; '.join(without)}",
            hint="remove the limit, choose a stronger level (`a2perf doctor` shows what this host can enforce),"
            " or add --allow-weaker to run without it",
        )
    return sandbox, lost + without
