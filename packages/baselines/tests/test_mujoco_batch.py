"""Robots that step together are those of the single environment."""

import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco", reason="needs mujoco")
pytest.importorskip("numba", reason="the batch is compiled")

from a2perf.domains.quadruped_locomotion.physics.mujoco_model import TwinPhysics, model_xml  # noqa: E402
from a2perf.domains.quadruped_locomotion.physics.mujoco_twin import MuJoCoQuadrupedEnv  # noqa: E402
from a2perf.domains.quadruped_locomotion.physics.robot import DEFAULT_JOINT_POSE  # noqa: E402  # noqa: E402
from a2perf.errors import ConfigError  # noqa: E402
from a2perf_baselines.quadruped_locomotion.mujoco_batch import MuJoCoBatch, Variation  # noqa: E402
from a2perf_baselines.quadruped_locomotion.residual_control import (  # noqa: E402
    ResidualControl,
    ResidualControlWrapper,
)

# in the group that runs where a training run's packages are; the first run compiles for half a minute
pytestmark = pytest.mark.group("sb3")

SIX = TwinPhysics(6, implicit_damping=True, exact_start=True, elliptic=True)
CONTROL = ResidualControl(1.0, 3.0, 0.3, True)


def actions(count, steps, size=0.3):
    return np.random.default_rng(0).normal(0.0, size, (steps, count, 12)).astype(np.float32)


def made(count, **kwargs):
    return MuJoCoBatch(count, "synthetic_pace", **{"control": CONTROL, "physics": SIX, **kwargs})


@pytest.mark.parametrize("physics", [SIX, TwinPhysics()], ids=["6 sub-steps", "registered id"])
def test_robots_equal_the_single_environment_bit_for_bit(physics):
    class Single(MuJoCoQuadrupedEnv):
        pass

    Single.physics = physics
    phases = np.array([0.0, 0.3, 0.7])
    robots = made(3, physics=physics, autoreset=False)
    observations = robots.reset(0, phases)["policy"]
    singles = [ResidualControlWrapper(Single(clip="synthetic_pace", mode="test"), CONTROL) for _ in phases]
    for row, (env, phase) in enumerate(zip(singles, phases, strict=True)):
        assert np.array_equal(observations[row], env.reset(seed=0, options={"phase": phase})[0])
    over = set()
    for action in actions(3, 60):
        result = robots.step(action)
        for row, env in enumerate(singles):
            if row in over:
                continue
            observation, reward, terminated, _, _ = env.step(action[row])
            assert np.array_equal(result.observations["policy"][row], observation)
            assert result.rewards[row] == np.float32(reward)
            assert result.terminated[row] == terminated
            assert np.array_equal(robots.states[row], env.unwrapped.robot_state)
            over |= {row} if terminated else set()
    assert over  # the comparison includes ends of episodes


def rollout(robots, seed, steps=60):
    rows = [np.array(robots.reset(seed)["policy"])]
    rewards, ended = [], []
    for action in actions(robots.count, steps):
        result = robots.step(action)
        rows.append(np.array(result.observations["policy"]))
        rewards.append(np.array(result.rewards))
        ended.append(result.terminated | result.truncated)
    return np.array(rows), np.array(rewards), np.array(ended)


def test_a_seed_and_not_the_threads_determines_the_episodes():
    varied = {"variation": Variation(dynamics=3, push=0.3, start_noise=0.05, mixed_ages=True, longest=40)}
    first = rollout(made(7, **varied), 1)
    assert first[2].any()
    for robots in (made(7, threads=2, **varied), made(7, threads=3, **varied)):
        for ours, theirs in zip(first, rollout(robots, 1), strict=True):
            assert np.array_equal(ours, theirs)
        robots.close()
    assert not np.array_equal(first[0], rollout(made(7, **varied), 2)[0])


def test_the_next_episode_begins_in_the_step_that_ends_one():
    robots = made(16, variation=Variation(longest=5))
    robots.reset(0)
    for number, action in enumerate(actions(16, 5, 0.0)):
        before = robots.full_observations
        result = robots.step(action)
        assert result.truncated.any() == (number == 4)
    rows = np.flatnonzero(result.truncated)
    assert list(result.final_indices) == list(rows)
    # a first observation shows the default pose three times, and no action yet
    stack = robots.full_observations[rows][:, 48:84].reshape(len(rows), 3, 12)
    assert np.array_equal(stack[:, 0], stack[:, 2])
    assert (robots.full_observations[rows][:, 12:48] == 0.0).all()
    assert not np.array_equal(before[rows], robots.full_observations[rows])
    assert not np.array_equal(result.final_observations["policy"], result.observations["policy"][rows])
    assert robots.episodes.lengths[: len(rows)] == [5] * len(rows)
    assert (np.array(robots.episodes.returns) <= 5.0).all()


def test_starts_are_those_of_test_mode():
    robots = made(2000)
    robots.reset(3)
    standing = robots._robots.warm_up
    assert 0.07 < standing.mean() < 0.13
    phases = robots._robots.clock[~standing, 1]
    assert np.histogram(phases, 4, (0.0, 1.0))[0].min() > 0.2 * len(phases)


def test_drawn_dynamics_differ_between_episodes_and_stay_in_their_ranges():
    robots = made(200, variation=Variation(dynamics=4))
    robots.reset(0)
    assert set(robots._robots.model) == {0, 1, 2, 3}
    assert (robots._robots.latency <= 0.04).all()
    assert robots._robots.latency.std() > 0.01
    assert 0.79 < robots._robots.strength.min() < robots._robots.strength.max() < 1.21
    masses = {float(model.body_mass.sum()) for model in robots._models}
    assert len(masses) == 4
    assert all(0.8 * 25.567 < mass < 1.2 * 25.567 for mass in masses)


def test_fused_toes_leave_mass_matrix_and_gravity_as_they_are():
    matrices = []
    for fused in (False, True):
        model = mujoco.MjModel.from_xml_string(model_xml(TwinPhysics(6, fused=fused)))
        data = mujoco.MjData(model)
        data.qpos[7:] = DEFAULT_JOINT_POSE
        mujoco.mj_forward(model, data)
        matrices.append(np.vstack([mujoco_mass_matrix(model, data), data.qfrc_bias]))
        assert model.nbody == (14 if fused else 18)
    assert np.allclose(*matrices, atol=1e-12)


def mujoco_mass_matrix(model, data):
    """The mass matrix, column by column."""
    columns = []
    for column in range(model.nv):
        result = np.zeros(model.nv)
        mujoco.mj_mulM(model, data, result, np.eye(model.nv)[column])
        columns.append(result)
    return np.array(columns)


def test_wrong_numbers_are_refused():
    with pytest.raises(ConfigError, match="substeps"):
        TwinPhysics(0)
    with pytest.raises(ConfigError, match="count"):
        made(0)
