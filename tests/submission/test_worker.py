"""What the participant process is made of: little at the start, and an environment that costs nothing untouched."""

import contextlib
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import a2perf
from a2perf.submission.evaluator.submitted.plain_spaces import plain_spaces
from a2perf.submission.participant.lazy_environment import LazyEnvironment
from tests.commands import run_command
from tests.made_submissions import policy, write_submission


def run(code: str) -> str:
    done = run_command([sys.executable, "-P", "-c", code], check=True)
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


def test_environment_counts_as_one_before_it_is_built(built: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2PERF_ENV_ID", "CartPole-v1")
    monkeypatch.setenv("A2PERF_ENV_KWARGS", '{"max_episode_steps": 9}')
    env = LazyEnvironment.from_variables()
    assert isinstance(env, gymnasium.Env)
    assert built == []
    assert env.action_space.n == 2
    assert env.observation_space.shape == (4,)
    assert (env.spec.id, env.spec.max_episode_steps) == ("CartPole-v1", 9)
    assert type(env.unwrapped).__name__ == "CartPoleEnv"
    assert built == ["CartPole-v1"]
    monkeypatch.delenv("A2PERF_ENV_ID")
    with pytest.raises(RuntimeError, match="A2PERF_ENV_ID is not set"):
        LazyEnvironment.from_variables().reset()


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


def test_sent_spaces_are_known_without_building_the_environment(built: list[str]) -> None:
    def sent() -> LazyEnvironment:
        with contextlib.closing(gymnasium.make("CartPole-v1")) as env:
            built.clear()
            return LazyEnvironment("CartPole-v1", {}, plain_spaces(env))

    env, plain = sent(), LazyEnvironment("CartPole-v1", {})
    drawn = []
    for one in (env, plain, pickle.loads(pickle.dumps(sent()))):
        one.action_space.seed(3)
        one.observation_space.seed(4)
        drawn.append((one.action_space.sample(), one.observation_space.sample().tolist()))
        built_now = list(built)
        one.reset(seed=0)  # the seeded generators stay
        drawn[-1] += (one.action_space.sample(), one.observation_space.sample().tolist(), *built_now)
        built.clear()
    assert drawn[0] == drawn[2]
    assert drawn[0][:4] == drawn[1][:4]
    assert [len(found) for found in drawn] == [4, 5, 4]


def test_sent_spaces_hold_nothing_of_the_evaluators_environment() -> None:
    """Neither its generators, nor what somebody has hung on the space."""
    space = gymnasium.spaces.Dict({"b": gymnasium.spaces.Discrete(3), "a": gymnasium.spaces.Box(-1, 1, (2,))})
    env = SimpleNamespace(observation_space=space, action_space=gymnasium.spaces.Text(5))
    space.seed(0)
    space.secret = space["a"].secret = "seeds of the run"
    sent = plain_spaces(env)
    assert set(sent) == {"observation_space"}
    assert "secret" not in repr(sent)
    assert "PCG64" not in repr(sent)
    received = LazyEnvironment("CartPole-v1", {}, sent).observation_space
    assert received == space
    assert not hasattr(received, "secret")


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.Discrete(4, start=-2),
        gymnasium.spaces.MultiDiscrete([[2, 3]], start=[[0, 1]]),
        gymnasium.spaces.MultiBinary(5),
        gymnasium.spaces.MultiBinary((2, 3)),
        gymnasium.spaces.Box(-np.inf, np.array([1.0, 2.0]), dtype=np.float64),
        gymnasium.spaces.Box(0, 255, (2, 2, 3), np.uint8),
        gymnasium.spaces.Tuple([gymnasium.spaces.Dict({"x": gymnasium.spaces.Discrete(3)})]),
    ],
    ids=repr,
)
def test_a_sent_space_is_equal_and_draws_the_same(space: gymnasium.Space) -> None:
    env = SimpleNamespace(observation_space=space, action_space=space)
    received = LazyEnvironment("CartPole-v1", {}, plain_spaces(env)).action_space
    assert received == space
    assert received.dtype == space.dtype
    received.seed(5)
    space.seed(5)
    assert str(received.sample()) == str(space.sample())


def test_a_policy_that_asks_for_spaces_imports_no_environment(tmp_path: Path) -> None:
    code = policy(
        top="import sys",
        load="""
        assert env.action_space.n == 16384 and len(env.observation_space) > 5
        env.action_space.seed(0)
        return env.action_space
        """,
        infer="""
        heavy = [name for name in ('numba', 'scipy', 'matplotlib', 'pandas') if name in sys.modules]
        assert not heavy, heavy
        return policy.sample(observation['mask'].astype('int8'))
        """,
    )
    entry = write_submission(tmp_path / "entry", code)
    result = a2perf.evaluate(
        entry,
        "toy_macro_stdcell",
        episodes=1,
        root_dir=tmp_path / "run",
        progress=False,
        bindings=["Submission.num_inference_steps = 2", "Submission.num_warmup_steps = 1"],
    )
    assert len(result.returns) == 1
