"""The server's own protocol, ``http``: sessions over plain HTTP, and over one WebSocket for speed.

Every message is JSON or MessagePack; the answer comes in the form of the request. ``docs/reference/serving.md``
describes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from a2perf_serve.errors import ServingError
from a2perf_serve.requests import (
    answer,
    close_quietly,
    decode,
    form_of,
    internal_error,
    read_body,
    refusal,
    send_reply,
)
from a2perf_serve.sessions import Outcome, Session, Sessions
from a2perf_serve.values import Form, encode, plain

_Operation = Literal["tasks", "open", "describe", "reset", "step", "observe", "close"]


class SessionMessage(msgspec.Struct, forbid_unknown_fields=True):
    """A request: the body of one over HTTP, a message of a WebSocket."""

    op: _Operation | None = None
    id: int | str | None = None
    session: str | None = None
    task: str | None = None
    kwargs: dict[str, Any] = {}
    seed: int | None = None
    options: dict[str, Any] = {}
    action: Any = msgspec.UNSET


def http_routes(sessions: Sessions) -> list[BaseRoute]:
    """Returns the routes of the protocol."""
    endpoint = _SessionEndpoint(sessions)
    return [
        Route("/v1/tasks", endpoint.over_http("tasks"), methods=["GET"]),
        Route("/v1/sessions", endpoint.over_http("open"), methods=["POST"]),
        Route("/v1/sessions/{session}", endpoint.over_http("close"), methods=["DELETE"]),
        Route("/v1/sessions/{session}/spaces", endpoint.over_http("describe"), methods=["GET"]),
        Route("/v1/sessions/{session}/observation", endpoint.over_http("observe"), methods=["GET"]),
        Route("/v1/sessions/{session}/reset", endpoint.over_http("reset"), methods=["POST"]),
        Route("/v1/sessions/{session}/step", endpoint.over_http("step"), methods=["POST"]),
        WebSocketRoute("/v1/ws", endpoint.over_websocket),
    ]


def task_rows(sessions: Sessions) -> list[dict[str, Any]]:
    """Returns one row per served task: name, title, summary, domain, environment and arguments."""
    return [
        {
            "task": task.name, "title": task.title, "summary": task.summary, "domain": task.domain,
            "environment": task.env_id, "kwargs": plain(dict(task.kwargs)),
        }
        for task in sessions.settings.tasks
    ]  # fmt: skip


def outcome_fields(outcome: Outcome) -> dict[str, Any]:
    """Returns the fields of an outcome."""
    return {
        "observation": outcome.observation,
        "reward": outcome.reward,
        "terminated": outcome.terminated,
        "truncated": outcome.truncated,
        "info": outcome.info,
    }


class _SessionEndpoint:
    """Answers requests over both transports."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._settings = sessions.settings

    # --- HTTP

    def over_http(self, operation: _Operation) -> Callable[[Request], Awaitable[Response]]:
        """Returns the handler of a route."""

        async def handle(request: Request) -> Response:
            form = form_of(request.headers.get("content-type", "") or request.headers.get("accept", ""))
            try:
                body = b""
                if request.method == "POST":
                    body = await read_body(request, self._settings.max_message_bytes, self._settings.request_seconds)
                message = decode(body, SessionMessage, form) if body else SessionMessage()
                if message.op not in (None, operation) or message.session is not None:
                    raise ServingError("bad_request", "op and session are named by the address", "leave them out")
                message.op, message.session = operation, request.path_params.get("session")
                fields = await self._answered(message, form, None)
            except ServingError as error:
                self._sessions.count_error(error)
                return refusal(error, form)
            return answer(fields, form, 201 if operation == "open" else 200)

        return handle

    # --- WebSocket

    async def over_websocket(self, websocket: WebSocket) -> None:
        """Serves one connection; its sessions end with it."""
        await websocket.accept()
        sending = asyncio.Lock()
        running: set[asyncio.Task[None]] = set()

        async def reply(fields: dict[str, Any], number: int | str | None, form: Form) -> None:
            encoded = encode(fields if number is None else {"id": number, **fields}, form)
            async with sending:
                await send_reply(websocket, encoded, form)

        async def handle(message: SessionMessage, form: Form) -> None:
            try:
                fields = await self._answered(message, form, websocket)
            except Exception as error:
                fields = self._refused(error)
                await asyncio.sleep(0)
            await reply(fields, message.id, form)

        try:
            while (event := await self._received(websocket)) is not None:
                text = event.get("text")
                form: Form = "msgpack" if text is None else "json"
                try:
                    message = decode((event.get("bytes") or b"") if text is None else text, SessionMessage, form)
                except ServingError as error:
                    await reply(self._refused(error), None, form)
                    await asyncio.sleep(0)  # a flood of wrong messages must not delay other clients, here and elsewhere
                    continue
                if message.op == "step" and self._sessions.owned(websocket) <= 1:
                    await handle(message, form)  # another task would cost a tenth of a step
                    continue
                # what takes longer is cancelled if the client leaves
                running.add(task := asyncio.create_task(handle(message, form)))
                task.add_done_callback(running.discard)
                await asyncio.sleep(0)
                while len(running) > self._settings.max_sessions:
                    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._sessions.close_connection(websocket)
            for task in running:
                task.cancel()

    def _refused(self, error: Exception) -> dict[str, Any]:
        """Returns the fields that report an error, and counts it."""
        refused = error if isinstance(error, ServingError) else internal_error()
        self._sessions.count_error(refused)
        return {"error": refused.record()}

    async def _received(self, websocket: WebSocket) -> dict[str, Any] | None:
        """Returns the next message; None when the connection ends, or is idle and owns no session."""
        while True:
            try:
                async with asyncio.timeout(self._settings.idle_seconds):
                    event = await websocket.receive()
            except TimeoutError:
                if self._sessions.owned(websocket):
                    continue
                await close_quietly(websocket, 1001, "idle")
                return None
            return None if event["type"] == "websocket.disconnect" else dict(event)

    # --- both

    async def _answered(self, message: SessionMessage, form: Form, connection: WebSocket | None) -> dict[str, Any]:
        sessions = self._sessions
        if message.op is None:
            raise ServingError("bad_request", "the message has no op", 'for example "op": "open"')
        if message.op == "tasks":
            return {"tasks": task_rows(sessions)}
        if message.op == "open":
            return await self._opened(message, form, connection)
        if message.session is None:
            raise ServingError("bad_request", "the message has no session", "send the id that open returned")
        session = sessions.find(message.session, connection)
        if message.op == "step":
            if message.action is msgspec.UNSET:
                raise ServingError("bad_request", "the message has no action", 'for example "action": 3')
            return outcome_fields(await sessions.step(session, message.action, form))
        if message.op == "reset":
            return outcome_fields(await sessions.reset(session, message.seed, message.options, form))
        if message.op == "observe":
            return outcome_fields(await sessions.observe(session, form))
        if message.op == "describe":
            return {
                "task": session.task.name if session.task else None,
                "spaces": await sessions.describe(session, form),
            }
        sessions.close(session)
        return {"closed": True}

    async def _opened(self, message: SessionMessage, form: Form, connection: WebSocket | None) -> dict[str, Any]:
        session: Session = self._sessions.reserve(connection)
        try:
            await self._sessions.open(session, message.task, message.kwargs)
            spaces = await self._sessions.describe(session, form)
        except BaseException:
            self._sessions.close(session)
            raise
        assert session.task is not None
        return {"session": session.id, "task": session.task.name, "spaces": spaces}
