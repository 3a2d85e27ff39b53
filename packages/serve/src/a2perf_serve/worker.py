"""A worker process: the environments of some sessions, driven by the server over a socket.

Each frame is a 32-bit little-endian length and one MessagePack list: ``[operation, arguments...]`` from the server,
``[error, result]`` back. Frames are answered in their order. The process ends with the connection. Clients never
connect to it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import struct
import sys
from dataclasses import dataclass
from typing import Any, Final

import gymnasium
import msgspec

from a2perf.domains.arguments import EpisodeOverError
from a2perf.domains.tfa.suite_gym import make_environment
from a2perf.errors import AssetUnavailable, MissingDependency, UserError
from a2perf_serve.errors import ServingError
from a2perf_serve.spaces import checked_action, describe_space
from a2perf_serve.values import UnsendableValue, encode, plain

LENGTH: Final = struct.Struct("<I")
_log = logging.getLogger(__name__)


@dataclass
class _Hosted:
    """The environment of one session, and the last outcome: observation, info and reward as JSON, and two flags."""

    env: gymnasium.Env[Any, Any]
    last: list[Any] | None = None


class EnvironmentHost:
    """The environments of a worker process by the id of their session."""

    def __init__(self) -> None:
        self._hosted: dict[str, _Hosted] = {}

    def open(self, session: str, env_id: str, kwargs: dict[str, Any]) -> None:
        """Makes the environment of a session; an earlier one is closed first."""
        self.close(session)
        self._hosted[session] = _Hosted(make_environment(env_id, kwargs))

    def describe(self, session: str) -> bytes:
        """Returns the spaces."""
        env = self._hosted[session].env
        spaces = {
            "observation_space": describe_space(env.observation_space),
            "action_space": describe_space(env.action_space),
        }
        return encode(spaces)

    def reset(self, session: str, seed: int | None, options: dict[str, Any] | None) -> list[Any]:
        """Starts an episode."""
        hosted = self._hosted[session]
        hosted.last = None
        observation, info = hosted.env.reset(seed=seed, options=options)
        hosted.last = [_json(observation), _json(info), _json(None), False, False]
        return hosted.last

    def step(self, session: str, action: Any) -> list[Any]:
        """Acts."""
        hosted = self._hosted[session]
        if hosted.last is None:
            raise ServingError("episode_over", "no episode was started", "reset first")
        if hosted.last[3] or hosted.last[4]:
            raise ServingError("episode_over", "the episode is over", "reset first")
        fitting = checked_action(hosted.env.action_space, action)
        observation, reward, terminated, truncated, info = hosted.env.step(fitting)
        hosted.last = [_json(observation), _json(info), _json(float(reward)), bool(terminated), bool(truncated)]
        return hosted.last

    def observe(self, session: str) -> list[Any]:
        """Returns the last outcome again."""
        hosted = self._hosted[session]
        if hosted.last is None:
            raise ServingError("episode_over", "no episode was started", "reset first")
        return hosted.last

    def close(self, session: str) -> None:
        """Closes the environment of a session, if there is one."""
        hosted = self._hosted.pop(session, None)
        if hosted is not None:
            hosted.env.close()

    def close_all(self) -> None:
        """Closes every environment."""
        for session in list(self._hosted):
            with contextlib.suppress(Exception):
                self.close(session)


def _json(value: Any) -> bytes:
    return encode(plain(value))


def answer(host: EnvironmentHost, operation: str, arguments: list[Any]) -> tuple[tuple[str, str, str] | None, Any]:
    """Executes one operation.

    Returns:
        The error (kind, message, hint) or None, and the result.
    """
    try:
        return None, getattr(host, operation)(*arguments)
    except ServingError as error:
        failure = error.kind, error.message, error.hint
    except (EpisodeOverError, gymnasium.error.ResetNeeded) as error:
        failure = "episode_over", str(getattr(error, "message", error)), "reset first"
    except (MissingDependency, AssetUnavailable) as error:
        failure = "environment_unavailable", error.message, "the server's machine needs it"
    except UserError as error:
        failure = "invalid_action" if operation == "step" else "bad_request", error.message, error.hint or ""
    except UnsendableValue as error:
        failure = "environment_failed", f"the observation or info cannot be sent: {error}", ""
    except Exception as error:
        _log.exception("an environment failed in %s", operation)
        failure = "environment_failed", f"{type(error).__name__}: {str(error)[:500]}", ""
    return failure, None


def serve_socket(connection: socket.socket) -> None:
    """Answers frames until the connection closes."""
    host = EnvironmentHost()
    packer, unpack = msgspec.msgpack.Encoder(), msgspec.msgpack.decode
    received = connection.makefile("rb", buffering=1 << 18)
    try:
        while len(head := received.read(LENGTH.size)) == LENGTH.size:
            (length,) = LENGTH.unpack(head)
            body = received.read(length)
            if len(body) < length:
                break
            operation, *arguments = unpack(body)
            reply = packer.encode(answer(host, operation, arguments))
            connection.sendall(LENGTH.pack(len(reply)) + reply)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the server is gone
    finally:
        host.close_all()


def main() -> None:
    """Runs the process; the descriptor of the socket is its argument."""
    # Ctrl-C reaches every process of a terminal, and the server ends this one when its own sessions are closed
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)  # an environment that prints must not write into the server's own output
    logging.basicConfig(level=logging.WARNING, format="a2perf serve worker: %(message)s")
    serve_socket(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
