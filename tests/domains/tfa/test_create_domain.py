"""``create_domain`` without TensorFlow: environments, imports, and errors about missing packages."""

from __future__ import annotations

import os
from pathlib import Path

import gin
import gymnasium
import pytest

from a2perf.domains.tfa.suite_gym import create_domain, wrap_env
from a2perf.errors import ConfigError
from tests.commands import run_python

ENV_ID = "CircuitTraining-ToyMacro-v0"


@pytest.fixture(autouse=True)
def _no_configuration_left() -> None:
    gin.clear_config()


def _python(code: str, folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
    done = run_python(code, cwd=folder, check=True, env=environment)
    return done.stdout


def test_gymnasium_environment_needs_no_tensorflow(tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules["tensorflow"] = sys.modules["tf_agents"] = None
from a2perf.domains.tfa import suite_gym
assert "gymnasium" not in sys.modules
env = suite_gym.create_domain({ENV_ID!r}, gym_env_wrappers=[lambda e: e], env_wrappers=(lambda e: e,))
env.reset(seed=1)
import gymnasium
print(isinstance(env, gymnasium.Env), "TF_USE_LEGACY_KERAS" in __import__("os").environ)
"""
    assert _python(code, tmp_path).split() == ["True", "False"]


def test_lacking_tensorflow_is_said_with_the_mend(tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules["tf_agents"] = None
from a2perf.domains.tfa import suite_gym
from a2perf.errors import MissingDependency
for make in (lambda: suite_gym.create_domain({ENV_ID!r}, framework="tf_agents"), lambda: suite_gym.load("CartPole-v1")):
    try:
        make()
    except MissingDependency as error:
        print(error)
"""
    said = _python(code, tmp_path)
    assert said.count("TF-Agents needs the package 'tf_agents") == 2
    assert said.count("--no-deps tf-agents==0.19.0") == 2


def test_wrappers_are_applied_in_order() -> None:
    order: list[str] = []

    def named(name: str) -> object:
        return lambda env: order.append(name) or env

    env = create_domain(ENV_ID, gym_env_wrappers=[named("first")], env_wrappers=[named("last")])
    assert isinstance(env, gymnasium.Env)
    assert order == ["first", "last"]


def test_gin_names_are_those_of_the_earlier_platform() -> None:
    gin.parse_config(
        f"""
        suite_gym.create_domain.env_name = {ENV_ID!r}
        suite_gym.load.discount = 0.5
        suite_gym.wrap_env.auto_reset = False
        """
    )
    assert create_domain().spec.id == ENV_ID


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"framework": "tf-agents"}, "framework='tf-agents'; did you mean 'tf_agents'"),
        ({"env_name": "CircuitTraining-ToyMacro-v7"}, "is not a known environment"),
    ],
)
def test_what_does_not_exist_is_named(given: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create_domain(**{"env_name": ENV_ID, **given})


def test_impossible_discount_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"discount of 1\.5"):
        wrap_env(gymnasium.make("CartPole-v1"), discount=1.5)
