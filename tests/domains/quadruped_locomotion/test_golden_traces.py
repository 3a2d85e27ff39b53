"""The environment follows traces recorded from the earlier implementation."""

import numpy as np
import pytest

from a2perf.domains.quadruped_locomotion.rules import LocomotionRules
from tests.golden import recorded

TERMS = ("pose", "velocity", "end_effector", "root_pose", "root_velocity")


@pytest.fixture
def pace(make, dog_clip):
    return lambda **kwargs: make(motion_files=[dog_clip("pace")], observation_dtype=np.float64, compat=True, **kwargs)


def errors(env, observation, golden, prefix, actions):
    """Largest errors per step of observations, rewards and reward terms, and the termination flags."""
    rows, rewards, terms, flags = [observation], [], [], []
    for action in actions:
        observation, reward, terminated, _, info = env.step(action)
        rows.append(observation)
        rewards.append(reward)
        terms.append([info["reward_terms"][name] for name in TERMS])
        flags.append(terminated)
    count = len(actions)
    return (
        np.abs(np.array(rows) - golden[prefix + "obs"][: count + 1]).max(axis=1),
        np.abs(np.array(rewards) - golden[prefix + "reward"][:count]),
        np.abs(np.array(terms) - golden[prefix + "terms"][:count]).max(axis=1),
        np.array(flags),
    )


def assert_close_at_first(observations, rewards, terms):
    assert observations[:11].max() < 1e-9
    assert observations[11:21].max() < 1e-6
    assert rewards[:10].max() < 1e-9
    assert rewards[10:20].max() < 1e-6
    assert terms[:10].max() < 1e-9


@pytest.mark.parametrize("physics_loop", ["python", "native"])
@pytest.mark.parametrize(("kind", "steps"), [("sin", 60), ("pol", 100)])
def test_sinusoidal_and_policy_actions_from_phase_zero(pace, golden, physics_loop, kind, steps):
    env = pace(physics_loop=physics_loop)
    observation, _ = env.reset(seed=7, options={"phase": 0.0})
    observations, rewards, terms, flags = errors(env, observation, golden, f"{kind}_", golden[f"{kind}_action"][:steps])
    assert_close_at_first(observations, rewards, terms)
    if kind == "sin":
        assert np.array_equal(flags, golden["sin_terminated"][:steps])
    else:
        assert observations.max() < 1e-4
        assert rewards.max() < 1e-5
        assert not flags.any()


def test_first_observation_start_time_and_warm_up_of_32_seeds(pace, golden):
    env = pace()
    for seed in range(32):
        observation, info = env.reset(seed=seed)
        warm_up = bool(golden["seed_warmup"][seed])
        assert env.reference.warm_up == warm_up
        offset = golden["seed_motion_time_offset"][seed] - (0.25 if warm_up else 0.0)
        assert info["motion_time"] == pytest.approx(offset, abs=1e-12)
        assert np.abs(observation - golden["seed_reset_obs"][seed]).max() < 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_seeded_episodes_through_the_public_interface(pace, golden, seed):
    env = pace()
    observation, _ = env.reset(seed=seed)
    prefix = f"seed{seed}_sin_"
    observations, rewards, terms, flags = errors(env, observation, golden, prefix, golden["sin_action"][:40])
    assert_close_at_first(observations, rewards, terms)
    assert np.array_equal(flags, golden[prefix + "terminated"][:40])


def test_randomised_dynamics(pace, golden):
    env = pace(mode="train")
    given = {name[len("rand_param_") :]: golden[name] for name in golden if name.startswith("rand_param_")}
    observation, _ = env.reset(seed=7, options={"phase": 0.0, "randomize": given})
    links = [env.link_dynamics(link) for link in range(-1, 16)]
    assert np.allclose([mass for mass, _, _ in links], golden["rand_mass"], rtol=1e-14)
    assert np.allclose([inertia for _, inertia, _ in links], golden["rand_inertia"], rtol=1e-12)
    assert np.allclose([friction for _, _, friction in links], golden["rand_friction"], rtol=1e-14)
    assert env.latency == pytest.approx(float(golden["rand_latency"]), rel=1e-14)
    observations, rewards, terms, _ = errors(env, observation, golden, "rand_", golden["sin_action"][:30])
    assert_close_at_first(observations, rewards, terms)


def test_bounds_of_the_earlier_implementation(pace, golden):
    env = pace()
    assert np.array_equal(env.observation_space.low, golden["obs_low"])
    assert np.array_equal(env.observation_space.high, golden["obs_high"])
    assert np.array_equal(env.action_space.low, golden["act_low"])
    assert np.array_equal(env.action_space.high, golden["act_high"])


def test_curriculum():
    for parallel, total, limit in recorded.arrays("quadruped_rules")["curriculum"]:
        assert LocomotionRules().episode_limit(True, int(total), int(parallel)) == limit
