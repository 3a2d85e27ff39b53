"""Servers in separate processes, as clients meet them, and the raw connections of hostile clients."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import psutil
import pytest
from websockets.sync.client import connect

from a2perf_serve.errors import ServingError
from a2perf_serve.values import array_of, is_array_record
from tests.waiting import Child

WEB, ROBOT, CIRCUIT = "difficulty_level_1_num_websites_1", "synthetic_pace", "toy_macro_stdcell"
TEXT = "text_level_1"


@dataclass
class Server:
    """A running ``a2perf serve``."""

    process: subprocess.Popen[str]
    address: str
    host: str = "127.0.0.1"
    port: int = field(init=False)

    def __post_init__(self) -> None:
        self.port = int(self.address.rpartition(":")[2])

    @property
    def websocket(self) -> str:
        return self.address.replace("http", "ws", 1)

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Returns the status and the fields of an answer; a body that is not bytes is sent as JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=300) as reply:
                return reply.status, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}")

    def sessions(self) -> int:
        """Returns the number of open sessions."""
        return int(self.request("GET", "/metadata")[1]["sessions"])

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(300)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status


@contextlib.contextmanager
def started(protocol: str, *arguments: str, environment: dict[str, str] | None = None) -> Iterator[Server]:
    command = [sys.executable, "-m", "a2perf", "serve", "--protocol", protocol, "--workers", "1", *arguments]
    variables = {**os.environ, **(environment or {})}
    with tempfile.TemporaryFile() as errors:
        process = Child(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=variables)
        assert process.stdout is not None
        try:
            assert select.select([process.stdout], [], [], 300)[0], "the server does not start"
            yield Server(process, process.stdout.readline().split()[-1])
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(300)
            process.stdout.close()
        errors.seek(0)
        log = errors.read().decode()
    assert "Traceback" not in log, log  # clients cannot provoke one


class RemoteEnvironment:
    """A client of OpenEnv: an episode over a WebSocket, as the environment itself gives it."""

    def __init__(self, address: str, task: str, **kwargs: Any) -> None:
        self._open = contextlib.ExitStack()
        place = address.replace("http", "ws", 1) + "/ws"
        self.connection = self._open.enter_context(connect(place, max_size=None, compression=None))
        self._named = {"task": task, "kwargs": kwargs}

    def ask(self, kind: str, **data: Any) -> dict[str, Any]:
        """Returns the data of an answer; raises the `ServingError` that it reports."""
        self.connection.send(json.dumps({"type": kind, "data": data}))
        reply = json.loads(self.connection.recv(300))
        if reply["type"] == "error":
            raise ServingError(reply["data"]["kind"], reply["data"]["message"])
        return cast("dict[str, Any]", reply["data"])

    def reset(self, *, seed: int | None = None, **more: Any) -> tuple[Any, dict[str, Any]]:
        fields = self.ask("reset", seed=seed, **self._named, **more)["observation"]
        return from_plain(fields["observation"]), from_plain(fields["info"])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        given = action.tolist() if isinstance(action, np.ndarray) else action
        data = self.ask("step", action=given)
        seen = data["observation"]
        assert data["done"] == (seen["terminated"] or seen["truncated"])
        return (
            from_plain(seen["observation"]),
            data["reward"],
            seen["terminated"],
            seen["truncated"],
            from_plain(seen["info"]),
        )

    def close(self) -> None:
        self._open.close()


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    """A server of one task per domain and one with texts, with narrow limits."""
    tasks = [argument for task in (WEB, ROBOT, CIRCUIT, TEXT) for argument in ("--task", task)]
    limits = ["--max-sessions", "6", "--max-message-bytes", "65536", "--request-seconds", "1"]
    limits += ["--client-kwargs", "observation,step_limit"]
    with started("openenv", *tasks, *limits) as server:
        yield server


def from_plain(value: Any) -> Any:
    """Returns a decoded message with arrays in place of their records."""
    if is_array_record(value):
        return array_of(value, most_items=1 << 28)
    if isinstance(value, dict):
        return {key: from_plain(item) for key, item in value.items()}
    return [from_plain(item) for item in value] if isinstance(value, list) else value


def assert_same(left: Any, right: Any) -> None:
    """Two values are equal in type and in every bit."""
    if isinstance(left, dict):
        assert list(left) == list(right)
        for name in left:
            assert_same(left[name], right[name])
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_same(one, other)
    elif isinstance(left, (np.ndarray, np.generic)):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        assert left.tobytes() == right.tobytes()
    else:
        assert type(left) is type(right)
        assert left == right
