"""Hostile clients get errors, and another client's episode continues bit for bit."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

import a2perf
from a2perf_serve.errors import ServingError
from packages.serve.tests.conftest import CIRCUIT, WEB, RemoteEnvironment, Server, assert_same, started
from tests.waiting import Child, until


class Victim(threading.Thread):
    """Another client, which steps while a test attacks."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._remote = RemoteEnvironment(address, WEB)
        self._local = a2perf.make(WEB)
        self._is_over = threading.Event()
        self.steps = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            draw = np.random.default_rng(0)
            while not self._is_over.is_set() or self.steps < 20:
                assert_same(self._remote.reset(seed=self.steps), self._local.reset(seed=self.steps))
                ended = False
                while not ended:
                    action = int(draw.integers(100))
                    far, near = self._remote.step(action), self._local.step(action)
                    assert_same(far, near)
                    ended = bool(near[2] or near[3])
                    self.steps += 1
        except BaseException as error:
            self.error = error
        finally:
            self._remote.close()
            self._local.close()

    def finish(self) -> None:
        self._is_over.set()
        self.join(300)
        assert self.error is None, self.error
        assert self.steps >= 20


@pytest.fixture
def victim(server: Server) -> Iterator[Victim]:
    victim = Victim(server.address)
    victim.start()
    yield victim
    victim.finish()


@contextlib.contextmanager
def _socket(server: Server) -> Iterator[ClientConnection]:
    with connect(server.websocket + "/ws", max_size=None, compression=None) as socket:
        yield socket


def _ask(connection: ClientConnection, message: Any) -> dict[str, Any]:
    """Returns the data of an answer."""
    connection.send(message if isinstance(message, (bytes, str)) else json.dumps(message))
    fields: dict[str, Any] = json.loads(connection.recv(300))["data"]
    return fields


_MESSAGES: list[tuple[bytes | str, str]] = [
    ("", "malformed"),
    ("{", "malformed"),
    ('{"type": "step", "data": {"action": NaN}}', "malformed"),
    ("[" * 30_000, "bad_request"),
    ('{"type":"step","data":{"action":' + "[" * 20_000 + "]" * 20_000 + "}}", "malformed"),
    ("9" * 5_000, "bad_request"),
    ("[]", "bad_request"),
    ("null", "bad_request"),
    ('"step"', "bad_request"),
    ("{}", "bad_request"),
    ('{"type": "explode"}', "unknown_type"),
    ('{"type": ["step"]}', "bad_request"),
    ('{"type": "reset", "data": 3}', "bad_request"),
    ('{"type": "reset", "data": {"task": 3}}', "bad_request"),
    ('{"type": "reset", "data": {"surprise": 1}}', "bad_request"),
    ('{"type": "reset", "data": {"task": "../../etc/passwd"}}', "unknown_task"),
    ('{"type": "reset", "data": {"kwargs": {"backend": "chromium"}}}', "forbidden"),
    ('{"type": "reset", "data": {"kwargs": {"data_dir": "/etc"}}}', "forbidden"),
    ('{"type": "reset", "data": {"kwargs": {"' + "k" * 60_000 + '": 1}}}', "forbidden"),
    ('{"type": "step", "data": {"action": 0}}', "episode_over"),
    (b"", "malformed"),
    (b"\xff\xfe", "malformed"),
    (b'{"type": "reset", "data": {"task": "\xff"}}', "malformed"),
]


def test_every_malformed_message_gets_an_error_of_its_kind(server: Server, victim: Victim) -> None:
    with _socket(server) as connection:
        for message, kind in _MESSAGES:
            fields = _ask(connection, message)
            assert fields["kind"] == kind, (message[:60], fields)
            assert len(json.dumps(fields)) < 1000
        _ask(connection, {"type": "reset", "data": {"task": WEB, "seed": 0}})
        for action in (-1, 12_500, 0.5, "0", None, True, [0], {"a": 1}, [[[]]], 2**62):
            fields = _ask(connection, {"type": "step", "data": {"action": action}})
            assert fields["kind"] == "invalid_action", (action, fields)
        for seed in (-1, 2**63):
            assert _ask(connection, {"type": "reset", "data": {"seed": seed}})["kind"] == "bad_request"
        assert _ask(connection, {"type": "step", "data": {"action": 0}})["reward"] < 0


def test_too_large_and_broken_frames_end_only_their_connection(server: Server, victim: Victim) -> None:
    with _socket(server) as connection:
        connection.send(b"x" * 70_000)
        with pytest.raises(ConnectionClosed) as closed:
            connection.recv(300)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009
    for junk in (b"\xff" * 64, b"\x81\x05hello", os.urandom(500)):  # reserved bits, no mask, noise
        with contextlib.closing(_upgraded(server)) as raw:
            raw.sendall(junk)
            assert _is_closed(raw)


@pytest.mark.parametrize(
    ("first", "frame"),
    [(b"", b"\x89\x80\0\0\0\0"), (b"\x01\x80\0\0\0\0", b"\0\x80\0\0\0\0")],
    ids=["pings", "fragments"],
)
def test_a_flood_without_messages_ends_its_connection(
    server: Server, victim: Victim, first: bytes, frame: bytes
) -> None:
    with contextlib.closing(_upgraded(server)) as raw:
        with contextlib.suppress(OSError):
            raw.sendall(first + 10_500 * frame)
        assert _is_closed(raw)


