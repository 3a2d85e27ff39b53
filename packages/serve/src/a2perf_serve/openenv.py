"""The OpenEnv protocol: reset, step and state over a WebSocket, for the client of the package ``openenv``.

The connection is the session.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from a2perf._version import __version__
from a2perf_serve.errors import ServingError
from a2perf_serve.requests import answer, close_quietly, decode, internal_error, send_reply
from a2perf_serve.sessions import Outcome, Session, Sessions
from a2perf_serve.values import encode

_CODES: Final = {
    "malformed": "INVALID_JSON",
    "bad_request": "VALIDATION_ERROR",
    "forbidden": "VALIDATION_ERROR",
    "invalid_action": "VALIDATION_ERROR",
    "unknown_type": "UNKNOWN_TYPE",
    "unknown_task": "FACTORY_ERROR",
    "environment_unavailable": "FACTORY_ERROR",
    "too_many_sessions": "CAPACITY_REACHED",
    "unknown_session": "SESSION_ERROR",
    "session_expired": "SESSION_ERROR",
    "shutting_down": "SESSION_ERROR",
}
_TYPES: Final = ("reset", "step", "state", "close")
_MOST_ID: Final = 255


class ResetData(msgspec.Struct, forbid_unknown_fields=True):
    """Fields of a reset. ``task`` and ``kwargs`` select the environment; without them it stays the one it was."""

    seed: int | None = None
    episode_id: str | None = None
    task: str | None = None
    kwargs: dict[str, Any] | None = None
    options: dict[str, Any] | None = None


class StepData(msgspec.Struct, forbid_unknown_fields=True):
    """Fields of a step."""

    action: Any
    metadata: dict[str, Any] = {}


class SocketMessage(msgspec.Struct):
    """A message of a WebSocket."""

    type: str
    data: msgspec.Raw = msgspec.Raw(b"{}")


class OpenEnvSession:
    """One session as OpenEnv sees it.

    Raises:
        ServingError: there are too many sessions.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self.session: Session = sessions.reserve(is_kept=True)
        self._episode_id: str | None = None
        self._wanted: tuple[str | None, dict[str, Any]] = (None, {})  # task and arguments
        self._is_made = False

    async def reset(self, data: ResetData) -> dict[str, Any]:
        """Starts an episode, in the environment of another task if one is named."""
        if data.episode_id is not None and len(data.episode_id) > _MOST_ID:
            raise ServingError("bad_request", f"episode_id is longer than {_MOST_ID} characters", "shorten it")
        if not self._sessions.is_open(self.session):
            if self._is_made:
                self._is_made = False
                self._sessions.find(self.session.id)  # explains once why it has ended
            self.session = self._sessions.reserve(is_kept=True)
        wanted = self._wanted
        if data.task is not None or data.kwargs is not None:
            wanted = (wanted[0] if data.task is None else data.task, data.kwargs or {})
        if not self._is_made or wanted != self._wanted:
            self._is_made = False
            await self._sessions.open(self.session, *wanted)
            self._wanted, self._is_made = wanted, True
        outcome = await self._sessions.reset(self.session, data.seed, data.options)
        self._episode_id = data.episode_id or secrets.token_hex(8)
        return _result(outcome)

    async def step(self, data: StepData) -> dict[str, Any]:
        """Acts."""
        self._sessions.find(self.session.id)
        if not self._is_made:
            raise ServingError("episode_over", "no episode was started", "reset first")
        return _result(await self._sessions.step(self.session, data.action))

    def state(self) -> dict[str, Any]:
        """Returns the state: the episode, its steps, the task and the seed."""
        task = self.session.task
        return {
            "episode_id": self._episode_id,
            "step_count": self.session.steps,
            "task": None if task is None else task.name,
            "seed": self.session.seed,
        }


def _result(outcome: Outcome) -> dict[str, Any]:
    """Returns the fields of OpenEnv; what it has no field for is part of the observation."""
    return {
        "observation": {
            "observation": outcome.observation,
            "info": outcome.info,
            "terminated": outcome.terminated,
            "truncated": outcome.truncated,
        },
        "reward": outcome.reward,
        "done": outcome.terminated or outcome.truncated,
    }


def openenv_routes(sessions: Sessions) -> list[BaseRoute]:
    """Returns the routes of the protocol."""
    endpoint = _OpenEnvEndpoint(sessions)
    return [
        Route("/schema", endpoint.schema, methods=["GET"]),
        Route("/metadata", endpoint.metadata, methods=["GET"]),
        Route("/openapi.json", endpoint.openapi, methods=["GET"]),
        Route("/mcp", endpoint.mcp, methods=["POST"]),
        WebSocketRoute("/ws", endpoint.websocket),
    ]


