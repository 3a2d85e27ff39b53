"""The TF-Agents environment over a Gymnasium one, alone and inside TF-Agents' own machinery."""

from __future__ import annotations

import functools
import os
from typing import Any

import gymnasium
import numpy as np
import pytest

from a2perf.domains.tfa import suite_gym
from a2perf.errors import ConfigError, UserError
from tests.commands import run_python
from tests.domains.tfa.toy_environment import BOTH, CONTINUE, TERMINATE, TRUNCATE, ToyEnvironment

pytestmark = pytest.mark.group("tf_agents")

FIRST, MID, LAST = 0, 1, 2


def _action(ending: int = CONTINUE, force: float = 0.5) -> dict[str, Any]:
    return {"ending": np.array(ending), "force": np.array([force], np.float32)}


def _wrapped(**given: Any) -> Any:
    return suite_gym.wrap_env(ToyEnvironment(), **given)


def test_it_chooses_keras_2_itself() -> None:
    # in a separate process: another test may have imported TensorFlow before
    code = (
        "from tests.domains.tfa.test_py_environment import _wrapped; _wrapped()\n"
        "import os, tensorflow as tf; print(os.environ['TF_USE_LEGACY_KERAS'], tf.keras.layers.Layer.__module__)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
    done = run_python(code, check=True, env=environment)
    assert done.stdout.split("\n")[-2].startswith("1 tf_keras")


def test_specs_are_nested_as_the_spaces_are() -> None:
    env = _wrapped(spec_dtype_map={gymnasium.spaces.Box: np.float32})
    observation, action = env.observation_spec(), env.action_spec()
    assert observation["draw"].dtype == np.float32
    assert (observation["count"].dtype, observation["count"].maximum) == (np.int64, 99)
    assert observation["pair"][0].shape == (3,)
    assert observation["pair"][1].maximum.tolist() == [1, 2]
    assert (action["ending"].maximum, action["force"].minimum) == (3, -1.0)
    from tf_agents.environments.utils import validate_py_environment

    validate_py_environment(env, episodes=20)


@pytest.mark.parametrize(
    ("ending", "step_type", "discount"),
    [(CONTINUE, MID, 0.9), (TERMINATE, LAST, 0.0), (TRUNCATE, LAST, 0.9), (BOTH, LAST, 0.0)],
)
def test_only_termination_takes_the_discount_away(ending: int, step_type: int, discount: float) -> None:
    env = _wrapped(discount=0.9)
    assert env.reset().step_type == FIRST
    step = env.step(_action(ending, force=0.25))
    assert (step.step_type, step.reward, step.discount) == (step_type, np.float32(0.25), np.float32(discount))


def test_time_limit_ends_an_episode_with_its_discount() -> None:
    env = _wrapped(max_episode_steps=3)
    env.reset()
    steps = [env.step(_action()) for _ in range(4)]
    assert [int(step.step_type) for step in steps] == [MID, MID, LAST, FIRST]
    assert steps[2].discount == 1.0
    limits: list[int] = []
    _wrapped(max_episode_steps=7, time_limit_wrapper=lambda env, steps: limits.append(steps) or env)
    assert limits == [7]


def test_step_after_the_end_starts_the_next_episode_and_ignores_the_action() -> None:
    env = _wrapped()
    assert env.step({"wrong": 1}).step_type == FIRST
    assert env.step(_action(TERMINATE)).step_type == LAST
    assert env.step({"wrong": 1}).step_type == FIRST


def test_without_automatic_reset_a_step_after_the_end_is_an_error() -> None:
    env = _wrapped(auto_reset=False)
    env.reset()
    env.step(_action(TERMINATE))
    with pytest.raises(UserError, match="the episode is over"):
        env.step(_action())
    assert env.reset().step_type == FIRST


def test_seed_holds_for_the_next_episode_and_the_generator_goes_on() -> None:
    first, second = _wrapped(), _wrapped()
    draws = []
    for env in (first, second):
        env.seed(11)
        draws.append([env.reset().observation["draw"].tolist() for _ in range(3)])
    assert draws[0] == draws[1]
    assert len({tuple(draw) for draw in draws[0]}) == 3
    expected, _ = ToyEnvironment().reset(seed=11)
    assert draws[0][0] == expected["draw"].tolist()


def test_info_and_the_gymnasium_environment_can_be_reached_and_observations_are_copies() -> None:
    env = _wrapped()
    env.seed(5)
    before = env.reset().observation["draw"]
    kept = before.copy()
    assert env.get_info() == {"seed": 5}
    env.step(_action())
    assert env.get_info() == {"count": 1}
    assert before.tolist() == kept.tolist()
    assert isinstance(env.gym, ToyEnvironment)
    assert env.metadata == ToyEnvironment.metadata


def test_rendering_follows_the_mode_that_the_environment_was_made_with() -> None:
    env = suite_gym.wrap_env(ToyEnvironment("rgb_array"), render_kwargs={"height": 8})
    env.reset()
    assert env.render().shape == (8, 6, 3)
    with pytest.raises(UserError, match="render_mode='rgb_array', not 'human'"):
        env.render("human")
    with pytest.raises(UserError, match="give render_mode='rgb_array' to create_domain"):
        _wrapped().render()


def test_wrong_action_is_named() -> None:
    env = _wrapped()
    env.reset()
    with pytest.raises(UserError, match=r"action/force has the shape \(1,\)"):
        env.step({"ending": np.array(0), "force": np.zeros(2)})


def test_load_takes_the_registered_time_limit_or_another_and_names_what_is_not_registered() -> None:
    assert suite_gym.load("CartPole-v1").duration == 500
    assert suite_gym.load("CartPole-v1", max_episode_steps=700).duration == 700
    assert type(suite_gym.load("CartPole-v1", max_episode_steps=0)) is not type(suite_gym.load("CartPole-v1"))
    with pytest.raises(ConfigError, match="'CartPoole-v1' is not a known environment"):
        suite_gym.load("CartPoole-v1")
    with pytest.raises(ConfigError, match=r"cannot be made with .*colour"):
        suite_gym.load("CartPole-v1", gym_kwargs={"colour": 1})


def test_create_domain_gives_it_when_asked_or_when_a_wrapper_of_tf_agents_does() -> None:
    from tf_agents.environments import py_environment, wrappers

    given = {"env_name": "CircuitTraining-ToyMacro-v0"}
    asked = suite_gym.create_domain(**given, framework="tf_agents")
    assert isinstance(asked, py_environment.PyEnvironment)
    step = asked.reset()
    assert step.observation["mask"].sum() == 96
    wrapped = suite_gym.create_domain(**given, env_wrappers=[functools.partial(wrappers.RunStats)])
    assert isinstance(wrapped, wrappers.RunStats)
    assert isinstance(suite_gym.create_domain(**given), gymnasium.Env)
    with pytest.raises(ConfigError, match="but RunStats wraps one of TF-Agents"):
        suite_gym.create_domain(**given, framework="gymnasium", env_wrappers=[wrappers.RunStats])


def test_fractional_actions_of_a_domain_are_clipped() -> None:
    def after(scale: float) -> Any:
        env = suite_gym.create_domain("QuadrupedLocomotion-SyntheticTrot-v0", framework="tf_agents", mode="test")
        env.seed(4)
        env.reset()
        highest = env.action_spec().maximum * np.ones(12, np.float32)
        observation = env.step(highest * scale).observation
        env.close()
        return observation

    assert after(1.0).tolist() == after(3.0).tolist()


def test_domain_runs_in_parallel_and_in_tensorflow() -> None:
    from tf_agents.environments import parallel_py_environment, tf_py_environment
    from tf_agents.system import system_multiprocessing

    system_multiprocessing.enable_interactive_mode()  # as ``handle_main`` does in a program
    make = functools.partial(suite_gym.create_domain, "CircuitTraining-ToyMacro-v0", framework="tf_agents")
    alone = make().reset().observation
    valid = int(alone["mask"].argmax())
    both = parallel_py_environment.ParallelPyEnvironment([make, make])
    env = tf_py_environment.TFPyEnvironment(both)
    first = env.reset()
    step = env.step(np.array([valid, valid]))
    assert {key: part.shape[1:] for key, part in first.observation.items()} == {k: v.shape for k, v in alone.items()}
    assert first.observation["mask"].numpy().tolist() == [alone["mask"].tolist()] * 2
    assert step.observation["is_node_placed"].numpy().sum(axis=1).tolist() == [alone["is_node_placed"].sum() + 1] * 2
    both.close()