def test_each_message_of_a_flood_is_answered_beside_another_client(server: Server, victim: Victim) -> None:
    with contextlib.closing(_upgraded(server)) as raw:
        raw.sendall(2_000 * _masked(b"{"))
        raw.settimeout(300)
        received = b""
        while received.count(b'"malformed"') < 2_000:
            part = raw.recv(1 << 16)
            assert part
            received += part


def test_slow_and_stalled_clients_are_disconnected(server: Server, victim: Victim) -> None:
    """The limit is one second; a byte now and then does not extend it."""
    head = b"POST /reset HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n"
    with contextlib.ExitStack() as opened:
        silent, dripping, stalled = (
            opened.enter_context(socket.create_connection((server.host, server.port))) for _ in range(3)
        )
        stalled.sendall(head.replace(b"POST /reset", b"GET /health") + b"{")

        def drip() -> bool:
            """Sends one more byte of a header that never ends; returns whether the server has hung up."""
            try:
                dripping.sendall(b"x")
            except OSError:
                return True
            return False

        dripping.sendall(head[:-4])
        until(drip)
        assert _is_closed(stalled)
        assert _is_closed(silent)


def test_more_sessions_than_allowed_are_refused_until_one_ends(server: Server) -> None:
    with contextlib.ExitStack() as opened:
        first, *_ = [opened.enter_context(_socket(server)) for _ in range(6)]
        until(lambda: server.sessions() == 6)
        with _socket(server) as refused:
            assert json.loads(refused.recv(300))["data"]["code"] == "CAPACITY_REACHED"
        first.close()
        until(lambda: server.sessions() == 5)
        with _socket(server) as again:
            assert "observation" in _ask(again, {"type": "reset"})
    until(lambda: server.sessions() == 0)


_CLIENT_TO_KILL = """
import sys, time
from packages.serve.tests.conftest import RemoteEnvironment
env = RemoteEnvironment(sys.argv[1], sys.argv[2])
env.reset(seed=0)
print("running", flush=True)
while True:
    if any(env.step(0)[2:4]):
        env.reset()
"""


def test_clients_that_vanish_leave_no_session(server: Server, victim: Victim) -> None:
    command = [sys.executable, "-c", _CLIENT_TO_KILL, server.address, WEB]
    with Child(command, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "running\n"
        with contextlib.closing(_upgraded(server)) as raw:
            raw.sendall(_masked(b'{"type": "state"}')[:9])  # half a frame
            until(lambda: server.sessions() == 3)
            killed.send_signal(signal.SIGKILL)
    until(lambda: server.sessions() == 1)  # the victim's


def test_a_crashed_environment_ends_its_sessions_and_nothing_else() -> None:
    with (  # in a shared server, another test may have started the circuit's process first
        started("openenv", "--task", WEB, "--task", CIRCUIT) as server,
        contextlib.closing(RemoteEnvironment(server.address, WEB)) as env,
        contextlib.closing(RemoteEnvironment(server.address, CIRCUIT)) as other,
    ):
        env.reset(seed=0)
        other.reset(seed=0)
        worker = min(server.children(), key=lambda process: process.create_time())  # web navigation came first
        worker.kill()
        with pytest.raises(ServingError) as lost:
            env.step(0)
        assert lost.value.kind in ("environment_crashed", "unknown_session")
        assert other.reset(seed=0)[1] is not None
        with contextlib.closing(RemoteEnvironment(server.address, WEB)) as again:  # in a new process
            again.reset(seed=0)


def test_a_token_is_required_where_one_is_set(tmp_path: Any) -> None:
    token = "correct-horse-battery-staple"
    variable = {"SERVER_TOKEN": token}
    with started("openenv", "--task", WEB, "--token-env", "SERVER_TOKEN", environment=variable) as server:
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": f"Bearer {token}x"},
            {"Authorization": token},
            {"Authorization": "Basic !"},
            {"Authorization": "Bearer " + "x" * 10_000},
        ):
            status, fields = server.request("GET", "/metadata", headers=headers)
            assert (status, fields["error"]["kind"]) == (401, "unauthorized"), headers
        assert server.request("GET", "/health") == (200, {"status": "healthy"})
        basic = base64.b64encode(f"any:{token}".encode()).decode()
        for headers in ({"Authorization": f"Bearer {token}"}, {"Authorization": f"Basic {basic}"}):
            assert server.request("GET", "/metadata", headers=headers)[0] == 200
            foreign = {**headers, "Origin": "https://example.org"}
            assert server.request("GET", "/metadata", headers=foreign)[1]["error"]["kind"] == "forbidden"
        with connect(f"ws://any:{token}@{server.host}:{server.port}/ws") as connection:
            assert _ask(connection, {"type": "state"})["step_count"] == 0
        with pytest.raises(Exception, match="401"), connect(server.websocket + "/ws"):
            pass


def test_pages_of_a_browser_cannot_reach_a_server_without_a_token(server: Server) -> None:
    for headers in ({"Origin": "https://example.org"}, {"Host": "rebound.example.org"}):
        status, fields = server.request("GET", "/metadata", headers=headers)
        assert (status, fields["error"]["kind"]) == (403, "forbidden")


# --- raw connections


def _upgraded(server: Server) -> socket.socket:
    """Returns a socket after the opening handshake of a WebSocket."""
    raw = socket.create_connection((server.host, server.port), timeout=300)
    raw.sendall(
        b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert raw.recv(4096).startswith(b"HTTP/1.1 101")
    return raw


def _masked(text: bytes) -> bytes:
    return bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text


def _is_closed(raw: socket.socket) -> bool:
    """Returns whether the server closes the connection; what it sends before is ignored."""
    raw.settimeout(300)
    try:
        while raw.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True