class _OpenEnvEndpoint:
    """Answers connections and requests."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._settings = sessions.settings

    async def websocket(self, websocket: WebSocket) -> None:
        """Serves one connection, which is one session."""
        await websocket.accept()
        try:
            session = OpenEnvSession(self._sessions)
        except ServingError as error:
            await send_reply(websocket, _error_message(error))
            await close_quietly(websocket, 1013, "no free session")
            return
        try:
            while True:
                try:
                    async with asyncio.timeout(self._settings.idle_seconds):
                        event = await websocket.receive()
                except TimeoutError:
                    await close_quietly(websocket, 1001, "idle")
                    return
                if event["type"] == "websocket.disconnect":
                    return
                text = event.get("text")
                reply = await self._replied(session, (event.get("bytes") or b"") if text is None else text)
                if reply is None:
                    await close_quietly(websocket, 1000, "")
                    return
                if not await send_reply(websocket, reply):
                    return
        finally:
            self._sessions.close(session.session)

    async def _replied(self, session: OpenEnvSession, body: bytes | str) -> bytes | None:
        """Returns the answer to a message; None for one that ends the connection."""
        try:
            message = decode(body, SocketMessage)
            if message.type == "step":
                reply = ("observation", await session.step(decode(bytes(message.data), StepData)))
            elif message.type == "reset":
                reply = ("observation", await session.reset(decode(bytes(message.data), ResetData)))
            elif message.type == "state":
                await asyncio.sleep(0)
                reply = ("state", session.state())
            elif message.type == "close":
                return None
            else:
                shown = message.type[:60]
                raise ServingError(
                    "unknown_type", f"{shown!r} is not a type of message", f"choose one of: {', '.join(_TYPES)}"
                )
        except Exception as error:
            refused = error if isinstance(error, ServingError) else internal_error()
            await asyncio.sleep(0)  # a flood of messages that need no worker process must not delay other clients
            return _error_message(refused)
        return encode({"type": reply[0], "data": reply[1]})

    async def schema(self, request: Request) -> Response:
        """``GET /schema``."""
        action = {"description": "an integer, a string, nested lists of numbers, or the record of an array"}
        fields = {
            "action": {"type": "object", "properties": {"action": action}, "required": ["action"]},
            "observation": {
                "type": "object",
                "properties": {
                    "observation": {"description": "of the environment; arrays are records of dtype, shape and data"},
                    "info": {"type": "object"},
                    "terminated": {"type": "boolean"},
                    "truncated": {"type": "boolean"},
                },
                "required": ["observation", "info", "terminated", "truncated"],
            },
            "state": {
                "type": "object",
                "properties": {
                    "episode_id": {"type": ["string", "null"]},
                    "step_count": {"type": "integer", "minimum": 0},
                    "task": {"type": ["string", "null"]},
                    "seed": {"type": ["integer", "null"]},
                },
            },
        }
        return answer(fields)

    async def metadata(self, request: Request) -> Response:
        """``GET /metadata``."""
        names = ", ".join(task.name for task in self._settings.tasks)
        fields = {"name": "a2perf", "description": f"Tasks: {names}", "version": __version__}
        return answer({**fields, "sessions": len(self._sessions)})

    async def openapi(self, request: Request) -> Response:
        """``GET /openapi.json``: in OpenEnv's terms a server in production mode, since episodes need the WebSocket."""
        gets = ("/health", "/metadata", "/schema")
        paths = {path: {"get": {"responses": {"200": {"description": "JSON"}}}} for path in gets}
        return answer({"openapi": "3.1.0", "info": {"title": "a2perf", "version": __version__}, "paths": paths})

    async def mcp(self, request: Request) -> Response:
        """``POST /mcp``: an error of JSON-RPC, which OpenEnv expects of an environment without tools."""
        refused = {"code": -32601, "message": "this server has no tools: start another one with --protocol mcp"}
        return answer({"jsonrpc": "2.0", "id": None, "error": refused})


def _error_message(error: ServingError) -> bytes:
    code = _CODES.get(error.kind, "EXECUTION_ERROR")
    # the client of the package shows the message only
    message = f"{error.message}. Hint: {error.hint}" if error.hint else error.message
    data = {"code": code, "kind": error.kind, "message": message}
    return encode({"type": "error", "data": data})
