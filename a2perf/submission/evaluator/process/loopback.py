"""The way of a participant process to its evaluator on a host where a child inherits no sockets."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import time
from collections.abc import Callable

from a2perf.submission.participant.wire import ConnectionClosed, WireTimeout

_LOOK_S = 0.05


class Loopback:
    """A port of this host for one connection, which begins with ``token``; any other is closed."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(32).encode()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_LOOK_S)
        self.port = int(self._listener.getsockname()[1])

    def accept(self, has_ended: Callable[[], bool], deadline: float | None) -> socket.socket:
        """Waits for the process and closes the port.

        Raises:
            ConnectionClosed: the process has ended.
            WireTimeout: it did not connect in time.
        """
        with self._listener:
            while not has_ended():
                with contextlib.suppress(TimeoutError):
                    found, _ = self._listener.accept()
                    found.settimeout(1.0)
                    with contextlib.suppress(OSError):  # so few bytes arrive together
                        if hmac.compare_digest(found.recv(len(self.token)), self.token):
                            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                            return found
                    found.close()
                if deadline is not None and time.monotonic() >= deadline:
                    raise WireTimeout("the deadline has passed")
        raise ConnectionClosed("the other process has ended")
