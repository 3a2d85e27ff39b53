"""The network of an installation that runs code of packages: it reaches only the organizer's indexes.

The sandbox has only a private loopback. A relay inside accepts connections there and passes each one as a descriptor to
the evaluator. The evaluator reads the proxy request (RFC 9110, CONNECT and absolute targets) and connects it to an
index or refuses it. TLS stays end to end between the installer and the index.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
from collections.abc import Collection
from urllib.parse import unquote, urlsplit

from a2perf.system import MESSAGES

Address = tuple[str, int]

RELAY = """
import os, socket, subprocess, sys, threading
channel, listener = socket.socket(fileno=int(sys.argv[1])), socket.create_server(("127.0.0.1", 0))
def relay():
    while True:
        connection = listener.accept()[0]
        socket.send_fds(channel, [b"c"], [connection.fileno()])
        connection.close()
threading.Thread(target=relay, daemon=True).start()
proxy = "http://127.0.0.1:%d" % listener.getsockname()[1]
names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
status = subprocess.run(sys.argv[2:], env={**os.environ, **dict.fromkeys(names, proxy)}).returncode
os._exit(status if status >= 0 else 128 - status)
"""
"""Program for the sandbox. Arguments: number of the channel's descriptor, then the command that uses the proxy."""

MAX_CONNECTIONS = 64
MAX_HEAD_BYTES = 32 * 1024
TIMEOUT_S = 120.0


class IndexProxy:
    """Serves one relay while the context is open."""

    def __init__(self, allowed: Collection[Address], upstream: str | None = None) -> None:
        self._allowed = frozenset(allowed)
        self._upstream = urlsplit(upstream) if upstream else None
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, MESSAGES)
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self.channel = self._theirs.fileno()
        self.refused: list[str] = []

    def __enter__(self) -> IndexProxy:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *details: object) -> None:
        self._theirs.close()
        with contextlib.suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)  # wakes the thread, which closes the socket

    def _serve(self) -> None:
        with self._ours:
            while True:
                try:
                    data, descriptors, _, _ = socket.recv_fds(self._ours, 16, 4)
                except OSError:
                    return
                for descriptor in descriptors:
                    self._free.acquire()
                    threading.Thread(target=self._handle, args=(descriptor,), daemon=True).start()
                if not data:
                    return

    def _handle(self, descriptor: int) -> None:
        try:
            with socket.socket(fileno=descriptor) as client:
                client.settimeout(TIMEOUT_S)
                self._connect(client)
        except (OSError, ValueError):
            pass  # the client sees a closed connection
        finally:
            self._free.release()

    def _connect(self, client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            data = client.recv(4096)
            if not data or len(head) > MAX_HEAD_BYTES:
                return
            head += data
        method, target = head.split(b" ", 2)[:2]
        tunnel = method == b"CONNECT"
        address = _address(target.decode("ascii"), tunnel=tunnel)
        if address not in self._allowed:
            if len(self.refused) < MAX_CONNECTIONS:
                self.refused.append(f"{address[0]}:{address[1]}"[:200])
            client.sendall(b"HTTP/1.1 403 Not an index of the organizer\r\nContent-Length: 0\r\n\r\n")
            return
        proxy = self._upstream
        place = (str(proxy.hostname), proxy.port or 80) if proxy else address
        with socket.create_connection(place, TIMEOUT_S) as server:
            if proxy is not None:
                line, _, rest = head.partition(b"\r\n")
                words = f"{unquote(proxy.username or '')}:{unquote(proxy.password or '')}".encode()
                login = b"Proxy-Authorization: Basic " + base64.b64encode(words) + b"\r\n"
                server.sendall(line + b"\r\n" + (login if proxy.username is not None else b"") + rest)
            elif tunnel:
                client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                # The client may have sent the start of its TLS session right behind the request.
                server.sendall(head.partition(b"\r\n\r\n")[2])
            else:
                server.sendall(head)
            back = threading.Thread(target=_pump, args=(server, client), daemon=True)
            back.start()
            _pump(client, server)
            back.join()


def _address(target: str, *, tunnel: bool) -> Address:
    parts = urlsplit(f"//{target}" if tunnel else target)
    return (parts.hostname or "").lower(), parts.port or (443 if tunnel or parts.scheme == "https" else 80)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (target, source):
        with contextlib.suppress(OSError):
            # Only this direction: the other one may still carry an answer.
            end.shutdown(socket.SHUT_WR if end is target else socket.SHUT_RD)
