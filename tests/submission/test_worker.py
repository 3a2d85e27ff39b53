"""What the participant process is made of: little at the start, and an environment that costs nothing untouched."""

import os
import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from a2perf.submission.participant.lazy_environment import LazyEnvironment


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_worker_starts_with_the_standard_library_and_msgpack_alone() -> None:
    code = """
import sys
before = set(sys.modules)
import a2perf.submission.participant.worker
names = {name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names
print(sorted(name for name in names if not name.startswith("_")))
"""
    assert run(code) == "['a2perf', 'cython_runtime', 'msgpack']"  # msgpack is compiled by Cython


def test_untouched_environment_imports_nothing() -> None:
    code = """
import sys
from a2perf.submission.participant.lazy_environment import LazyEnvironment
env = LazyEnvironment("CartPole-v1", {})
print(env)
env.close()
print("gymnasium" in sys.modules)
"""
    assert run(code).splitlines() == ["<CartPole-v1, not built yet>", "False"]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names the environments that were built."""
    made: list[str] = []
    make = gymnasium.make

    def counted(env_id: str, **kwargs: object) -> gymnasium.Env:
        made.append(env_id)
        return make(env_id, **kwargs)

    monkeypatch.setattr(gymnasium, "make", counted)
    return made


def test_environment_counts_as_one_before_it_is_built(built: list[str]) -> None:
    env = LazyEnvironment("CartPole-v1", {})
    assert isinstance(env, gymnasium.Env)
    assert built == []
    assert env.action_space.n == 2
    assert env.observation_space.shape == (4,)
    assert env.spec.id == "CartPole-v1"
    assert type(env.unwrapped).__name__ == "CartPoleEnv"
    assert built == ["CartPole-v1"]


def test_environment_can_be_stepped_wrapped_and_changed(built: list[str]) -> None:
    with LazyEnvironment("CartPole-v1", {"max_episode_steps": 3}) as env:
        wrapped = gymnasium.wrappers.RecordEpisodeStatistics(env)
        observation, _ = wrapped.reset(seed=1)
        expected, _ = gymnasium.make("CartPole-v1").reset(seed=1)
        np.testing.assert_array_equal(observation, expected)
        for _ in range(3):
            *_, truncated, _ = wrapped.step(0)
        assert truncated
        env.note = 5
        assert env.note == 5
        del env.note
        assert not hasattr(env, "note")
    assert built[0] == "CartPole-v1"


def test_environment_comes_from_the_variables(built: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2PERF_ENV_ID", "CartPole-v1")
    monkeypatch.setenv("A2PERF_ENV_KWARGS", '{"max_episode_steps": 9}')
    assert LazyEnvironment.from_variables().spec.max_episode_steps == 9


def test_environment_without_an_id_says_so_when_it_is_touched() -> None:
    os.environ.pop("A2PERF_ENV_ID", None)
    env = LazyEnvironment.from_variables()
    with pytest.raises(RuntimeError, match="A2PERF_ENV_ID is not set"):
        env.reset()


def test_environment_survives_a_pickle_unbuilt(built: list[str]) -> None:
    env = pickle.loads(pickle.dumps(LazyEnvironment("CartPole-v1", {"max_episode_steps": 5})))
    assert built == []
    assert env.spec.max_episode_steps == 5
