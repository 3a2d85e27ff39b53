"""What a launcher is: it starts commands with resources somewhere, says how each ended, and can end them.

A command is usually one run of the evaluator (``RunCommand.evaluator``), but nothing here depends on it: the benchmark
matrix and the performance tests give launchers commands of their own. Launchers are modules of this room that are
imported when they are asked for by name; this file needs no package of theirs.
"""

from __future__ import annotations

import enum
import importlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from a2perf.errors import ConfigError, did_you_mean

EVALUATOR = "a2perf.submission.main_submission"
_LAUNCHERS = {
    "local": "a2perf.launch.local:LocalLauncher",
    "docker": "a2perf.launch.container:ContainerLauncher",
    "slurm": "a2perf.launch.slurm:SlurmLauncher",
    "ray": "a2perf.launch.ray:RayLauncher",
}
LAUNCHERS = tuple(_LAUNCHERS)
"""The names that ``get_launcher`` knows."""

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Resources:
    """What one run may use; ``None`` is whatever the launcher gives by default.

    Attributes:
        cpus: processors, a fraction where the launcher can share one.
        memory_bytes: memory of the whole run, evaluator included.
        gpus: graphics processors.
        wall_s: wall time in seconds, after which the launcher ends the run.
    """

    cpus: float | None = None
    memory_bytes: int | None = None
    gpus: int = 0
    wall_s: float | None = None


