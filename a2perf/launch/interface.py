"""The interface of launchers: start commands with resources, report how each ended, and end them on request.

A launcher's module is imported only when a command names it; this module needs none of its dependencies. A package adds
a launcher with an entry point of the group ``a2perf.launchers`` that names a class or function. It is called with the
launcher's options and returns a ``Launcher``::

    [project.entry-points."a2perf.launchers"]
    my_launcher = "my_package.launcher:MyLauncher"
"""

from __future__ import annotations

import contextlib
import enum
import importlib
import inspect
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO, Protocol, runtime_checkable

from a2perf.errors import ConfigError, did_you_mean
from a2perf.launch.run_spec import RunCommand
from a2perf.plugins import load_plugin
from a2perf.system import KILL, STOPPING, require_posix

_LAUNCHERS = {
    "local": "a2perf.launch.local:LocalLauncher",
    "docker": "a2perf.launch.container:ContainerLauncher",
    "slurm": "a2perf.launch.slurm:SlurmLauncher",
    "ray": "a2perf.launch.ray:RayLauncher",
}
LAUNCHERS = tuple(_LAUNCHERS)
"""Names of the built-in launchers."""

GROUP = "a2perf.launchers"
"""Group of the entry points with which installed packages add launchers."""


class Cause(enum.Enum):
    """The cause of a command's end.

    Attributes:
        OWN: it ended by itself, crashed, or ran out of memory; the code it runs can have caused that.
        KILLED: it received SIGKILL or SIGTERM.
        OUTSIDE: its machine or engine failed, or preempted it.
    """

    OWN = "own"
    KILLED = "killed"
    OUTSIDE = "outside"

    @classmethod
    def of_signal(cls, number: int, *, oom_killed: bool) -> Cause:
        """Returns the cause of an end by a signal; a SIGKILL of the kernel's out-of-memory killer counts as ``OWN``."""
        return cls.KILLED if number in (KILL, signal.SIGTERM) and not oom_killed else cls.OWN


@dataclass(frozen=True)
class ExitStatus:
    """How a job ended.

    Attributes:
        exit_code: status of the command; ``None`` if it has none (killed, never started, node lost).
        lost: whether the launcher or the machine failed (preempted, node lost, killed from outside).
        cause: what ended it, as far as the launcher knows. Once a participant's code has run, only ``OUTSIDE`` is
            retried, and ``KILLED`` if the participant could not signal the evaluator.
        timed_out: whether the launcher ended it because ``Resources.wall_s`` was over.
        reason: one sentence for people; empty if the command ended by itself.
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
        """Name of the job for ``Launcher.adopt`` of a later process; a short text that the queue stores."""
        ...

    def poll(self) -> ExitStatus | None:
        """Returns how the job ended, or ``None`` while it waits or runs. Does not block; may return a cached answer.

        Once it returns an end, no process of the job runs any more and its log is complete.
        """
        ...

    def cancel(self) -> None:
        """Ends the job with SIGTERM, and with SIGKILL after a grace period. Does not block."""
        ...


@runtime_checkable
class Launcher(Protocol):
    """Executes commands."""

    @property
    def name(self) -> str:
        """Its name on the command line."""
        ...

    def start(self, command: RunCommand) -> Job:
        """Starts a command. Does not block.

        Raises:
            InfrastructureError: it could not be started; the queue retries it.
            UserError: it cannot be started at all, for example because the launcher does not have a resource.
        """
        ...

    def adopt(self, identity: str) -> Job | None:
        """Takes over a job that a dead launcher process had started.

        Returns:
            The job if it still waits or runs; ``None`` if no process of it is left. If jobs of this launcher cannot
            outlive it, this call waits until the job has ended and returns ``None``.
        """
        ...

    def wait(self, timeout_s: float) -> None:
        """Waits until the state of a job may have changed, at most that long."""
        ...

    def run(self, command: RunCommand) -> int:
        """Executes one command to its end in the foreground and passes SIGINT and SIGTERM on to it.

        Returns:
            Its exit status; 3 if it has none.
        """
        ...

    def close(self) -> None:
        """Ends all running jobs and releases the resources of the launcher."""
        ...


def get_launcher(name: str, **options: Any) -> Launcher:
    """Returns a launcher by its name.

    Args:
        name: one of ``LAUNCHERS``, or that of an installed package, which cannot replace a built-in launcher.

    Raises:
        ConfigError: the name or an option is unknown, or the package of the launcher is broken.
        MissingDependency: a package or program of the launcher is not installed.
    """
    if name in LAUNCHERS and name != "local":
        require_posix(f"runs with --launcher {name}")
    make = _factory(name)
    _check_options(name, make, options)
    made = make(**options)
    if not isinstance(made, Launcher):
        methods = [method for method in ("name", *_METHODS) if not hasattr(made, method)]
        raise ConfigError(
            f"the launcher {name!r} is not complete: {type(made).__name__} has no {', '.join(methods)}",
            hint="a launcher has every method of a2perf.launch.Launcher",
        )
    return made


_METHODS = ("start", "adopt", "wait", "run", "close")


def _factory(name: str) -> Callable[..., object]:
    if name in _LAUNCHERS:
        module, _, attribute = _LAUNCHERS[name].partition(":")
        factory: Callable[..., object] = getattr(importlib.import_module(module), attribute)
        return factory
    return load_plugin(GROUP, name, "launcher", gives="a launcher", others=LAUNCHERS)


def _check_options(name: str, make: Callable[..., object], options: dict[str, Any]) -> None:
    """Refuses options that the launcher does not have, before it is made."""
    parameters = inspect.signature(make).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    known = [parameter.name for parameter in parameters if parameter.kind is not parameter.POSITIONAL_ONLY]
    for option in options:
        if option not in known:
            raise ConfigError(
                f"the launcher {name!r} has no option {option!r}{did_you_mean(option, known)}",
                hint=f"its options are: {', '.join(known)}" if known else f"write --launcher {name} alone",
            )


@contextlib.contextmanager
def handled_signals(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Handles the signals that end a launcher, except those that are ignored (``nohup``)."""
    heeded = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, handler) for number in heeded}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


def run_environment(command: RunCommand) -> dict[str, str]:
    """Returns the whole environment of a command on this machine."""
    return {**os.environ, **command.env}


@contextlib.contextmanager
def appended(log: Path | None) -> Iterator[BinaryIO | None]:
    """Opens a command's log without a buffer, for output behind that of earlier attempts; ``None`` without a log."""
    if log is None:
        yield None
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab", buffering=0) as stream:
        yield stream
