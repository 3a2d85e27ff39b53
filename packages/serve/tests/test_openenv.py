"""The OpenEnv protocol: on the wire, and with the unmodified client of the package."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

import a2perf
from packages.serve.tests import openenv_python
from packages.serve.tests.conftest import ROBOT, TEXT, WEB, Server, assert_same, from_plain
from tests.docs import documents
from tests.waiting import until


def _ask(connection: ClientConnection, kind: str, **data: Any) -> dict[str, Any]:
    connection.send(json.dumps({"type": kind, "data": data} if kind != "state" else {"type": kind}))
    fields: dict[str, Any] = json.loads(connection.recv(300))
    return fields


def test_an_episode_over_a_websocket_equals_the_local_one(server: Server) -> None:
    local = a2perf.make(WEB)
    observation, _ = local.reset(seed=1)
    with connect(server.websocket + "/ws", max_size=None) as connection:
        fields = _ask(connection, "reset", seed=1, episode_id="first")
        assert fields["type"] == "observation"
        assert (fields["data"]["reward"], fields["data"]["done"]) == (None, False)
        assert_same(from_plain(fields["data"]["observation"]["observation"]), observation)
        for action in local.unwrapped.solution():
            observation, reward, terminated, truncated, _ = local.step(action)
            data = _ask(connection, "step", action=action)["data"]
            assert_same(from_plain(data["observation"]["observation"]), observation)
            assert (data["reward"], data["done"]) == (reward, terminated or truncated)
        assert data["done"]
        state = _ask(connection, "state")
        assert state == {
            "type": "state",
            "data": {"episode_id": "first", "step_count": len(local.unwrapped.solution()), "task": WEB, "seed": 1},
        }
        refused = _ask(connection, "step", action=0)
        assert (refused["type"], refused["data"]["kind"]) == ("error", "episode_over")
    local.close()


@pytest.mark.parametrize(
    ("message", "code", "kind"),
    [
        ("{", "INVALID_JSON", "malformed"),
        ('{"type": "dance"}', "UNKNOWN_TYPE", "unknown_type"),
        ('{"type": 3}', "VALIDATION_ERROR", "bad_request"),
        ('{"type": "step", "data": {}}', "VALIDATION_ERROR", "bad_request"),
        ('{"type": "step", "data": {"action": "x"}}', "VALIDATION_ERROR", "invalid_action"),
        ('{"type": "reset", "data": {"sed": 1}}', "VALIDATION_ERROR", "bad_request"),
        ('{"type": "reset", "data": {"kwargs": {"data_dir": "/"}}}', "VALIDATION_ERROR", "forbidden"),
        ('{"type": "reset", "data": {"kwargs": {"step_limit": "many"}}}', "VALIDATION_ERROR", "bad_request"),
        ('{"type": "reset", "data": {"task": "nope"}}', "FACTORY_ERROR", "unknown_task"),
    ],
)
def test_errors_have_a_code_of_openenv_and_a_kind(server: Server, message: str, code: str, kind: str) -> None:
    with connect(server.websocket + "/ws", max_size=None) as connection:
        _ask(connection, "reset", seed=1)
        connection.send(message)
        fields = json.loads(connection.recv(300))
        assert (fields["type"], fields["data"]["code"], fields["data"]["kind"]) == ("error", code, kind)
        assert _ask(connection, "reset", seed=1)["type"] == "observation"


def test_a_reset_changes_the_task_and_its_arguments(server: Server) -> None:
    with connect(server.websocket + "/ws", max_size=None) as connection:
        _ask(connection, "reset", kwargs={"step_limit": 1})
        assert _ask(connection, "step", action=0)["data"]["done"]
        _ask(connection, "reset")  # keeps them
        assert _ask(connection, "step", action=0)["data"]["done"]
        _ask(connection, "reset", task=ROBOT)
        assert _ask(connection, "state")["data"]["task"] == ROBOT
        assert "reward_terms" in _ask(connection, "step", action=[0.0] * 12)["data"]["observation"]["info"]


def test_requests_without_a_session(server: Server) -> None:
    assert set(server.request("GET", "/schema")[1]) >= {"action", "observation", "state"}
    assert server.request("GET", "/health") == (200, {"status": "healthy"})
    for path, status, kind in (("/../../etc/passwd", 404, "not_found"), ("/schema", 405, "method_not_allowed")):
        found, fields = server.request("POST", path, b"{}")
        assert (found, fields["error"]["kind"]) == (status, kind)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the kernel cannot limit the time")
def test_a_client_that_reads_no_answer_is_disconnected(server: Server) -> None:
    """Its buffers fill, and the limit is one second; another client's episode continues bit for bit."""
    request = b'{"type": "reset", "data": {"seed": 1}}'
    frame = bytes([0x81, 0x80 | len(request), 0, 0, 0, 0]) + request
    with socket.socket() as deaf, connect(server.websocket + "/ws", max_size=None) as other:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect((server.host, server.port))
        deaf.sendall(
            b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        assert deaf.recv(12) == b"HTTP/1.1 101"
        first = _ask(other, "reset", seed=1)
        deaf.sendall(1000 * frame)  # 15 MB of answers
        until(lambda: server.sessions() == 1)
        assert _ask(other, "reset", seed=1) == first


@pytest.mark.group("openenv")
def test_the_unmodified_validator_passes_the_server(server: Server) -> None:
    command = [str(openenv_python.found()), "-m", "openenv.cli", "validate", "--url", server.address, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    report = json.loads(done.stdout)
    assert (report["passed"], report["mode"]) == (True, "production")
    assert (report["summary"]["passed_count"], report["summary"]["total_count"]) == (6, 6)


_CLIENT = """
import json, runpy, sys
from openenv.core import GenericEnvClient

address, episodes = sys.argv[1], json.loads(sys.argv[2])
results = []
with GenericEnvClient(base_url=address).sync() as env:
    for task, actions in episodes.items():
        result = env.reset(task=task, seed=1)
        rows = [[result.observation, result.reward, result.done]]
        for action in actions:
            result = env.step({"action": action})
            rows.append([result.observation, result.reward, result.done])
        try:
            env.step({"action": actions[0]})
        except RuntimeError as error:
            results.append([rows, str(error), env.state()])
print(json.dumps(results))
sys.argv[1:] = [address]
runpy.run_path("train_openenv.py", run_name="__main__")
"""


@pytest.mark.group("openenv")
def test_the_unmodified_client_plays_episodes_and_learns_with_the_program_of_the_page(
    server: Server, repository: Path, tmp_path: Path
) -> None:
    """One process does both, because importing the client takes seven seconds."""
    page = repository / "docs" / "how_to" / "train_with_openenv.md"
    (program,) = [block for block in documents.blocks_of(page) if block.file == "train_openenv.py"]
    (tmp_path / program.file).write_text(program.text, encoding="utf-8")
    environments = {WEB: a2perf.make(WEB), TEXT: a2perf.make(TEXT)}
    first = {task: local.reset(seed=1)[0] for task, local in environments.items()}
    episodes = {task: local.unwrapped.solution() for task, local in environments.items()}
    episodes[TEXT].insert(0, "click 999")  # costs a step
    command = [str(openenv_python.found()), "-c", _CLIENT, server.address, json.dumps(episodes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    played, *printed = done.stdout.splitlines()
    for (task, local), ((start, *steps), refused, state) in zip(environments.items(), json.loads(played), strict=True):
        assert_same(from_plain(start[0]["observation"]), first[task])
        for action, (sent, reward, ended) in zip(episodes[task], steps, strict=True):
            observation, expected, terminated, truncated, info = local.step(action)
            assert_same(from_plain(sent["observation"]), observation)
            assert (reward, ended) == (expected, terminated or truncated)
        assert sent["info"]["is_success"] is info["is_success"] is True
        assert "reset first" in refused
        assert (state["task"], state["step_count"], state["seed"]) == (task, len(episodes[task]), 1)
        local.close()
    before, after = (int(number) for number in re.findall(r"solved (\d+) of", "\n".join(printed)))
    assert before < after
    assert after >= 34
