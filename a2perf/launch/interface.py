"""What a launcher is: it starts commands with resources somewhere, reports how each ended, and can end them.

A launcher is a module of this package that is imported when it is asked for by name; this file needs none of the
packages that a launcher uses.
"""

from __future__ import annotations

import enum
import importlib
import os
import signal
from dataclasses import dataclass
from typing import Any, Protocol

from a2perf.errors import ConfigError, did_you_mean
from a2perf.launch.run_spec import RunCommand

_LAUNCHERS = {
    "local": "a2perf.launch.local:LocalLauncher",
    "docker": "a2perf.launch.container:ContainerLauncher",
    "slurm": "a2perf.launch.slurm:SlurmLauncher",
    "ray": "a2perf.launch.ray:RayLauncher",
}
LAUNCHERS = tuple(_LAUNCHERS)
"""The names that ``get_launcher`` knows."""


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
class ExitStatus:
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

    def poll(self) -> ExitStatus | None:
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
