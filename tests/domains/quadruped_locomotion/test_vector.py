"""The threaded vector environment gives what single environments and Gymnasium's own vector environments give."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from a2perf import domains
from a2perf.domains.quadruped_locomotion.environment import build_imitation_env
from a2perf.domains.quadruped_locomotion.vector import ThreadedVectorEnv
from a2perf.errors import ConfigError

domains.register_environments()
KWARGS = {"clip": "synthetic_trot", "mode": "train"}


def same(first, second):
    """Whether two infos (nested dictionaries of arrays) are equal."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    first, second = np.asarray(first), np.asarray(second)
    if first.dtype == object:
        return all((a is None and b is None) or same(a, b) for a, b in zip(first, second, strict=True))
    return np.array_equal(first, second)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_steps_as_the_synchronous_vector_environment_does(mode):
    threaded = ThreadedVectorEnv(3, threads=2, autoreset_mode=mode, **KWARGS)
    serial = SyncVectorEnv([lambda: build_imitation_env(**KWARGS)] * 3, autoreset_mode=mode)
    generator = np.random.default_rng(0)
    for first, second in zip(threaded.reset(seed=5), serial.reset(seed=5), strict=True):
        assert same(first, second)
    for _ in range(45):  # training episodes have 20 steps: every member is reset twice
        actions = generator.uniform(-0.5, 0.5, (3, 12)).astype(np.float32)
        for first, second in zip(threaded.step(actions), serial.step(actions), strict=True):
            assert same(first, second)
    threaded.close()
    serial.close()


@pytest.mark.parametrize(
    ("env_id", "clip"),
    [
        ("QuadrupedLocomotion-SyntheticTrot-v0", "synthetic_trot"),
        ("QuadrupedLocomotionMuJoCo-DogPace-v0", "synthetic_pace"),
    ],
)
def test_made_by_id_and_equal_to_single_environments(env_id, clip):
    if "MuJoCo" in env_id:
        pytest.importorskip("mujoco", reason="needs the extra mujoco")
    envs = gymnasium.make_vec(env_id, num_envs=2, threads=2, mode="test", clip=clip)
    assert isinstance(envs.unwrapped, ThreadedVectorEnv)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    observations, _ = envs.reset(seed=[4, 9])
    singles = [gymnasium.make(env_id, mode="test", clip=clip) for _ in range(2)]
    firsts = [env.reset(seed=seed)[0] for env, seed in zip(singles, (4, 9), strict=True)]
    assert np.array_equal(observations, firsts)
    for step in range(15):
        actions = 0.2 * np.sin(np.arange(24, dtype=np.float32).reshape(2, 12) + step)
        observations, rewards, *_ = envs.step(actions)
        for member, env in enumerate(singles):
            observation, reward, *_ = env.step(actions[member])
            assert np.array_equal(observations[member], observation)
            assert rewards[member] == reward
    for env in (envs, *singles):
        env.close()


def test_returned_observations_are_not_overwritten():
    envs = ThreadedVectorEnv(2, **KWARGS)
    first, _ = envs.reset(seed=0)
    kept = first.copy()
    envs.step(np.zeros((2, 12), np.float32))
    assert np.array_equal(first, kept)
    envs.close()


def test_disabled_autoreset_asks_for_the_reset_of_ended_members():
    envs = ThreadedVectorEnv(2, autoreset_mode="Disabled", **KWARGS)
    envs.reset(seed=0)
    for _ in range(20):
        *_, truncations, _ = envs.step(np.zeros((2, 12), np.float32))
    assert truncations.all()
    with pytest.raises(ConfigError, match=r"members \[0, 1\] have ended"):
        envs.step(np.zeros((2, 12), np.float32))
    envs.reset(options={"reset_mask": np.array([True, True])})
    envs.step(np.zeros((2, 12), np.float32))
    envs.close()


def test_an_error_in_a_thread_reaches_the_caller():
    envs = ThreadedVectorEnv(2, threads=2, **KWARGS)
    envs.reset(seed=0)
    actions = np.zeros((2, 12), np.float32)
    actions[1, 3] = np.nan
    with pytest.raises(ConfigError, match="finite"):
        envs.step(actions)
    envs.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_envs": 0}, "num_envs is 0"),
        ({"num_envs": 2, "threads": 0}, "threads is 0"),
        ({"num_envs": 2, "thread": 2}, "'thread' is not an argument"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ConfigError, match=message):
        ThreadedVectorEnv(**arguments, **KWARGS)