@dataclass(frozen=True)
class RunCommand:
    """One command for a launcher.

    Attributes:
        argv: program and arguments; the program is a path on the machine that executes it.
        name: what it is called in lists and in the names of jobs; unique among what runs at the same time.
        cwd: working directory.
        env: variables added to those of the launcher's own environment.
        log: file to which stdout and stderr are appended as they come; ``None`` lets them through to the launcher's.
        resources: what it may use.
        domain: name of the domain it belongs to; a launcher of images chooses by it.
        readable: files and folders it reads, for launchers that hide the rest of the machine.
        writable: folders it writes, for the same.
    """

    argv: tuple[str, ...]
    name: str = "run"
    cwd: Path = field(default_factory=Path.cwd)
    env: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    log: Path | None = None
    resources: Resources = Resources()
    domain: str | None = None
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()

    @classmethod
    def evaluator(cls, flags: Sequence[str], **attributes: Any) -> RunCommand:
        """Returns the command of one run: the evaluator under this interpreter, whatever PATH says.

        The working directory may be the submission's folder, and no module is imported from there (``-P``).

        Args:
            flags: flags of ``a2perf.submission.main_submission``.
            attributes: the other attributes of the class.
        """
        return cls((sys.executable, "-P", "-m", EVALUATOR, *flags), **attributes)

    def evaluator_flags(self) -> tuple[str, ...] | None:
        """Returns the flags of an evaluator's command, or ``None`` for any other command."""
        words = self.argv[2:] if self.argv[1:2] == ("-P",) else self.argv[1:]  # a queue may hold older commands
        return words[2:] if words[:2] == ("-m", EVALUATOR) else None

    def to_json(self) -> dict[str, Any]:
        """Returns the command as a JSON object; ``from_json`` takes it back."""
        return {
            **{name: getattr(self, name) for name in ("name", "domain")},
            "argv": list(self.argv),
            "cwd": str(self.cwd),
            "env": dict(self.env),
            "log": None if self.log is None else str(self.log),
            "resources": asdict(self.resources),
            "readable": [str(path) for path in self.readable],
            "writable": [str(path) for path in self.writable],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RunCommand:
        """Returns the command that ``to_json`` wrote."""
        return cls(
            argv=tuple(value["argv"]),
            name=value["name"],
            cwd=Path(value["cwd"]),
            env=value["env"],
            log=None if value["log"] is None else Path(value["log"]),
            resources=Resources(**value["resources"]),
            domain=value["domain"],
            readable=tuple(map(Path, value["readable"])),
            writable=tuple(map(Path, value["writable"])),
        )


class Cause(enum.Enum):
    """What ended a command.

    Attributes:
        OWN: it ended by itself, crashed, or ran out of memory: what it runs may have brought that about.
        KILLED: somebody sent it SIGKILL or SIGTERM.
        OUTSIDE: its machine or its engine failed, or ended it for others.
    """

    OWN = "own"
    KILLED = "killed"
    OUTSIDE = "outside"

    @classmethod
    def of_signal(cls, number: int, *, oom_killed: bool) -> Cause:
        """Returns the cause of an end by a signal; the kernel's own SIGKILL for lack of memory counts as ``OWN``."""
        return cls.KILLED if number in (signal.SIGKILL, signal.SIGTERM) and not oom_killed else cls.OWN


@dataclass(frozen=True)
class Ended:
    """How a job ended.

    Attributes:
        exit_code: status of the command; ``None`` when it has none (killed, never started, node lost).
        lost: the launcher's or the machine's fault (preempted, node lost, killed from outside).
        cause: what ended it, as far as the launcher knows. Once a participant's code has run, only ``OUTSIDE`` is tried
            again, and ``KILLED`` if the participant could not reach the evaluator.
        timed_out: the launcher ended it because ``Resources.wall_s`` was over.
        reason: one sentence for people; empty when the command ended by itself.
    """

    exit_code: int | None
    lost: bool = False
    cause: Cause = Cause.OWN
    timed_out: bool = False
    reason: str = ""


class Job(Protocol):
    """A started command."""

    @property
    def identity(self) -> str:
        """Names the job for ``Launcher.adopt`` of a later process; short text, fit to be stored."""
        ...

    def poll(self) -> Ended | None:
        """Returns how the job ended, or ``None`` while it waits or runs. Returns at once (a cached answer will do).

        When it returns an end, nothing of the job runs any more and its log is complete.
        """
        ...

    def cancel(self) -> None:
        """Asks the job to end: politely first, by force when it does not obey in time. Returns at once."""
        ...


class Launcher(Protocol):
    """Executes commands."""

    @property
    def name(self) -> str:
        """Its name on the command line."""
        ...

    def start(self, command: RunCommand) -> Job:
        """Starts a command and returns at once.

        Raises:
            InfrastructureError: it could not be started; it may be tried again.
            UserError: it can never be started so (a resource this launcher does not have).
        """
        ...

    def adopt(self, identity: str) -> Job | None:
        """Takes over a job that a launcher process which is gone had started.

        Returns:
            The job if it still waits or runs; ``None`` when nothing of it is left, which this call sees to where the
            launcher's jobs do not outlive it.
        """
        ...

    def wait(self, timeout_s: float) -> None:
        """Waits until a started job may have news, at most that long."""
        ...

    def run(self, command: RunCommand) -> int:
        """Executes one command to its end in the foreground, passes SIGINT and SIGTERM on to it.

        Returns:
            Its exit status; 3 when it has none.
        """
        ...

    def close(self) -> None:
        """Ends what still runs and frees what the launcher holds."""
        ...


def get_launcher(name: str, **options: Any) -> Launcher:
    """Returns a launcher by its name.

    Args:
        name: one of ``LAUNCHERS``.
        options: passed to the launcher; which ones there are is the launcher's own matter.

    Raises:
        ConfigError: no such launcher.
        MissingDependency: a package or program of the launcher is not installed.
    """
    if name not in _LAUNCHERS:
        raise ConfigError(
            f"{name!r} is not a launcher{did_you_mean(name, LAUNCHERS)}", hint=f"choose one of: {', '.join(LAUNCHERS)}"
        )
    module, _, attribute = _LAUNCHERS[name].partition(":")
    launcher: Launcher = getattr(importlib.import_module(module), attribute)(**options)
    return launcher


def heeded_signals() -> list[signal.Signals]:
    """Returns the signals that ask a launcher to end; one that is ignored (``nohup``) stays ignored."""
    asking = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in asking if signal.getsignal(number) is not signal.SIG_IGN]


def run_environment(command: RunCommand) -> dict[str, str]:
    """Returns the whole environment of a command on this machine."""
    return {**os.environ, **command.env}
