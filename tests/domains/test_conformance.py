"""Every registered environment keeps Gymnasium's contract; a new domain is covered without a new test file."""

import gc
import pickle
import weakref

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from a2perf import assets, domains
from a2perf.errors import UserError

domains.register_environments()
EXAMPLES = {environment.id: environment.example for _, environment in domains.all_environments().values()}
IDS = sorted(EXAMPLES)
STEPS = 30


def make(env_id, **kwargs):
    """Makes an environment, or skips if its data or packages are missing."""
    try:
        return gymnasium.make(env_id, disable_env_checker=True, **EXAMPLES[env_id], **kwargs)
    except (UserError, ImportError) as error:
        pytest.skip(f"{env_id} cannot be made here: {str(error).splitlines()[0]}")


@pytest.fixture(autouse=True)
def no_fetching(monkeypatch):
    monkeypatch.setenv(assets.OFFLINE_VARIABLE, "1")


@pytest.fixture(params=IDS)
def env_id(request):
    return request.param


def flat(space, value):
    return np.asarray(gymnasium.spaces.flatten(space, value))


def action_of(env, observation, info):
    """Draws a valid action, by the mask in the observation or in ``info`` if there is one."""
    if isinstance(env.action_space, gymnasium.spaces.Discrete):
        said = {**info, **(observation if isinstance(observation, dict) else {})}
        for key in ("mask", "action_mask", "valid_actions"):
            if key in said and np.size(said[key]) == env.action_space.n:
                return env.action_space.sample(np.asarray(said[key]).astype(np.int8))
    return env.action_space.sample()


def rollout(env, seed, steps=STEPS):
    env.action_space.seed(seed)
    observation, info = env.reset(seed=seed)
    rows = [flat(env.observation_space, observation)]
    outcomes = []
    for _ in range(steps):
        observation, reward, terminated, truncated, info = env.step(action_of(env, observation, info))
        rows.append(flat(env.observation_space, observation))
        outcomes.append((float(reward), terminated, truncated))
        if terminated or truncated:
            observation, info = env.reset()
    return rows, outcomes


def equal(first, second):
    return first[1] == second[1] and all(np.array_equal(a, b) for a, b in zip(first[0], second[0], strict=True))


def test_keeps_the_gymnasium_api(env_id):
    env = make(env_id)
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_two_seeded_copies_give_the_same_episode(env_id):
    first, second = make(env_id), make(env_id)
    assert equal(rollout(first, 3), rollout(second, 3))
    first.close()
    second.close()


def test_the_same_seed_repeats_the_episode_and_another_does_not(env_id):
    env = make(env_id)
    once = rollout(env, 5)
    other = rollout(env, 6)
    assert equal(once, rollout(env, 5))
    assert not equal(once, other)
    env.close()


def test_a_pickled_copy_gives_the_same_episode(env_id):
    env = make(env_id)
    copy = pickle.loads(pickle.dumps(env))
    assert equal(rollout(env, 7, 10), rollout(copy, 7, 10))
    env.close()
    copy.close()


def test_observations_lie_in_their_space(env_id):
    env = make(env_id)
    env.action_space.seed(0)
    observation, info = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    for _ in range(STEPS):
        observation, _, terminated, truncated, info = env.step(action_of(env, observation, info))
        assert env.observation_space.contains(observation)
        if terminated or truncated:
            observation, info = env.reset()
            assert env.observation_space.contains(observation)
    env.close()


def test_a_task_record_round_trips_through_its_spec(env_id):
    env = make(env_id)
    again = gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.observation_space == env.observation_space
    env.close()
    again.close()


def test_a_closed_environment_is_freed(env_id):
    """A cycle of references would keep the arrays of closed environments until the garbage collector runs."""
    env = make(env_id)
    env.reset(seed=0)
    env.close()
    kept = weakref.ref(env.unwrapped)
    gc.disable()
    try:
        del env
        assert kept() is None
    finally:
        gc.enable()


def test_renders_a_picture_where_it_says_so(env_id):
    env = make(env_id)
    modes = env.metadata.get("render_modes", [])
    env.close()
    if "rgb_array" not in modes:
        pytest.skip(f"{env_id} has no rgb_array mode")
    env = make(env_id, render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert picture.dtype == np.uint8
    assert picture.ndim == 3
    assert picture.shape[2] == 3
    assert picture.std() > 1.0
    env.close()
