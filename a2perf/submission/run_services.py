"""Services that installed packages offer to a run: one more socket in the participant's sandbox.

A package declares a subclass of ``RunService`` with an entry point of the group ``a2perf.run_options``. Its fields are
settings of a run: each can be bound in a gin file, and a field that is declared with ``settings.option`` is an option
of every command that starts runs. The evaluator opens each service that a run asks for around its participant
processes.
"""

from __future__ import annotations

import functools
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from a2perf.errors import ConfigError
from a2perf.plugins import RejectedPlugin, install_line, is_installed, load_plugins
from a2perf.records import Failure
from a2perf.system import require_posix

GROUP = "a2perf.run_options"
BROUGHT_BY = {"model": "agents"}
"""The distribution ``packages/NAME`` that brings an option of every run."""


@dataclass(frozen=True, kw_only=True)
class ServedRun:
    """The run that a service is opened for.

    Attributes:
        submission: the submission's folder; a path may not go through its links, see ``given_paths.settled``.
        folder: gets the service's files; for a recorded run the bundle, which lists and hashes them.
        is_recorded: whether the run is recorded; a trial of `a2perf check` is not.
        passed_variables: environment variables that the organizer passes on to the participant.
    """

    submission: Path
    folder: Path
    logs: Path
    attempt: int = 1
    is_recorded: bool = True
    passed_variables: Sequence[str] = ()
    warn: Callable[[str], None] = lambda text: None
    say: Callable[[str], None] = lambda text: None


class ServiceSession:
    """One part of a run that uses a service: all participant processes that run one after the other.

    It has to be picklable for a child process of the evaluator.

    Attributes:
        address: variable with the address of the socket, ``"ECHO_ADDRESS=127.0.0.1:{port}"``. The worker fills in the
            port and sets it before any code of the participant runs.
    """

    variables: Mapping[str, str] = MappingProxyType({})
    address: str = ""

    def listen(self, listener: socket.socket) -> None:
        """Takes the listening socket of a new participant process, which the caller closes; the earlier one is dead.

        It listens on the private loopback of the sandbox, and the service accepts its connections from outside.
        """
        raise NotImplementedError

    def another(self) -> ServiceSession:
        """Returns a session for a part of the run that runs at the same time."""
        raise NotImplementedError

    def enter(self, phase: str, episode: int | None = None, *, task: str | None = None) -> None:
        """Notes where the run is: a phase (``"load"``, ``"episode"``), an episode and a task, by default the same."""

    def explained(self, failure: Failure) -> Failure:
        """Returns a failure of the participant with the cause that the service knows."""
        return failure

    def reporting_energy(self, net_kwh: Callable[[], float]) -> AbstractContextManager[None]:
        """Is open while the participant's process tree is tracked; ``net_kwh`` is its energy above idle in kWh."""
        return nullcontext()

    def close(self) -> None:
        """Closes a session of ``another``."""


@dataclass(frozen=True, kw_only=True)
class RunService:
    """A service and its settings; a subclass is a frozen dataclass with a default for each field."""

    name: ClassVar[str] = ""

    def is_wanted(self) -> bool:
        """Returns whether the settings ask for the service."""
        raise NotImplementedError

    def names(self) -> Sequence[str]:
        """Returns what takes part in the run from outside, such as models: part of its identity (``models``)."""
        return ()

    def identity(self) -> dict[str, Any]:
        """Returns the settings that can change a number or a claim of the run, as JSON values, for its manifest."""
        return {}

    def hidden_paths(self) -> Sequence[str]:
        """Returns files and folders that the participant must not see."""
        return ()

    def open(self, run: ServedRun) -> AbstractContextManager[ServiceSession]:
        """Returns the service of one run, open until the last participant process has ended.

        Raises:
            ConfigError: a setting is wrong.
            InfrastructureError: the service cannot be reached.
        """
        raise NotImplementedError

    @classmethod
    def explain_absence(cls, failure: Failure) -> Failure:
        """Returns a failure of a participant that asks for the service in a run without it, with that cause."""
        return failure


def run_services() -> tuple[type[RunService], ...]:
    """Returns the services of installed packages."""
    return tuple(_installed()[0].values())


def wanted_services() -> tuple[RunService, ...]:
    """Returns the services that the gin configuration in force asks for.

    Raises:
        ConfigError: the service of a package cannot be loaded.
    """
    for name, reason in _installed()[1].items():
        raise ConfigError(f"the run service {name} cannot be loaded: {reason}", hint="reinstall or remove its package")
    made = [kind() for kind in run_services()]
    return tuple(service for service in made if service.is_wanted())


@contextmanager
def open_services(services: Sequence[RunService], run: ServedRun) -> Iterator[tuple[ServiceSession, ...]]:
    """Opens the services of a run; see ``RunService.open``."""
    if services:
        require_posix("services of a run")
    with ExitStack() as stack:
        yield tuple([stack.enter_context(service.open(run)) for service in services])


def explain(failure: Failure, sessions: Sequence[ServiceSession]) -> Failure:
    """Returns a failure with the cause that the services of the run know, or that one was not asked for."""
    for session in sessions:
        failure = session.explained(failure)
    for kind in run_services() if not sessions else ():
        failure = kind.explain_absence(failure)
    return failure


def brought_by(name: str, shown: str) -> ConfigError | None:
    """Returns the error about an option of a distribution that is not installed; None about any other name."""
    distribution = BROUGHT_BY.get(name)
    if distribution is None or is_installed(f"a2perf-{distribution}"):
        return None
    return ConfigError(f"{shown} comes with the distribution a2perf-{distribution}", hint=install_line(distribution))


@functools.cache
def _installed() -> tuple[dict[str, type[RunService]], dict[str, str]]:
    found: dict[str, type[RunService]] = {}

    def accept(name: str, loaded: Any) -> None:
        if not (isinstance(loaded, type) and issubclass(loaded, RunService)):
            raise RejectedPlugin(f"{loaded!r} is not a subclass of RunService")
        found[name] = loaded

    problems = load_plugins(GROUP, accept)
    return found, {name: str(problem) for name, problem in problems.items()}
