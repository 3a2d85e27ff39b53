"""The command in this process, and a host that names the pull request of a commit."""

from __future__ import annotations

import http.server
import json
import shlex
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.commands import call_a2perf

Run = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def run() -> Run:
    """Runs a command line of ``a2perf`` in this process: exit status, output, errors."""
    return lambda line: call_a2perf(*shlex.split(line))


class Host(http.server.ThreadingHTTPServer):
    """Answers every request after a delay, and notes it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.asked: list[str] = []
        self.delay_s = 0.0
        self.answer: object = [{"number": 308}]


class _Request(http.server.BaseHTTPRequestHandler):
    server: Host

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        time.sleep(self.server.delay_s)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(self.server.answer).encode())

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()
