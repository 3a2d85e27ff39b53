"""An environment of a server as a Gymnasium environment; it needs the package ``websockets``."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import gymnasium
import msgspec
import numpy as np
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from a2perf.errors import UserError
from a2perf_serve.errors import ServingError
from a2perf_serve.spaces import space_of
from a2perf_serve.values import encode, from_plain, plain


class RemoteEnvironment(gymnasium.Env[Any, Any]):
    """The environment of a task on a server that speaks ``http``; its episodes equal local ones bit for bit.

    Args:
        address: of the server, ``"http://127.0.0.1:8000"``.
        task: name of a task; by default the server's first one.
        token: what the server asks for, if it does.
        timeout: seconds to wait for an answer.
        **kwargs: arguments of the environment, if the operator of the server allows clients to give them.

    Raises:
        ServingError: the server refuses the task, an argument or the token.
        UserError: no server answers at the address.

    Example:
        env = RemoteEnvironment("http://127.0.0.1:8000", "difficulty_level_1_num_websites_1")
        observation, info = env.reset(seed=0)
    """

    def __init__(
        self, address: str, task: str | None = None, *, token: str | None = None, timeout: float = 300.0, **kwargs: Any
    ) -> None:
        self._timeout = timeout
        self._open = contextlib.ExitStack()
        self._connection = _connected(self._open, address, token)
        try:
            opened = self._ask({"op": "open", "task": task, "kwargs": plain(kwargs)})
        except BaseException:
            self._open.close()
            raise
        self._session = opened["session"]
        self.task: str = opened["task"]
        self.observation_space = space_of(opened["spaces"]["observation_space"])
        self.action_space = space_of(opened["spaces"]["action_space"])

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode.

        Raises:
            ServingError: the server refuses the seed or an option.
        """
        fields = self._ask({"op": "reset", "session": self._session, "seed": seed, "options": plain(options or {})})
        return fields["observation"], fields["info"]

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Acts.

        Raises:
            ServingError: the action does not fit, or no episode is running.
        """
        # an integer is shorter than the array that a NumPy scalar would become
        given = int(action) if isinstance(action, np.integer) else plain(action)
        fields = self._ask({"op": "step", "session": self._session, "action": given})
        return fields["observation"], fields["reward"], fields["terminated"], fields["truncated"], fields["info"]

    def close(self) -> None:
        """Ends the session; calling it again changes nothing."""
        with contextlib.suppress(OSError, ConnectionClosed):
            self._open.close()

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            self._connection.send(encode(message, "msgpack"))
            reply = self._connection.recv(self._timeout, decode=False)
        except (ConnectionClosed, TimeoutError, OSError) as error:
            raise ServingError("shutting_down", f"the server does not answer: {error}", "connect again") from error
        fields: dict[str, Any] = from_plain(msgspec.msgpack.decode(reply))
        if "error" in fields:
            raise ServingError(**fields["error"])
        return fields


def _connected(opened: contextlib.ExitStack, address: str, token: str | None) -> ClientConnection:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    url = address.rstrip("/").replace("http", "ws", 1) + "/v1/ws"
    try:
        return opened.enter_context(connect(url, additional_headers=headers, max_size=None, compression=None))
    except InvalidStatus as error:
        if error.response.status_code == 401:
            raise ServingError("unauthorized", "the token is missing or wrong", "give token=...") from error
        raise UserError(
            f"{address} answered with status {error.response.status_code}",
            hint="start it with `a2perf serve --protocol http`",
        ) from error
    except (OSError, ValueError) as error:
        raise UserError(f"no server answers at {address}: {error}", hint="start it with `a2perf serve`") from error
