"""What every protocol of the server does with a request: read it with limits, decode it, report an error."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from a2perf_serve.errors import ServingError
from a2perf_serve.metrics import CONTENT_TYPE
from a2perf_serve.sessions import Sessions
from a2perf_serve.values import Form, encode

MSGPACK = "application/msgpack"
JSON = "application/json"
_Message = TypeVar("_Message")
_log = logging.getLogger(__name__)


def decode(body: bytes | str, kind: type[_Message], form: Form = "json") -> _Message:
    """Returns a message of a client.

    Args:
        body: its bytes or text.
        kind: the type that its fields must fit.

    Raises:
        ServingError: it is not valid JSON or MessagePack (``malformed``), or a field does not fit (``bad_request``).
    """
    try:
        if form == "json":
            return msgspec.json.decode(body, type=kind)
        assert isinstance(body, bytes)
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise ServingError(
            "bad_request", f"the message does not fit: {error}"[:300], "see the documentation"
        ) from error
    except RecursionError as error:
        raise ServingError("malformed", "the message is nested too deeply", "send flat lists and objects") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        name = "JSON" if form == "json" else "MessagePack"
        raise ServingError("malformed", f"the message is not {name}: {error}"[:300], f"send valid {name}") from error


async def send_reply(websocket: WebSocket, encoded: bytes, form: Form) -> bool:
    """Sends a message; returns False if the client has left."""
    try:
        if form == "json":
            await websocket.send_text(encoded.decode())
        else:
            await websocket.send_bytes(encoded)
    except (WebSocketDisconnect, RuntimeError):  # starlette raises the latter after a disconnect was received
        return False
    return True


async def close_quietly(websocket: WebSocket, code: int, reason: str) -> None:
    """Closes a connection that the client may have left."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        await websocket.close(code, reason)


def internal_error() -> ServingError:
    """Logs the exception that is being handled, a bug, and returns the error that the client receives."""
    _log.exception("a request failed")
    return ServingError("internal", "the server failed", "its log has the cause")


async def read_body(request: Request, most_bytes: int, seconds: float) -> bytes:
    """Returns the body of a request.

    Raises:
        ServingError: it is larger than allowed (``too_large``) or does not arrive in time (``too_slow``).
    """
    chunks, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > most_bytes:
                    raise ServingError("too_large", f"the request has more than {most_bytes:,} bytes", "send less")
                chunks.append(chunk)
    except TimeoutError:
        raise ServingError("too_slow", f"the request did not arrive within {seconds:g} s", "send it faster") from None
    except ClientDisconnect:
        raise ServingError("malformed", "the request ended early", "send all of it") from None
    return b"".join(chunks)


def form_of(content_type: str) -> Form:
    """Returns the form that a media type names; JSON unless it is MessagePack's."""
    return "msgpack" if content_type.partition(";")[0].strip().lower() == MSGPACK else "json"


def answer(fields: Any, form: Form = "json", status: int = 200) -> Response:
    """Returns a response with an encoded value."""
    media_type = MSGPACK if form == "msgpack" else JSON
    return Response(encode(fields, form), status, media_type=media_type)


def refusal(error: ServingError, form: Form = "json") -> Response:
    """Returns the response that reports an error."""
    response = answer({"error": error.record()}, form, error.status)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="a2perf"'
    if error.kind == "too_many_sessions":
        response.headers["Retry-After"] = "5"
    if error.kind in ("too_large", "too_slow"):
        response.headers["Connection"] = "close"  # the rest of the body is not read
    return response


async def metrics_response(sessions: Sessions) -> Response:
    """Returns the counters of a server for Prometheus."""
    return Response(await sessions.metrics(), media_type=CONTENT_TYPE)
