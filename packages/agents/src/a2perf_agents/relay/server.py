"""The HTTP server that participants reach: a fixed list of paths, bounded requests, errors in the OpenAI format."""

from __future__ import annotations

import asyncio
import hmac
import socket
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from a2perf_agents.record import CallOutcome, CallScope
from a2perf_agents.relay import requests
from a2perf_agents.relay.exchange import Exchanges
from a2perf_agents.relay.requests import MAX_REQUEST_BYTES, RefusedRequest

BASE = "/v1"
MAX_CONNECTIONS = 256
"""Connections of one participant at the same time; further ones are closed at once."""

MAX_HEAD_BYTES = 32 << 10
HEAD_TIMEOUT_S = 15.0
BODY_TIMEOUT_S = 30.0
KEEP_ALIVE_S = 300
_NO_RETRY = {"x-should-retry": "false"}
"""Read by the OpenAI clients: the relay has already repeated what is worth it."""


class Caller:
    """One part of a run that makes calls: a task with its participant processes.

    Attributes:
        scope: where in the run it is now.
    """

    def __init__(self) -> None:
        self.scope = CallScope()


class RelayServer:
    """Serves the connections of any number of listening sockets.

    Args:
        token: the word that every request has to carry as its key; it keeps other users of the host out.
    """

    def __init__(self, exchanges: Exchanges, token: str) -> None:
        self._exchanges = exchanges
        self._token = token.encode()
        self._loop = asyncio.get_running_loop()
        routes = [Route(f"{BASE}/{path}", self._answers(path), methods=["POST"]) for path in requests.PATHS]
        routes += [Route(f"{BASE}/models", self._models), Route(f"{BASE}/models/{{name:path}}", self._model)]
        app = Starlette(routes=routes, exception_handlers={HTTPException: _no_such_path, RefusedRequest: _refused})
        self._config = uvicorn.Config(
            app,
            http=H11Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        self._config.load()

    def listen(self, listener: socket.socket, caller: Caller) -> Callable[[], None]:
        """Accepts connections until the returned function is called.

        Args:
            listener: a listening socket; this function takes it over.
            caller: the part of the run that the connections belong to.
        """
        state = ServerState()
        tasks: set[asyncio.Task[Any]] = set()

        def connect(connection: socket.socket) -> None:
            if len(state.connections) + len(tasks) >= MAX_CONNECTIONS:
                connection.close()
                return
            accepted = self._loop.connect_accepted_socket(
                lambda: _BoundedProtocol(self._config, state, {"caller": caller}, self._loop), connection
            )
            tasks.add(task := self._loop.create_task(accepted))
            task.add_done_callback(tasks.discard)

        ended = threading.Event()

        def accept() -> None:
            # In a thread: the participant may hold a copy of the socket and make it blocking, which would stop a loop.
            listener.settimeout(0.5)
            while not ended.is_set():
                try:
                    connection = listener.accept()[0]
                    connection.setblocking(False)
                    # asyncio does this only for sockets with a protocol number. Without it, Nagle's algorithm
                    # and delayed acknowledgements cost 40 ms per request.
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                except TimeoutError:
                    continue
                except OSError:
                    if listener.fileno() < 0 or ended.wait(0.05):
                        return
                    continue
                self._loop.call_soon_threadsafe(connect, connection)

        threading.Thread(target=accept, name="a2perf-model-accept", daemon=True).start()

        def close() -> None:
            ended.set()
            for connection in list(state.connections):
                connection.transport.close()
            listener.close()

        return close

    def _answers(self, path: str) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            caller: Caller = request.state.caller
            scope, sha256 = caller.scope, ""
            try:
                self._authorize(request)
                read = requests.read_request(path, await _body(request), self._exchanges.models)
                sha256 = read.sha256
                reply = await self._exchanges.answer(read, scope)
            except RefusedRequest as error:
                self._exchanges.refuse(error, scope, sha256)
                raise
            status, content_type = reply.started.result()
            headers = {} if status == 200 else _NO_RETRY
            if content_type == "application/json":
                pieces = [piece async for piece in _until_end(reply.pieces)]
                return Response(b"".join(pieces), status, headers, content_type)
            return _Stream(reply.pieces, status, headers, content_type)

        return answer

    def _authorize(self, request: Request) -> None:
        given = request.headers.get("authorization", "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, b"Bearer " + self._token):
            raise RefusedRequest(
                CallOutcome.WRONG_TOKEN, "the key of the request is not OPENAI_API_KEY of this process", status=401
            )

    async def _models(self, request: Request) -> Response:
        self._authorize(request)
        return _json({"object": "list", "data": [_entry(name) for name in self._exchanges.models]})

    async def _model(self, request: Request) -> Response:
        self._authorize(request)
        name = request.path_params["name"]
        if name not in self._exchanges.models:
            message = f"the model {name[:200]!r} is not available"
            raise RefusedRequest(CallOutcome.UNKNOWN_MODEL, message, status=404)
        return _json(_entry(name))


class _BoundedProtocol(H11Protocol):
    """HTTP/1.1 with a limit on the time in which the head of a request has to arrive."""

    _waits: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._waits = self.loop.call_later(HEAD_TIMEOUT_S, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        working = self.cycle is not None and not self.cycle.response_complete
        if working and self._waits is not None:
            self._waits.cancel()
            self._waits = None
        elif not working and self._waits is None:
            self._waits = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waits is not None:
            self._waits.cancel()
        super().connection_lost(exc)


class _Stream(Response):
    """Pieces in the order of a queue.

    Starlette's own class starts tasks that watch for the end of the connection. Here a call continues without its
    participant, and sending to a closed connection does nothing.
    """

    def __init__(
        self, pieces: asyncio.Queue[bytes | None], status: int, headers: dict[str, str], content_type: str
    ) -> None:
        self.status_code, self.media_type, self.background = status, content_type, None
        self._pieces = pieces
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for piece in _until_end(self._pieces):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _body(request: Request) -> bytes:
    """Returns the content of a request.

    Raises:
        RefusedRequest: it is too large, too slow, or ended early.
    """
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for part in request.stream():
                size += len(part)
                if size > MAX_REQUEST_BYTES:
                    raise RefusedRequest(
                        CallOutcome.REQUEST_TOO_LARGE, f"the request exceeds {MAX_REQUEST_BYTES >> 20} MiB", status=413
                    )
                parts.append(part)
    except TimeoutError:
        raise RefusedRequest(
            CallOutcome.REQUEST_TIMEOUT, f"the request did not arrive within {BODY_TIMEOUT_S:g} s", status=408
        ) from None
    except ClientDisconnect:
        raise RefusedRequest(CallOutcome.INVALID_REQUEST, "the connection ended within the request") from None
    return b"".join(parts)


async def _until_end(pieces: asyncio.Queue[bytes | None]) -> AsyncIterator[bytes]:
    while (piece := await pieces.get()) is not None:
        yield piece


def _entry(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "organizer"}


def _json(document: object) -> Response:
    return Response(msgspec.json.encode(document), media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedRequest)
    # The rest of a refused request is not read: the connection ends with the answer.
    headers = {**_NO_RETRY, "connection": "close"} if error.status in (408, 413) else _NO_RETRY
    body = requests.error_body(error.outcome, error.message)
    return Response(body, error.status, headers, "application/json")


async def _no_such_path(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    paths = ", ".join(f"POST {BASE}/{path}" for path in requests.PATHS)
    message = f"the relay offers {paths} and GET {BASE}/models"
    return await _refused(request, RefusedRequest(CallOutcome.UNKNOWN_PATH, message, status=status))
