"""Reads what a server answers: usage, errors, and the events of a stream (server-sent events, WHATWG HTML).

Nothing of it is trusted: the bytes are bounded by the caller, and a document of another shape becomes ``BadResponse``.
"""

from __future__ import annotations

import re
from typing import Any, TypeGuard

import msgspec

from a2perf_agents.record import CallOutcome, TokenUsage

DONE = b"[DONE]"
_CONTEXT = re.compile(
    r"context[_ ](length|size|window)|maximum context|exceeds? the (available|maximum)[^.]*context|prompt is too long",
    re.IGNORECASE,
)
_MAX_MESSAGE = 1000


class BadResponse(Exception):
    """The server's answer does not follow the OpenAI interface."""


def parse_document(data: bytes) -> dict[str, Any]:
    """Parses one JSON object.

    Raises:
        BadResponse: it is not one.
    """
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadResponse("the answer of the model server is not valid JSON") from None
    if not isinstance(document, dict):
        raise BadResponse("the answer of the model server is not a JSON object")
    return document


def usage_in(document: dict[str, Any]) -> TokenUsage | None:
    """Returns the tokens that the server counted; None if it reports none."""
    usage = document.get("usage")
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    tokens_in, tokens_out = usage.get("prompt_tokens"), usage.get("completion_tokens", 0)
    cached = details.get("cached_tokens", 0) if isinstance(details, dict) else 0
    if not (_is_count(tokens_in) and _is_count(tokens_out)):
        return None
    return TokenUsage(tokens_in=tokens_in, tokens_out=tokens_out, cached=cached if _is_count(cached) else 0)


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 1 << 53


class ToolCalls:
    """Counts tool calls with arguments that are not JSON, in a document or over the pieces of a stream."""

    def __init__(self) -> None:
        self._arguments: dict[tuple[int, int], str] = {}

    def add(self, document: dict[str, Any]) -> None:
        """Reads one document or piece."""
        for choice in _choices(document):
            message = choice.get("message") or choice.get("delta")
            calls = message.get("tool_calls") if isinstance(message, dict) else None
            for position, call in enumerate(calls if isinstance(calls, list) else []):
                function = call.get("function") if isinstance(call, dict) else None
                arguments = function.get("arguments") if isinstance(function, dict) else None
                number = position if function is None else _integer(call.get("index", position))
                where = (_integer(choice.get("index")), number)
                if isinstance(arguments, str):
                    self._arguments[where] = self._arguments.get(where, "") + arguments

    @property
    def invalid(self) -> int:
        """Number of tool calls with arguments that are not a JSON object."""
        return sum(not _is_object(text) for text in self._arguments.values())


def _integer(value: object) -> int:
    return value if type(value) is int else 0


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


class EventReader:
    """Splits a stream into server-sent events; each event keeps its bytes."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the events that are complete now, each with its closing empty line."""
        self._buffer = (self._buffer + data).replace(b"\r\n", b"\n")
        *events, self._buffer = self._buffer.split(b"\n\n")
        return [event + b"\n\n" for event in events if event.strip()]

    @property
    def rest(self) -> bytes:
        """Bytes of an incomplete event."""
        return self._buffer


def data_of(event: bytes) -> bytes | None:
    """Returns the data of an event; None for a comment, which servers send to keep a connection alive.

    Raises:
        BadResponse: a line is not one of a server-sent event.
    """
    try:
        event.decode()  # the record is text
    except UnicodeDecodeError:
        raise BadResponse("the stream of the model server is not UTF-8") from None
    found: list[bytes] = []
    for line in event.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            found.append(value.removeprefix(b" "))
        elif name not in (b"", b"event", b"id", b"retry"):
            raise BadResponse("the stream of the model server is not a stream of events")
    return b"\n".join(found) if found else None


def has_token(document: dict[str, Any]) -> bool:
    """Returns whether a piece of a stream holds generated content; the first one often names only the role."""
    return any(value for choice in _choices(document) for name, value in _generated(choice).items() if name != "role")


def is_end(document: dict[str, Any]) -> bool:
    """Returns whether a piece of a stream ends one of the answers."""
    return any(choice.get("finish_reason") is not None for choice in _choices(document))


def _choices(document: dict[str, Any]) -> list[dict[str, Any]]:
    choices = document.get("choices")
    return [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []


def _generated(choice: dict[str, Any]) -> dict[str, Any]:
    delta = choice.get("delta")
    return delta if isinstance(delta, dict) else {"text": choice.get("text")}


def is_only_usage(document: dict[str, Any]) -> bool:
    """Returns whether a piece of a stream holds the usage and no choice."""
    return document.get("choices") == [] and isinstance(document.get("usage"), dict)


_QUOTA = ("insufficient_quota", "billing_hard_limit_reached")
"""Codes of hosted servers for an account without credit; another try does not help."""


def error_of(status: int, data: bytes) -> tuple[CallOutcome, str]:
    """Returns the kind of an error of the server and its message."""
    message, code = "", ""
    try:
        document = parse_document(data)
        error = document.get("error", document)
        if isinstance(error, dict):
            message, code = str(error.get("message", "")), str(error.get("code") or error.get("type") or "")
        else:
            message = str(error)
    except BadResponse:
        message = data[:200].decode("utf-8", "replace")
    message = message[:_MAX_MESSAGE]
    if status in (401, 403):
        return CallOutcome.WRONG_KEY, message
    if status == 429:
        return (CallOutcome.QUOTA if code in _QUOTA else CallOutcome.RATE_LIMITED), message
    if status >= 500:
        return CallOutcome.SERVER_ERROR, message
    if code == "context_length_exceeded" or _CONTEXT.search(code) or _CONTEXT.search(message):
        return CallOutcome.CONTEXT_LENGTH, message
    if code == "model_not_found" or (status == 404 and "model" in message.lower()):
        return CallOutcome.UNKNOWN_MODEL, message
    return (CallOutcome.INVALID_REQUEST if 400 <= status < 500 else CallOutcome.BAD_RESPONSE), message
