"""The threaded vector environment gives what single environments and Gymnasium's own vector environments give."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from a2perf import domains
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


@pytest.mark.parametrize(
    ("env_id", "mode"),
    [
        ("QuadrupedLocomotion-SyntheticTrot-v0", AutoresetMode.NEXT_STEP),
        ("QuadrupedLocomotion-SyntheticTrot-v0", AutoresetMode.SAME_STEP),
        ("QuadrupedLocomotionMuJoCo-DogPace-v0", AutoresetMode.NEXT_STEP),
    ],
)
def test_steps_as_the_synchronous_vector_environment_does(env_id, mode):
    if "MuJoCo" in env_id:
        pytest.importorskip("mujoco", reason="needs mujoco")
    threaded = gymnasium.make_vec(env_id, num_envs=3, threads=2, autoreset_mode=mode, **KWARGS)
    assert isinstance(threaded.unwrapped, ThreadedVectorEnv)
    assert threaded.metadata["autoreset_mode"] is mode
    serial = SyncVectorEnv([lambda: gymnasium.make(env_id, **KWARGS).unwrapped] * 3, autoreset_mode=mode)
    generator = np.random.default_rng(0)
    answers = [(threaded.reset(seed=[5, 9, 2]), serial.reset(seed=[5, 9, 2]))]
    for _ in range(45):  # training episodes have 20 steps: every member is reset twice
        actions = generator.uniform(-0.5, 0.5, (3, 12)).astype(np.float32)
        answers.append((threaded.step(actions), serial.step(actions)))
    for ours, theirs in answers:  # at the end: later steps do not overwrite what was returned
        assert all(same(first, second) for first, second in zip(ours, theirs, strict=True))
    threaded.close()
    serial.close()


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
