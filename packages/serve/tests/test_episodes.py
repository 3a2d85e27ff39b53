"""Episodes over the server equal local ones bit for bit, in every domain and over every transport."""

from __future__ import annotations

from typing import Any

import gymnasium
import msgspec
import numpy as np
import pytest

import a2perf
from a2perf_serve.client import RemoteEnvironment
from a2perf_serve.errors import ServingError
from a2perf_serve.values import from_plain
from packages.serve.tests.conftest import CIRCUIT, ROBOT, TEXT, WEB, Server, assert_same

TASKS = (WEB, ROBOT, CIRCUIT)
MOST_STEPS = 8


def _action(env: gymnasium.Env[Any, Any], observation: Any, info: dict[str, Any], draw: np.random.Generator) -> Any:
    if isinstance(env.action_space, gymnasium.spaces.Discrete):
        return int(draw.choice(np.flatnonzero(info["action_mask"])))
    return draw.uniform(-0.2, 0.2, env.action_space.shape).astype(np.float32)


@pytest.mark.parametrize("task", TASKS)
def test_episodes_equal_local_ones(http_server: Server, task: str) -> None:
    local = a2perf.make(task)
    remote = RemoteEnvironment(http_server.address, task)
    draw = np.random.default_rng(0)
    assert remote.task == task
    assert remote.action_space == local.action_space
    assert remote.observation_space == local.observation_space
    try:
        for seed in (3, None):
            observation, info = local.reset(seed=seed)
            far_observation, far_info = remote.reset(seed=seed)
            for _ in range(MOST_STEPS):
                assert_same(far_observation, observation)
                assert_same(_without_times(far_info), _without_times(info))
                action = _action(local, observation, info, draw)
                observation, *outcome, info = local.step(action)
                far_observation, *far_outcome, far_info = remote.step(action)
                assert far_outcome == outcome
                if outcome[1] or outcome[2]:
                    break
            assert_same(far_observation, observation)
    finally:
        local.close()
        remote.close()


def _without_times(info: dict[str, Any]) -> dict[str, Any]:
    """Returns an info without measured times, which differ between two runs, as tuples become lists in messages."""
    kept = {name: value for name, value in info.items() if not name.endswith("runtime")}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}


@pytest.mark.parametrize("task", [WEB, ROBOT])
def test_plain_http_with_json_gives_the_same_episode(http_server: Server, task: str) -> None:
    status, opened = http_server.request("POST", "/v1/sessions", {"task": task})
    assert status == 201
    place = f"/v1/sessions/{opened['session']}"
    local = a2perf.make(task)
    observation, info = local.reset(seed=5)
    status, fields = http_server.request("POST", f"{place}/reset", {"seed": 5})
    assert status == 200
    assert_same(from_plain(fields["observation"]), observation)
    assert fields["reward"] is None
    action = _action(local, observation, info, np.random.default_rng(1))
    observation, reward, *ends, _ = local.step(action)
    sent = action if isinstance(action, int) else action.tolist()
    status, fields = http_server.request("POST", f"{place}/step", {"action": sent})
    assert (status, fields["reward"], fields["terminated"], fields["truncated"]) == (200, reward, *ends)
    assert_same(from_plain(fields["observation"]), observation)
    status, again = http_server.request("GET", f"{place}/observation")
    assert (status, again) == (200, fields)
    status, described = http_server.request("GET", f"{place}/spaces")
    assert described["spaces"] == opened["spaces"]
    assert http_server.request("DELETE", place) == (200, {"closed": True})
    assert http_server.request("GET", f"{place}/observation")[0] == 404
    local.close()


