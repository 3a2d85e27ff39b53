"""Every registered environment keeps Gymnasium's contract; a new domain is covered without a new test file."""

import gc
import importlib
import pickle
import weakref

import gin
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
    """Returns observations and outcomes of drawn valid actions; every observation lies in its space."""
    env.action_space.seed(seed)
    observation, info = env.reset(seed=seed)
    observations, outcomes = [observation], []
    for _ in range(steps):
        observation, reward, terminated, truncated, info = env.step(action_of(env, observation, info))
        observations.append(observation)
        outcomes.append((float(reward), terminated, truncated))
        if terminated or truncated:
            observation, info = env.reset()
            observations.append(observation)
    assert all(env.observation_space.contains(one) for one in observations)
    return [flat(env.observation_space, one) for one in observations], outcomes


def equal(first, second):
    return first[1] == second[1] and all(np.array_equal(a, b) for a, b in zip(first[0], second[0], strict=True))


def test_keeps_the_gymnasium_api(env_id):
    env = make(env_id)
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_the_same_seed_repeats_the_episode_also_in_a_copy_and_another_does_not(env_id):
    env, second = make(env_id), make(env_id)
    copy = pickle.loads(pickle.dumps(env))
    once, other = rollout(env, 5), rollout(env, 6)
    assert equal(once, rollout(env, 5))
    assert equal(once, rollout(second, 5))
    assert equal(once, rollout(copy, 5))
    assert not equal(once, other)
    again = gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.observation_space == env.observation_space
    for one in (env, second, copy, again):
        one.close()


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


# --- the length of episodes


def idle(env, observation, info):
    """Returns an action of zeros, the first valid cell, or for other spaces a drawn one."""
    if isinstance(env.action_space, gymnasium.spaces.Box):
        return np.zeros(env.action_space.shape, env.action_space.dtype)
    if isinstance(env.action_space, gymnasium.spaces.Discrete):
        valid = observation.get("mask", [True]) if isinstance(observation, dict) else [True]
        return int(np.flatnonzero(valid)[0])
    return action_of(env, observation, info)


def idle_episode(env):
    """Plays an episode and returns rewards and flags."""
    env.action_space.seed(0)
    observation, info = env.reset(seed=0)
    rows = []
    while not rows or not any(rows[-1][1:]):
        observation, reward, *flags, info = env.step(idle(env, observation, info))
        rows.append((float(reward), *map(bool, flags)))
    env.close()
    return rows


def of_class(env_id, **kwargs):
    """Makes an environment as Gymnasium does, but without wrappers."""
    spec = gymnasium.spec(env_id)
    module, _, builder = spec.entry_point.partition(":")
    return getattr(importlib.import_module(module), builder)(**{**spec.kwargs, **EXAMPLES[env_id], **kwargs})


LENGTHS = {
    "web_navigation": lambda env: env.step_limit,
    "quadruped_locomotion": lambda env: env.rules.episode_limit(False, 0, 1),
    "circuit_training": lambda env: getattr(env, "_to_place", 1),
}


def test_the_spec_has_the_length_of_episodes_and_make_does_not_enforce_it(env_id):
    env, spec = make(env_id), gymnasium.spec(env_id)
    env.reset(seed=0)
    assert spec.max_episode_steps == LENGTHS[domains.find_environment(env_id)[0].name](env.unwrapped)
    episode = idle_episode(of_class(env_id))
    assert len(episode) <= spec.max_episode_steps
    assert idle_episode(env) == episode
    read_again = gymnasium.envs.registration.EnvSpec.from_json(spec.to_json())
    assert idle_episode(gymnasium.make(read_again, **EXAMPLES[env_id])) == episode
    assert idle_episode(gymnasium.make(spec, **EXAMPLES[env_id])) == episode


@pytest.mark.parametrize(
    ("env_id", "longer", "steps"),
    [
        ("WebNavigation-Difficulty-01-v0", {"step_limit": 40}, 40),
        ("WebNavigation-Composed-01-v0", {"step_limit": 70}, 70),
        ("CircuitTraining-Generated-v0", {"num_macros": 60}, 60),
    ],
)
def test_an_episode_that_an_argument_makes_longer_is_not_cut(env_id, longer, steps):
    episode = idle_episode(make(env_id, **longer))
    assert len(episode) == steps > gymnasium.spec(env_id).max_episode_steps
    assert episode == idle_episode(of_class(env_id, **longer))


@pytest.mark.parametrize(
    ("env_id", "earlier"),
    [
        ("WebNavigation-Difficulty-02-v0", {"use_legacy_step": True}),
        ("WebNavigation-Difficulty-02-v0", {"compat": True}),
        ("CircuitTraining-ToyMacro-v0", {"use_legacy_step": True}),
        ("CircuitTraining-ToyMacro-v0", {"compat": True}),
        ("QuadrupedLocomotion-SyntheticTrot-v1", {"compat": True, "enable_randomizer": False}),
    ],
)
def test_steps_of_the_earlier_implementation_pass_through_gymnasium(env_id, earlier):
    assert idle_episode(make(env_id, **earlier)) == idle_episode(of_class(env_id, **earlier))


def test_a_vector_environment_takes_the_length_from_its_arguments_and_an_alias_from_its_id():
    for name, (_, environment) in domains.all_environments().items():
        assert gymnasium.spec(name).max_episode_steps == environment.max_episode_steps > 0
    env = gymnasium.make_vec("WebNavigation-Difficulty-01-v0", num_envs=2, step_limit=30)
    env.reset(seed=0)
    ends = [int(np.sum(env.step(np.zeros(2, int))[3])) for _ in range(30)]
    assert ends == [0] * 29 + [2]
    env.close()


@pytest.mark.parametrize(
    ("env_id", "bindings", "given", "seen"),
    [
        (
            "WebNavigation-v0",
            ["WebNavigationEnv.step_limit = 7", "WebNavigationEnv.num_websites = 2"],
            {"difficulty": 1, "num_websites": 3},
            lambda env: (env.step_limit, len(env.designs)) == (7, 3),
        ),
        (
            "WebNavigation-Composed-01-v0",
            ["ComposedWebNavigationEnv.order = 'reversed'", "ComposedWebNavigationEnv.subtasks = 3"],
            {"difficulty": [1, 2], "num_websites": 5, "subtasks": 4},
            lambda env: (env.order, env.subtasks, env.step_limit, len(env.designs)) == ("reversed", 4, 100, 10),
        ),
        (
            "QuadrupedLocomotion-SyntheticTrot-v1",
            ["build_imitation_env.mode = 'test'", "build_imitation_env.clip = 'synthetic_pace'"],
            {"clip": "synthetic_spin"},
            lambda env: (env.episode_limit, env.clips[0].name) == (600, "synthetic_spin"),
        ),
    ],
)
def test_gin_fills_in_what_is_not_given(env_id, bindings, given, seen):
    gymnasium.make(env_id, **EXAMPLES[env_id]).close()  # loads the module, and with it the names
    with gin.unlock_config():
        gin.parse_config(bindings)
    try:
        env = of_class(env_id, **given)
        assert seen(env)
        env.close()
    finally:
        gin.clear_config()
