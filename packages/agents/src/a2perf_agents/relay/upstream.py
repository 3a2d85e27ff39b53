"""Requests to the model server: one try, its limits, and the rules for another try."""

from __future__ import annotations

import asyncio
import email.utils
import math
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from a2perf.errors import ConfigError, InfrastructureError, did_you_mean
from a2perf_agents.errors import explained
from a2perf_agents.record import CallOutcome
from a2perf_agents.relay.access import ModelAccess
from a2perf_agents.relay.answers import BadResponse
from a2perf_agents.relay.connections import (
    Connections,
    Lost,
    ServerResponse,
    Unreachable,
    Untrusted,
)

MAX_RESPONSE_BYTES = 6 << 20
MAX_TRIES = 5
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0
LONGEST_RETRY_AFTER_S = 60.0
CHECK_TIMEOUT_S = 20.0
_RETRIED = frozenset((408, 409, 429, 500, 502, 503, 504))
_SHORTEST_SCRUBBED = 8
"""A shorter word could occur in any text."""


class ResponseTooLarge(Exception):
    """The answer exceeds ``MAX_RESPONSE_BYTES``."""


class UpstreamResponse:
    """The answer to one try.

    Attributes:
        retry_after_s: what the header Retry-After asks for; None without it.
        is_stream: whether it is a stream of events.
    """

    def __init__(self, response: ServerResponse) -> None:
        self._response = response
        self.status = response.status
        self.retry_after_s = retry_after(response.headers.get("retry-after"))
        self.is_stream = response.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def is_retried(self) -> bool:
        """Whether the status allows another try."""
        return self.status in _RETRIED

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yields the content as it arrives.

        Raises:
            BadResponse: it is compressed, although the request did not allow that.
            Lost: the connection ended early.
            ResponseTooLarge: it exceeds the limit.
        """
        if self._response.headers.get("content-encoding", "identity") != "identity":
            raise BadResponse("the model server sent a compressed answer, which the request did not allow")
        size = 0
        async for data in self._response.content():
            size += len(data)
            if size > MAX_RESPONSE_BYTES:
                raise ResponseTooLarge(f"the answer exceeds {MAX_RESPONSE_BYTES >> 20} MiB")
            yield data

    async def read(self) -> bytes:
        """Returns the whole content; raises as ``pieces`` does."""
        return b"".join([data async for data in self.pieces()])


class Upstream:
    """The client of the model server."""

    def __init__(self, access: ModelAccess) -> None:
        self._access = access
        self._key = access.key.encode() if len(access.key) >= _SHORTEST_SCRUBBED else b""
        headers = {"accept-encoding": "identity", "content-type": "application/json", "user-agent": "a2perf"}
        if access.key:
            headers["authorization"] = f"Bearer {access.key}"
        self._connections = Connections(access.endpoint, headers)

    def scrubbed(self, data: bytes) -> bytes:
        """Returns an answer without the key, in case the server repeats it."""
        return data.replace(self._key, b"[removed]") if self._key else data

    @asynccontextmanager
    async def post(self, path: str, body: bytes) -> AsyncIterator[UpstreamResponse]:
        """Sends one request.

        Raises:
            Unreachable: there is no connection.
            Untrusted: the server's certificate is not valid.
            Lost: the connection ended before the answer.
        """
        async with self._connections.request("POST", path, body) as response:
            yield UpstreamResponse(response)

    async def check(self) -> None:
        """Asks the server for its models, to find a wrong address, key or name before a run starts.

        A server without such a list passes.

        Raises:
            ConfigError: the server's certificate is not valid, the key is refused, or a model is not in the list.
            InfrastructureError: the server does not answer.
        """
        access = self._access
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S), self._connections.request("GET", "models") as answer:
                status, content = answer.status, await UpstreamResponse(answer).read()
        except Untrusted as error:
            hint = explained(CallOutcome.UNTRUSTED.value)[1]
            raise ConfigError(f"{error} ({access.shown_endpoint}); nothing was sent to it", hint=hint) from None
        except (TimeoutError, Unreachable, Lost) as error:
            raise InfrastructureError(
                f"the model server {access.shown_endpoint} does not answer: {str(error) or 'time limit'}",
                hint="start the server, or correct the endpoint",
            ) from None
        except (BadResponse, ResponseTooLarge):
            return
        if status in (401, 403):
            given = "refuses the key" if access.key else "asks for a key"
            raise ConfigError(
                f"the model server {access.shown_endpoint} {given} (HTTP {status})",
                hint="check the key behind key_variable or key_file",
            )
        if status == 200 and (listed := _names(content)):
            for name in access.models:
                if name not in listed:
                    raise ConfigError(
                        f"the model server {access.shown_endpoint} does not list {name!r}{did_you_mean(name, listed)}",
                        hint=f"choose one of its models: {', '.join(sorted(listed)[:10])}",
                    )

    async def close(self) -> None:
        """Closes all connections."""
        await self._connections.close()


def _names(data: bytes) -> set[str]:
    try:
        document: Any = msgspec.json.decode(data)
        return {str(entry["id"]) for entry in document["data"]}
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        return set()


def retry_after(text: str | None) -> float | None:
    """Returns the seconds in a header Retry-After (RFC 9110, section 10.2.3); None if it is missing or not valid."""
    if text is None:
        return None
    with suppress(ValueError):
        seconds = float(text)
        return None if math.isnan(seconds) else max(0.0, seconds)
    with suppress(ValueError, TypeError):
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    return None


def pause_s(tries: int, wanted_s: float | None, *, most_tries: float = MAX_TRIES) -> float | None:
    """Returns the pause before another try; None for no other try."""
    if tries >= most_tries or (wanted_s is not None and wanted_s > LONGEST_RETRY_AFTER_S):
        return None
    if wanted_s is not None:
        return wanted_s
    # Random: clients that failed together must not come back together.
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(tries - 1, 10)) * random.uniform(0.5, 1.0)