@pytest.mark.parametrize("shown", ["text", "screenshot"])
def test_text_episodes_equal_local_ones(http_server: Server, shown: str) -> None:
    """With texts as actions, valid or not, over the WebSocket in MessagePack and over plain HTTP in JSON."""
    local = a2perf.make(TEXT, observation=shown)
    remote = RemoteEnvironment(http_server.address, TEXT, observation=shown)
    _, opened = http_server.request("POST", "/v1/sessions", {"task": TEXT, "kwargs": {"observation": shown}})
    place = f"/v1/sessions/{opened['session']}"
    assert remote.observation_space == local.observation_space
    observation, info = local.reset(seed=7)
    assert_same(remote.reset(seed=7), (observation, info))
    _, fields = http_server.request("POST", f"{place}/reset", {"seed": 7})
    assert_same((from_plain(fields["observation"]), fields["info"]), (observation, info))
    invalid = ("", "click 999", 'fill 1 "caf\u00e9 \u2028 \U0001f600"', "x" * 5000)
    for action in (*invalid, *local.unwrapped.solution()):
        observation, reward, terminated, truncated, info = local.step(action)
        assert_same(remote.step(action), (observation, reward, terminated, truncated, info))
        _, fields = http_server.request("POST", f"{place}/step", {"action": action})
        assert_same((from_plain(fields["observation"]), fields["info"]), (observation, info))
        assert [fields[name] for name in ("reward", "terminated", "truncated")] == [reward, terminated, truncated]
        assert (info["error"] is None) == (action not in invalid)
    assert info["is_success"]
    assert http_server.request("DELETE", place) == (200, {"closed": True})
    remote.close()
    local.close()


def test_a_websocket_answers_in_the_form_of_the_request_and_repeats_its_id(http_server: Server) -> None:
    from websockets.sync.client import connect

    with connect(http_server.websocket + "/v1/ws") as socket:
        socket.send('{"op": "tasks", "id": "one"}')
        fields = msgspec.json.decode(socket.recv())
        assert fields["id"] == "one"
        assert [row["task"] for row in fields["tasks"]] == [*TASKS, TEXT]
        socket.send(msgspec.msgpack.encode({"op": "tasks", "id": 2}))
        assert msgspec.msgpack.decode(socket.recv()) == {**fields, "id": 2}


def test_sessions_of_one_connection_run_at_the_same_time(http_server: Server) -> None:
    """A request to a slow environment does not delay one to another session of the connection."""
    from websockets.sync.client import connect

    with connect(http_server.websocket + "/v1/ws", max_size=None) as socket:

        def ask(**message: Any) -> dict[str, Any]:
            socket.send(msgspec.msgpack.encode(message))
            fields: dict[str, Any] = msgspec.msgpack.decode(socket.recv())
            return fields

        quick, slow = ask(op="open", task=WEB)["session"], ask(op="open", task=ROBOT)["session"]
        ask(op="reset", session=slow, seed=0)
        for _ in range(50):  # on a loaded host a step may end before the next message is sent
            socket.send(msgspec.msgpack.encode({"op": "step", "session": slow, "action": [0.0] * 12, "id": "slow"}))
            socket.send(msgspec.msgpack.encode({"op": "step", "session": slow, "action": [0.0] * 12, "id": "again"}))
            socket.send(msgspec.msgpack.encode({"op": "reset", "session": quick, "seed": 0, "id": "quick"}))
            answers = {fields["id"]: fields for fields in (msgspec.msgpack.decode(socket.recv()) for _ in range(3))}
            assert "observation" in answers["slow"]
            assert "observation" in answers["quick"]
            if "error" in answers["again"]:
                break
        assert answers["again"]["error"]["kind"] == "busy"


def test_errors_of_the_client_name_kind_and_fix(http_server: Server) -> None:
    with pytest.raises(ServingError, match="'nope' is not served") as refused:
        RemoteEnvironment(http_server.address, "nope")
    assert refused.value.kind == "unknown_task"
    with pytest.raises(ServingError) as refused:
        RemoteEnvironment(http_server.address, WEB, data_dir="/etc")
    assert refused.value.kind == "forbidden"
    env = RemoteEnvironment(http_server.address, WEB)
    with pytest.raises(ServingError) as refused:
        env.step(0)
    assert refused.value.kind == "episode_over"
    with pytest.raises(ServingError) as refused:
        env.reset(seed=0, options={"design": 0})
    assert refused.value.kind == "forbidden"
    env.reset(seed=0)
    with pytest.raises(ServingError) as refused:
        env.step(10**6)
    assert refused.value.kind == "invalid_action"
    assert env.step(0)[1] < 0  # the episode continues
    env.close()
    env.close()
