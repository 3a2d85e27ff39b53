"""The OpenEnv protocol: on the wire, and with the unmodified client of the package."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

import a2perf
from a2perf.serving.values import from_plain
from tests.serving import openenv_python
from tests.serving.conftest import ROBOT, WEB, Server, assert_same, started


@pytest.fixture(scope="module")
def openenv_server() -> Iterator[Server]:
    arguments = ["--task", WEB, "--task", ROBOT, "--max-sessions", "3", "--client-kwargs", "step_limit"]
    with started("openenv", *arguments) as server:
        yield server


def _ask(connection: ClientConnection, kind: str, **data: Any) -> dict[str, Any]:
    connection.send(json.dumps({"type": kind, "data": data} if kind != "state" else {"type": kind}))
    fields: dict[str, Any] = json.loads(connection.recv(60))
    return fields


def test_an_episode_over_a_websocket_equals_the_local_one(openenv_server: Server) -> None:
    local = a2perf.make(WEB)
    observation, _ = local.reset(seed=1)
    with connect(openenv_server.websocket + "/ws", max_size=None) as connection:
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
def test_errors_have_a_code_of_openenv_and_a_kind(openenv_server: Server, message: str, code: str, kind: str) -> None:
    with connect(openenv_server.websocket + "/ws", max_size=None) as connection:
        _ask(connection, "reset", seed=1)
        connection.send(message)
        fields = json.loads(connection.recv(60))
        assert (fields["type"], fields["data"]["code"], fields["data"]["kind"]) == ("error", code, kind)
        assert _ask(connection, "reset", seed=1)["type"] == "observation"


def test_a_reset_changes_the_task_and_its_arguments(openenv_server: Server) -> None:
    with connect(openenv_server.websocket + "/ws", max_size=None) as connection:
        _ask(connection, "reset", kwargs={"step_limit": 1})
        assert _ask(connection, "step", action=0)["data"]["done"]
        _ask(connection, "reset")  # keeps them
        assert _ask(connection, "step", action=0)["data"]["done"]
        _ask(connection, "reset", task=ROBOT)
        assert _ask(connection, "state")["data"]["task"] == ROBOT
        assert "reward_terms" in _ask(connection, "step", action=[0.0] * 12)["data"]["observation"]["info"]


def test_a_connection_beyond_the_limit_learns_why(openenv_server: Server) -> None:
    address = openenv_server.websocket + "/ws"
    with connect(address) as first, connect(address) as second, connect(address) as third:
        for one in (first, second, third):
            assert _ask(one, "state")["type"] == "state"
        with connect(address) as fourth:
            assert json.loads(fourth.recv(60))["data"]["code"] == "CAPACITY_REACHED"


def test_sessions_over_http(openenv_server: Server) -> None:
    status, fields = openenv_server.request("POST", "/reset", {"seed": 1})
    session = {"session_id": fields["session_id"]}
    assert status == 200
    status, stepped = openenv_server.request("POST", "/step", {**session, "action": {"action": 0}, "timeout_s": 3})
    assert (status, stepped["done"]) == (200, False)
    assert openenv_server.request("GET", f"/state?session_id={fields['session_id']}")[1]["step_count"] == 1
    assert openenv_server.request("POST", "/step", {"action": {"action": 0}})[0] == 400
    assert openenv_server.request("POST", "/close", session) == (200, {"closed": True})
    assert openenv_server.request("POST", "/step", {**session, "action": {"action": 0}})[0] == 404
    assert set(openenv_server.request("GET", "/schema")[1]) >= {"action", "observation", "state"}
    assert openenv_server.request("GET", "/health") == (200, {"status": "healthy"})


_CLIENT = """
import json, sys
from openenv.core import GenericEnvClient

rows = []
with GenericEnvClient(base_url=sys.argv[1]).sync() as env:
    result = env.reset(seed=1)
    rows.append([result.observation["observation"]["time_step"], result.reward, result.done])
    for action in json.loads(sys.argv[2]):
        result = env.step({"action": action})
        rows.append([result.observation["observation"]["time_step"], result.reward, result.done])
    try:
        env.step({"action": "click"})
    except RuntimeError as error:
        rows.append(str(error))
    rows.append(env.state())
print(json.dumps(rows))
"""


@pytest.mark.group("openenv")
def test_the_unmodified_client_solves_an_episode(openenv_server: Server, tmp_path: Path) -> None:
    local = a2perf.make(WEB)
    observation, _ = local.reset(seed=1)
    actions = local.unwrapped.solution()
    command = [str(openenv_python.found()), "-c", _CLIENT, openenv_server.address, json.dumps(actions)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, *steps, refused, state = json.loads(done.stdout)
    assert_same(from_plain(first[0]), observation["time_step"])
    for action, (sent, reward, ended) in zip(actions, steps, strict=True):
        observation, expected, terminated, truncated, _ = local.step(action)
        assert (reward, ended) == (expected, terminated or truncated)
        assert_same(from_plain(sent), observation["time_step"])
    assert "reset first" in refused
    assert (state["task"], state["step_count"], state["seed"]) == (WEB, len(actions), 1)
    local.close()
