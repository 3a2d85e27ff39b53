"""HTTP/1.1 connections to one server, kept open between requests.

h11 parses and checks the messages. A general client costs three times the processor time per request, which was more
than half of the overhead of the relay. Redirects are not followed: one could carry the key to another host.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import SplitResult, quote, unquote, urlsplit

import h11

MAX_HEAD_BYTES = 64 << 10
CONNECT_TIMEOUT_S = 10.0
END_TIMEOUT_S = 2.0
LONGEST_IDLE_S = 4.0
"""Common servers close an idle connection after 5 s. A request on a connection that just ended would be lost."""

_READ_BYTES = 64 << 10
_IN_A_PATH = "/%:@!$&'()*+,;=~"


class Unreachable(Exception):
    """No connection to the server; the request was not sent."""


class Untrusted(Exception):
    """The server's certificate is not valid; the request, and the key in it, was not sent."""


class Lost(Exception):
    """The connection ended after the request was sent and before the answer: the server may have processed it."""


class Connections:
    """Connections to one server, directly or through the proxy of the environment (``HTTPS_PROXY``, ``NO_PROXY``).

    Args:
        endpoint: base address, ``"https://host/v1"``.
        context: TLS settings; None for those of the system.
    """

    def __init__(self, endpoint: str, headers: dict[str, str], context: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(endpoint)
        self._host, self._port = _address(parts)
        self._is_secure = parts.scheme == "https"
        self._context = context if context is not None or not self._is_secure else ssl.create_default_context()
        self._target = quote(parts.path, safe=_IN_A_PATH)
        self._headers = [("host", _authority(parts)), *headers.items()]
        self._proxy: SplitResult | None = None
        proxy = urllib.request.getproxies().get(parts.scheme)
        if proxy and not urllib.request.proxy_bypass(self._host):
            self._proxy = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
            if not self._is_secure:
                self._target = f"http://{_authority(parts)}{self._target}"
                self._headers += _proxy_authorization(self._proxy)
        self._idle: list[_Connection] = []
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
        connection = self._kept() or await self._opened()
        try:
            head = h11.Request(
                method=method,
                target=f"{self._target}/{path}",
                headers=[*self._headers, ("content-length", str(len(body)))],
            )
            yield await connection.send(head, body)
        except BaseException:
            connection.close()
            raise
        self._release(connection)

    def _release(self, connection: _Connection) -> None:
        """Keeps a connection for the next request, once its answer has ended."""
        if connection.is_complete:
            self._keep(connection)
        else:  # the user of a stream has what it needs; the end of the message is still on its way
            self._ending.add(task := asyncio.create_task(self._ended(connection)))
            task.add_done_callback(self._ending.discard)

    async def _ended(self, connection: _Connection) -> None:
        try:
            async with asyncio.timeout(END_TIMEOUT_S):
                while isinstance(await connection.event(), h11.Data):
                    pass
        except (TimeoutError, Lost):
            connection.close()
        except asyncio.CancelledError:
            connection.close()
            raise
        else:
            self._keep(connection)

    def _keep(self, connection: _Connection) -> None:
        if not connection.can_start_again():
            connection.close()
            return
        connection.idle_since = time.monotonic()
        self._idle.append(connection)

    def close(self) -> None:
        """Closes the connections that no request uses."""
        for task in self._ending:
            task.cancel()
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _kept(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_alive:
                return connection
            connection.close()
        return None

    async def _opened(self) -> _Connection:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                if self._proxy is None:
                    return _Connection(*await self._connected(self._host, self._port, self._is_secure))
                host, port = _address(self._proxy)
                reader, writer = await self._connected(host, port, self._proxy.scheme == "https")
                if self._is_secure:
                    await self._tunnel(reader, writer)
                return _Connection(reader, writer)
        except ssl.SSLCertVerificationError as error:
            raise Untrusted(f"the certificate of the model server is not valid: {error.verify_message}") from None
        except (OSError, UnicodeError, h11.ProtocolError) as error:  # OSError includes TimeoutError and ssl.SSLError
            raise Unreachable(f"no connection to the model server ({type(error).__name__})") from None

    async def _connected(
        self, host: str, port: int, is_secure: bool
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = (self._context or ssl.create_default_context()) if is_secure else None
        return await asyncio.open_connection(host, port, ssl=context, happy_eyeballs_delay=0.25)

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Asks a proxy for a connection to the server (RFC 9110, section 9.3.6), and starts TLS in it.

        Raises:
            OSError: the proxy refuses, or the server's certificate is not valid.
        """
        assert self._proxy is not None
        target = f"{_in_authority(self._host)}:{self._port}"
        headers = [("host", target), *_proxy_authorization(self._proxy)]
        tunnel = _Connection(reader, writer)
        try:
            answer = await tunnel.send(h11.Request(method="CONNECT", target=target, headers=headers), b"")
            if answer.status // 100 != 2:
                raise ConnectionRefusedError(f"the proxy answered {answer.status}")
            await writer.start_tls(self._context or ssl.create_default_context(), server_hostname=self._host)
        except Lost as error:
            raise ConnectionResetError(str(error)) from None
        except BaseException:
            writer.close()
            raise


class _Connection:
    """One connection; requests follow each other.

    Attributes:
        idle_since: end of the last request on the monotonic clock.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self.idle_since = 0.0

    @property
    def is_alive(self) -> bool:
        """Whether an idle connection can take another request."""
        is_open = not self._reader.at_eof() and not self._writer.is_closing()
        return is_open and time.monotonic() - self.idle_since < LONGEST_IDLE_S

    @property
    def is_complete(self) -> bool:
        """Whether the answer has ended."""
        return self._http.their_state is not h11.SEND_BODY

    def can_start_again(self) -> bool:
        """Prepares the next request; returns False if the server does not keep the connection."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return not self._http.trailing_data[0]  # an answer that nobody asked for

    async def send(self, head: h11.Request, body: bytes) -> ServerResponse:
        """Sends a request and returns the head of the answer.

        Raises:
            Lost: the connection ended.
        """
        events = (head, h11.Data(data=body), h11.EndOfMessage()) if body else (head, h11.EndOfMessage())
        # One segment. A server may answer early and close; the answer is read then, not the error of writing.
        with suppress(OSError):
            self._writer.write(b"".join(self._http.send(event) or b"" for event in events))
            await self._writer.drain()
        while True:
            event = await self.event()
            if isinstance(event, h11.Response):
                return ServerResponse(event, self)
            if not isinstance(event, h11.InformationalResponse):
                raise Lost("the model server closed the connection without an answer")

    async def event(self) -> h11.Event | type[h11.PAUSED]:
        """Returns the next part of the answer.

        Raises:
            Lost: the connection ended early, or the server does not speak HTTP/1.1.
        """
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(_READ_BYTES))
        except (OSError, h11.RemoteProtocolError) as error:
            raise Lost(f"the connection to the model server ended early ({type(error).__name__})") from None
        return event  # type: ignore[return-value]

    def close(self) -> None:
        """Closes the connection."""
        self._writer.close()


class ServerResponse:
    """An answer.

    Attributes:
        headers: its headers, names in lower case; of repeated ones the last.
    """

    def __init__(self, head: h11.Response, connection: _Connection) -> None:
        self._connection = connection
        self.status = head.status_code
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}

    async def content(self) -> AsyncIterator[bytes]:
        """Yields the content as it arrives.

        Raises:
            Lost: the connection ended early.
        """
        while isinstance(event := await self._connection.event(), h11.Data):
            yield bytes(event.data)


def _address(parts: SplitResult) -> tuple[str, int]:
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _in_authority(host: str) -> str:
    if ":" in host:
        return f"[{host}]"
    return host if host.isascii() else host.encode("idna").decode()


def _authority(parts: SplitResult) -> str:
    return _in_authority(parts.hostname or "") + ("" if parts.port is None else f":{parts.port}")


def _proxy_authorization(proxy: SplitResult) -> list[tuple[str, str]]:
    if proxy.username is None:
        return []
    words = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return [("proxy-authorization", f"Basic {base64.b64encode(words).decode()}")]
