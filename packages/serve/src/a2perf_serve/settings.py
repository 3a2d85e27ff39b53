"""What a server offers and its limits."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import psutil

from a2perf.api.environments import TaskInfo, find_task
from a2perf.api.environments import tasks as all_tasks
from a2perf.domains import registry
from a2perf.errors import ConfigError, did_you_mean
from a2perf_serve.errors import ServingError

_LEAST_TOKEN: Final = 16
_MOST_TOKEN: Final = 4096
_MOST_ARGUMENT: Final = 4096  # characters of one argument of a client


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a server.

    Attributes:
        protocol: ``"openenv"`` or ``"mcp"``.
        tasks: what clients may open, by the names that they use; the first is the default.
        port: 0 for a free one.
        token: what clients must send; None for nothing, which only a loopback address allows.
        client_kwargs: names of the environment's arguments that clients may give; their values are trusted.
        client_options: names of the options of ``reset`` that clients may give.
        max_memory_bytes: resident memory of all processes of the server, above which no environment is made; None for
            half of the machine's memory.
        idle_seconds: time without a request after which a session, or a connection without one, is closed.
        step_seconds: time after which an environment that does not answer is killed.
        request_seconds: time in which the head and the body of an HTTP request must arrive, and in which a client must
            take a part of an answer.
        ping_seconds: between two pings of a WebSocket; also how long the answer may take.
        workers: processes with environments per domain.
    """

    protocol: str
    tasks: tuple[TaskInfo, ...]
    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = field(default=None, repr=False)
    client_kwargs: frozenset[str] = frozenset()
    client_options: frozenset[str] = frozenset()
    max_sessions: int = 256
    max_connections: int = 1024
    max_memory_bytes: int | None = None
    max_message_bytes: int = 1 << 20
    session_seconds: float = 86400.0
    idle_seconds: float = 900.0
    step_seconds: float = 120.0
    request_seconds: float = 20.0
    ping_seconds: float = 20.0
    workers: int = 1

    def __post_init__(self) -> None:
        if not self.tasks:
            raise ConfigError("the server has no task", hint="name one with --task; `a2perf envs list` shows all")
        if self.token is None and not self.is_loopback:
            raise ConfigError(
                f"the server would listen on {self.host} for everybody, without a token",
                hint="give --token-file FILE or --token-env NAME, or leave --host out",
            )

    @property
    def memory_limit(self) -> int:
        """``max_memory_bytes``, or its default."""
        return psutil.virtual_memory().total // 2 if self.max_memory_bytes is None else self.max_memory_bytes

    @property
    def is_loopback(self) -> bool:
        """Whether only programs of this machine can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def task(self, name: str | None) -> TaskInfo:
        """Returns the task of a name; the first one for None.

        Raises:
            ServingError: it is not served (``unknown_task``).
        """
        for task in self.tasks:
            if name in (None, task.name):
                return task
        names = [task.name for task in self.tasks]
        listed = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        near = did_you_mean(str(name)[:100], names)
        raise ServingError("unknown_task", f"{str(name)[:100]!r} is not served here{near}", f"served: {listed}")


def check_allowed(given: Mapping[str, Any], names: frozenset[str], what: str, option: str) -> None:
    """Refuses arguments of a client that the operator did not allow.

    Args:
        names: those that are allowed.
        what: what they are, for the message.
        option: the option of the command that allows some.

    Raises:
        ServingError: there is one (``forbidden``), or a value is long (``bad_request``).
    """
    for name, value in given.items():
        if name not in names:
            shown = f"allowed: {', '.join(sorted(names))}" if names else f"the operator allows some with {option}"
            raise ServingError("forbidden", f"clients may not give {name[:60]!r} as one of the {what}", shown)
        if len(repr(value)) > _MOST_ARGUMENT:
            raise ServingError("bad_request", f"{name} has more than {_MOST_ARGUMENT:,} characters", "shorten it")


def served_tasks(
    domains: Sequence[str] = (),
    tasks: Sequence[str] = (),
    env_ids: Sequence[str] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> tuple[TaskInfo, ...]:
    """Returns the tasks that names select; every task of every domain if nothing is named.

    Raises:
        ConfigError: a name is not known, or an environment does not take an argument.
    """
    if not (domains or tasks or env_ids):
        domains = list(registry.domains())
    chosen = [find_task(name) for name in tasks]
    chosen += [task for name in domains for task in all_tasks(name)]
    chosen += [replace(find_task(env_id), name=env_id) for env_id in env_ids]  # clients use the id as it was given
    return tuple({task.name: replace(task, kwargs={**task.kwargs, **(kwargs or {})}) for task in chosen}.values())


def read_token(path: Path | None, variable: str | None) -> str | None:
    """Returns the token of a file or an environment variable; None if neither is given.

    Raises:
        ConfigError: both are given, the file cannot be read, or the token is short, long or has white space.
    """
    if path is not None and variable is not None:
        raise ConfigError("--token-file and --token-env are both given", hint="give one of them")
    if path is not None:
        try:
            with path.open(encoding="utf-8-sig") as file:
                token, place = file.read(_MOST_TOKEN + 2).strip(), str(path)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the token cannot be read from {path}: {error}", hint="name a text file") from error
    elif variable is not None:
        token, place = os.environ.get(variable, "").strip(), f"the variable {variable}"
    else:
        return None
    if not _LEAST_TOKEN <= len(token) <= _MOST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"{place} contains no token of {_LEAST_TOKEN} to {_MOST_TOKEN} characters without white space",
            hint='make one: python -c "import secrets; print(secrets.token_urlsafe(32))"',
        )
    return token
