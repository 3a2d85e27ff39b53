"""What every protocol of the server does with a request: read it with limits, decode it, report an error."""

from __future__ import annotations

import contextlib
import logging
from typing import Any, TypeVar

import msgspec
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from a2perf_serve.errors import ServingError
from a2perf_serve.values import encode

_Message = TypeVar("_Message")
_log = logging.getLogger(__name__)


def decode(body: bytes | str, kind: type[_Message]) -> _Message:
    """Returns a message of a client.

    Args:
        body: its bytes or text.
        kind: the type that its fields must fit.

    Raises:
        ServingError: it is not valid JSON (``malformed``), or a field does not fit (``bad_request``).
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise ServingError(
            "bad_request", f"the message does not fit: {error}"[:300], "see the documentation"
        ) from error
    except RecursionError as error:
        raise ServingError("malformed", "the message is nested too deeply", "send flat lists and objects") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ServingError("malformed", f"the message is not JSON: {error}"[:300], "send valid JSON") from error


async def send_reply(websocket: WebSocket, encoded: bytes) -> bool:
    """Sends a message; returns False if the client has left."""
    try:
        await websocket.send_text(encoded.decode())
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


def answer(fields: Any, status: int = 200) -> Response:
    """Returns a response with a value as JSON."""
    return Response(encode(fields), status, media_type="application/json")


def refusal(error: ServingError) -> Response:
    """Returns the response that reports an error."""
    response = answer({"error": error.record()}, error.status)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="a2perf"'
    if error.kind == "too_many_sessions":
        response.headers["Retry-After"] = "5"
    return response
