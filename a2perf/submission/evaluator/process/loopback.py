"""The way of a participant process to its evaluator on a host where a child inherits no sockets."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import select
import socket
import time
from collections.abc import Callable

from a2perf.submission.participant.wire import ConnectionClosed, WireTimeout

_LOOK_S = 0.05
_MOST_SILENT = 64


class Loopback:
    """A port of this host for one connection, which begins with ``token``; any other is closed."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(32).encode()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])

    def accept(self, has_ended: Callable[[], bool], deadline: float | None) -> socket.socket:
        """Waits for the process and closes the port.

        Raises:
            ConnectionClosed: the process has ended.
            WireTimeout: it did not connect in time.
        """
        silent: list[socket.socket] = []  # connections that have sent nothing keep nobody waiting
        try:
            while not has_ended():
                for ready in select.select([self._listener, *silent], [], [], _LOOK_S)[0]:
                    if ready is self._listener:
                        silent.append(self._listener.accept()[0])
                        continue
                    silent.remove(ready)
                    with contextlib.suppress(OSError):  # so few bytes arrive together
                        if hmac.compare_digest(ready.recv(len(self.token)), self.token):
                            ready.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                            return ready
                    ready.close()
                while len(silent) > _MOST_SILENT:
                    silent.pop(0).close()
                if deadline is not None and time.monotonic() >= deadline:
                    raise WireTimeout("the deadline has passed")
        finally:
            for stranger in (self._listener, *silent):
                stranger.close()
        raise ConnectionClosed("the other process has ended")
