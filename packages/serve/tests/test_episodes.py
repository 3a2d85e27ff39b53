"""Episodes over the server equal local ones bit for bit, in every domain and over a WebSocket."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

import a2perf
from a2perf_serve.errors import ServingError
from packages.serve.tests.conftest import CIRCUIT, ROBOT, TEXT, WEB, RemoteEnvironment, Server, assert_same

TASKS = (WEB, ROBOT, CIRCUIT)
MOST_STEPS = 8


def _action(env: gymnasium.Env[Any, Any], observation: Any, info: dict[str, Any], draw: np.random.Generator) -> Any:
    if isinstance(env.action_space, gymnasium.spaces.Discrete):
        return int(draw.choice(np.flatnonzero(info["action_mask"])))
    return draw.uniform(-0.2, 0.2, env.action_space.shape).astype(np.float32)


@pytest.mark.parametrize("task", TASKS)
def test_episodes_equal_local_ones(server: Server, task: str) -> None:
    local = a2perf.make(task)
    remote = RemoteEnvironment(server.address, task)
    draw = np.random.default_rng(0)
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


@pytest.mark.parametrize("shown", ["text", "screenshot"])
def test_text_episodes_equal_local_ones(server: Server, shown: str) -> None:
    """With texts as actions, valid or not."""
    local = a2perf.make(TEXT, observation=shown)
    remote = RemoteEnvironment(server.address, TEXT, observation=shown)
    observation, info = local.reset(seed=7)
    assert_same(remote.reset(seed=7), (observation, info))
    invalid = ("", "click 999", 'fill 1 "caf\u00e9 \u2028 \U0001f600"', "x" * 5000)
    for action in (*invalid, *local.unwrapped.solution()):
        observation, reward, terminated, truncated, info = local.step(action)
        assert_same(remote.step(action), (observation, reward, terminated, truncated, info))
        assert (info["error"] is None) == (action not in invalid)
    assert info["is_success"]
    remote.close()
    local.close()


def test_errors_of_the_client_name_kind_and_fix(server: Server) -> None:
    env = RemoteEnvironment(server.address, WEB)
    with pytest.raises(ServingError, match="'nope' is not served") as refused:
        env.ask("reset", task="nope")
    assert refused.value.kind == "unknown_task"
    with pytest.raises(ServingError) as refused:
        env.ask("reset", kwargs={"data_dir": "/etc"})
    assert refused.value.kind == "forbidden"
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
