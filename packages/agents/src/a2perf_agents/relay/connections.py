"""Requests to one server over kept connections, directly or through the proxy of the environment.

Redirects are not followed: one could carry the key to another host.
"""

from __future__ import annotations

import asyncio
import email.utils
import math
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx2

from a2perf_agents.relay.answers import BadResponse

MAX_RESPONSE_BYTES = 6 << 20
CONNECT_TIMEOUT_S = 10.0
END_TIMEOUT_S = 2.0
LONGEST_IDLE_S = 4.0
"""Common servers close an idle connection after 5 s. A request on a connection that just ended would be lost."""

_RETRIED = frozenset((408, 409, 429, 500, 502, 503, 504))
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError, httpx2.UnsupportedProtocol)


class ResponseTooLarge(Exception):
    """The answer exceeds ``MAX_RESPONSE_BYTES``."""


class Unreachable(Exception):
    """No connection to the server; the request was not sent."""


class Untrusted(Exception):
    """The server's certificate is not valid; the request, and the key in it, was not sent."""


class Lost(Exception):
    """The connection ended after the request was sent and before the answer: the server may have processed it."""


class Connections:
    """Connections to one server.

    Args:
        endpoint: base address, ``"https://host/v1"``.
        context: TLS settings; None for those of the system.
    """

    def __init__(self, endpoint: str, headers: dict[str, str], context: ssl.SSLContext | None = None) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._client = httpx2.AsyncClient(
            headers=headers,
            verify=context or ssl.create_default_context(),
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),
            limits=httpx2.Limits(keepalive_expiry=LONGEST_IDLE_S),
        )
        for name in ("accept", "connection"):  # the server gets the given headers and no others
            del self._client.headers[name]
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def request(self, method: str, path: str, body: bytes = b"") -> AsyncIterator[ServerResponse]:
        """Sends one request. The connection is used again if the context ends after the whole answer.

        Args:
            method: ``"GET"`` or ``"POST"``.

        Raises:
            Unreachable: there is no connection.
            Untrusted: the certificate of the server, or of a proxy, is not valid.
            Lost: the connection ended before the answer, or the server does not speak HTTP/1.1.
        """
        request = self._client.build_request(method, f"{self._endpoint}/{path}", content=body)
        try:
            response = await self._client.send(request, stream=True)
        except _UNSENT as error:
            cause = _first_cause(error)
            if isinstance(cause, ssl.SSLCertVerificationError):
                message = f"the certificate of the model server is not valid: {cause.verify_message}"
                raise Untrusted(message) from None
            raise Unreachable(f"no connection to the model server ({type(cause).__name__})") from None
        except httpx2.TransportError as error:
            raise _lost(error) from None
        answer = ServerResponse(response)
        try:
            yield answer
        except BaseException:
            await response.aclose()
            raise
        if not response.is_closed:  # the user of a stream has what it needs; the end of the message is on its way
            self._ending.add(task := asyncio.create_task(answer.end()))
            task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Closes all connections."""
        for task in self._ending:
            task.cancel()
        await self._client.aclose()


class ServerResponse:
    """The answer to one try.

    Attributes:
        retry_after_s: what the header Retry-After asks for; None without it.
        is_stream: whether it is a stream of events.
    """

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self._raw = response.aiter_raw()
        self.status = response.status_code
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
        try:
            async for data in self._raw:
                size += len(data)
                if size > MAX_RESPONSE_BYTES:
                    raise ResponseTooLarge(f"the answer exceeds {MAX_RESPONSE_BYTES >> 20} MiB")
                yield data
        except httpx2.TransportError as error:
            raise _lost(error) from None

    async def read(self) -> bytes:
        """Returns the whole content; raises as ``pieces`` does."""
        return b"".join([data async for data in self.pieces()])

    async def end(self) -> None:
        """Waits for the end of the answer, to keep the connection; closes it if the end does not come."""
        try:
            with suppress(TimeoutError, httpx2.TransportError):
                async with asyncio.timeout(END_TIMEOUT_S):
                    async for _ in self._raw:
                        pass
        finally:
            await self._response.aclose()


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


def _lost(error: Exception) -> Lost:
    return Lost(f"the connection to the model server ended early ({type(error).__name__})")


def _first_cause(error: BaseException) -> BaseException:
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error
