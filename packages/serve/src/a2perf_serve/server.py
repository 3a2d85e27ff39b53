"""Runs a server until it is interrupted: binds the socket, handles signals, bounds connections and slow clients."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from a2perf.errors import ConfigError
from a2perf_serve.application import application
from a2perf_serve.sessions import Sessions
from a2perf_serve.settings import ServerSettings

_SHUTDOWN_SECONDS = 3
_KEEP_ALIVE_SECONDS = 30
_READ_BYTES = 4096
"""Read at once from a connection: parsing 256 KiB of tiny frames would delay other clients by a second."""
_MOST_UNFINISHED = 10_000
"""Pings and fragments of a WebSocket between two complete messages."""
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def run_server(settings: ServerSettings, ready: Callable[[str], None]) -> None:
    """Serves until SIGTERM or SIGINT; then ends every session and process.

    Args:
        settings: what to serve, and where.
        ready: called with the address, ``"http://127.0.0.1:8000"``, once clients can connect.

    Raises:
        ConfigError: the address cannot be bound.
    """
    logging.basicConfig(level=logging.WARNING, format="a2perf serve: %(message)s")
    with _bound(settings) as listening:
        asyncio.run(_serve(settings, listening, ready))


async def _serve(settings: ServerSettings, listening: socket.socket, ready: Callable[[str], None]) -> None:
    sessions = Sessions(settings)
    config = uvicorn.Config(
        application(sessions),
        http=functools.partial(_BoundedProtocol, settings),  # type: ignore[arg-type]
        ws=_BoundedWebSocket,
        ws_max_size=settings.max_message_bytes,
        ws_ping_interval=settings.ping_seconds,
        ws_ping_timeout=settings.ping_seconds,
        ws_per_message_deflate=False,  # arrays without their padding are small, and it would take most of a step
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    server = _SignalledServer(config, functools.partial(ready, f"http://{shown}:{port}"))

    def stop() -> None:
        sessions.is_closing = True
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    await server.serve(sockets=[listening])


class _SignalledServer(uvicorn.Server):
    """A server that reports when it listens, and leaves signals to the caller: the exit status after one is 0."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # a client that reads nothing would keep its handler from ending
        ending = asyncio.get_running_loop().call_later(_SHUTDOWN_SECONDS / 2, self._abort_connections)
        await super().shutdown(sockets)
        ending.cancel()

    def _abort_connections(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _BoundedProtocol(H11Protocol):
    """HTTP with more limits: of open connections, and of the time in which head and body of a request arrive."""

    def __init__(self, settings: ServerSettings, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._settings = settings
        self._slow: asyncio.TimerHandle | None = None
        self._awaited: type | None = None  # the state of h11 that the timer limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.max_size = _READ_BYTES  # type: ignore[attr-defined]  # of asyncio, by default 256 KiB
        if len(self.connections) > self._settings.max_connections:
            transport.write(_BUSY)
            transport.close()
            return
        self._limit(h11.IDLE)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        is_websocket = self.transport.get_protocol() is not self  # from here on pings limit the connection
        self._limit(None if is_websocket else self.conn.their_state)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._limit(None)  # from here on the keep-alive limit holds until the next byte

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit(None)
        super().connection_lost(exc)

    def _limit(self, state: type | None) -> None:
        """Limits the time that the client may stay in a state: before the end of the head, or of the body."""
        if state is self._awaited:
            return
        self._awaited = state
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None
        if state is h11.IDLE or state is h11.SEND_BODY:
            self._slow = self.loop.call_later(self._settings.request_seconds, self.transport.abort)


class _BoundedWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket that a flood of pings or fragments ends."""

    _unfinished = 0

    def handle_ping(self) -> None:
        if self._may_continue():
            super().handle_ping()

    def handle_cont(self, event: Frame) -> None:
        if self._may_continue():
            super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        self._unfinished = 0
        super().send_receive_event_to_app()

    def _may_continue(self) -> bool:
        self._unfinished += 1
        if self._unfinished <= _MOST_UNFINISHED:
            return True
        self.transport.abort()
        return False


def _bound(settings: ServerSettings) -> socket.socket:
    """Returns a listening socket.

    Raises:
        ConfigError: the address is unknown or in use.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"{settings.host} is not an address: {error}", hint="give --host 127.0.0.1") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # A closing transport waits until its last bytes are sent. The kernel aborts the connection of a client that
            # takes none of them; accepted sockets inherit the limit.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * settings.request_seconds))
        listening.bind(address)
        listening.listen(512)
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}",
            hint="give another --port, or 0 for a free one",
        ) from error
    listening.setblocking(False)
    return listening
