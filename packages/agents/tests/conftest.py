"""A relay in a thread, a scripted model server behind it, and clients in front of it."""

from __future__ import annotations

import asyncio
import functools
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest

from a2perf_agents.calls import joined, read_entries, usage_of
from a2perf_agents.record import BudgetUse, CallEntry, ModelEntry, RefusedEntry
from a2perf_agents.relay import process
from a2perf_agents.relay.access import BudgetLimits, ModelAccess, RelaySettings
from a2perf_agents.relay.handle import RelayCaller, _ask
from packages.agents.examples.scripted_model import Script, ScriptRule, running_server
from packages.agents.examples.scripted_model.server import ScriptedModel, listening_socket

KEY = "sk-organizer-0123456789"
TOKEN = "a2perf-token"


@functools.cache
def _transport() -> openai.DefaultHttpxClient:
    """Returns one client for all tests, as each loads the system's certificates; it keeps no connection."""
    return openai.DefaultHttpxClient(headers={"Connection": "close"})


@dataclass
class RelayUnderTest:
    folder: Path
    control: socket.socket
    caller: RelayCaller
    port: int
    server: ScriptedModel | None

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def client(self, **settings: Any) -> openai.OpenAI:
        given = {
            "base_url": self.base,
            "api_key": TOKEN,
            "max_retries": 0,
            "timeout": 300.0,
            "http_client": _transport(),
        }
        return openai.OpenAI(**{**given, **settings})

    def ask(self, text: str, **settings: Any) -> Any:
        messages: Any = [{"role": "user", "content": text}]
        return self.client().chat.completions.create(**{"model": "default", "messages": messages, **settings})

    def post(self, path: str, body: bytes | str, headers: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request("POST", path, body, {"Authorization": f"Bearer {TOKEN}", **(headers or {})})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    def raw(self, data: bytes, timeout_s: float = 300, *, until: bytes | None = None) -> bytes:
        """Sends bytes and returns the answer until the relay closes the connection or is silent, or up to a word."""
        with socket.create_connection(("127.0.0.1", self.port), timeout_s) as connection:
            connection.sendall(data)
            found = b""
            try:
                while (until is None or until not in found) and (part := connection.recv(65536)):
                    found += part
            except (TimeoutError, ConnectionResetError):
                pass
            return found

    @property
    def entries(self) -> list[ModelEntry]:
        return read_entries(self.folder / "model_calls.jsonl")

    @property
    def calls(self) -> list[CallEntry]:
        return [entry for entry in self.entries if isinstance(entry, CallEntry)]

    @property
    def refused(self) -> list[RefusedEntry]:
        return [entry for entry in self.entries if isinstance(entry, RefusedEntry)]

    @property
    def outcomes(self) -> list[str]:
        return [call.outcome.value for call in joined(self.entries)]

    @property
    def errors(self) -> dict[str, int]:
        return usage_of(self.entries)[0].errors

    @property
    def budgets(self) -> dict[str, BudgetUse]:
        return msgspec.convert(_ask(self.control, b'{"op":"usage"}')["budgets"], dict[str, BudgetUse])


@contextmanager
def relay_of(
    script: Script | list[ScriptRule] | str, folder: Path, *, responder: Any = None, **access: Any
) -> Iterator[RelayUnderTest]:
    """Runs a relay in a thread.

    Args:
        script: of the server behind it; an address instead of a server that this starts.
        folder: gets the journal.
        responder: of the server.
        access: fields of ``ModelAccess``; ``budgets`` as a dictionary.
    """
    with ExitStack() as stack:
        server = None
        if isinstance(script, str):
            endpoint = script
        else:
            script = Script(rules=script) if isinstance(script, list) else script
            running = stack.enter_context(running_server(script, responder))
            endpoint, server = running.endpoint, running.model
        budgets = BudgetLimits(**access.pop("budgets", {}))
        given = ModelAccess(**{"endpoint": endpoint, "models": ("scripted",), "budgets": budgets, **access})
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        thread = threading.Thread(target=lambda: asyncio.run(process.serve(theirs)), daemon=True)
        thread.start()
        folder.mkdir(exist_ok=True)
        answer = _ask(ours, msgspec.json.encode(RelaySettings(given, str(folder), TOKEN, 1)))
        assert answer == {}, answer
        caller = RelayCaller(ours, TOKEN, "scripted", limits_energy=budgets.joules is not None)
        with listening_socket() as listener:
            caller.listen(listener)
            port = listener.getsockname()[1]
        caller.enter("episode", 0, task="task")
        try:
            yield RelayUnderTest(folder, ours, caller, port, server)
        finally:
            ours.close()
            thread.join(300)
            assert not thread.is_alive()


Relays = Callable[..., RelayUnderTest]


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[Relays]:
    """Starts relays that end with the test."""
    with ExitStack() as stack:

        def start(script: Script | list[ScriptRule] | str, **settings: Any) -> RelayUnderTest:
            folder = settings.pop("folder", tmp_path / "bundle")
            return stack.enter_context(relay_of(script, folder, **settings))

        yield start
