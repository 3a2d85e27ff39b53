"""Environments that others wrote in their own way: what can be played is played, all else is a condition or refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import a2perf
from a2perf.errors import ConfigError
from a2perf.runs.bundles.inventory import read_manifest
from tests.commands import bindings, call_a2perf, flags
from tests.installed_package import environment_package

PACKAGE = '''
import decimal, random, time
PLANETS = 9 * [1]
import gymnasium, numpy as np
from gymnasium import spaces

class Mission(spaces.Space):
    """Elements are plain text, as in MiniGrid."""
    def __init__(self): super().__init__(dtype=str)
    def sample(self, mask=None, probability=None): return f"go to {self.np_random.integers(9)}"
    def contains(self, x): return isinstance(x, str)

class Things(spaces.Space):
    def sample(self, mask=None, probability=None): return object()
    def contains(self, x): return True

class Base(gymnasium.Env):
    observation_space, action_space, last = spaces.Box(-10, 10, (2,)), spaces.Discrete(2), 5
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.luck = 0, self.np_random.random()
        return self.seen(), {}
    def seen(self): return np.full(2, self.t, np.float32)
    def pay(self): return self.luck
    def over(self): return self.t >= self.last
    def cut(self): return False
    def info(self): return {}
    def step(self, action):
        self.t += 1
        return self.seen(), self.pay(), self.over(), self.cut(), self.info()

class Text(Base):
    observation_space = spaces.Dict(mission=Mission(), place=spaces.Tuple([spaces.Discrete(9), spaces.Text(3)]))
    def seen(self): return {"mission": f"step {self.t}", "place": (self.t, "ab")}
class Numbered(Base):
    observation_space = spaces.Dict({0: spaces.Discrete(9), 1: spaces.Box(0, 9, (1,))})
    def seen(self): return {0: self.t, 1: np.full(1, self.t, np.float32)}
class Mixed(Base):
    observation_space = spaces.Dict([(0, spaces.Discrete(9)), ("b", spaces.Discrete(9))])
    def seen(self): return {0: self.t, "b": self.t}
class Graph(Base):
    observation_space = spaces.Graph(spaces.Box(-1, 1, (2,)), None)
    def seen(self): return spaces.GraphInstance(np.zeros((2, 2), np.float32), None, None)
class NumpyEnds(Base):
    def over(self): return np.bool_(self.t >= self.last)
    def cut(self): return np.bool_(False)
class IntegerEnds(Base):
    def over(self): return int(self.t >= self.last)
    def cut(self): return 0
class Decimals(Base):
    def pay(self): return decimal.Decimal("0.5")
class Outside(Base):
    def seen(self): return np.full(2, 11 + self.t, np.float32)
class Shared(Base):
    def __init__(self): self.memory = np.zeros(2, np.float32)
    def seen(self): self.memory[:] = self.t; return self.memory
class Clock(Base):
    def info(self): return {"at": time.time(), "nan": float("nan"), "self": self}
class Endless(Base):
    def over(self): return False
class Remembers(Base):
    played = 0
    def reset(self, **given):
        self.played += 1
        return super().reset(**given)
    def pay(self): return float(self.played)
class Chance(Base):
    def pay(self): return random.random()
class Vector(Base):
    def pay(self): return np.array([1.0, 2.0])
class NaN(Base):
    def pay(self): return float("nan") if self.t == 3 else 0.0
class OldApi(Base):
    def reset(self, **given): return super().reset(**given)[0]
class FourValues(Base):
    def step(self, action): return super().step(action)[:4]
class NoInfo(Base):
    def info(self): return None
class Silent(Base):
    def __init__(self): assert len(PLANETS) == 8
class Objects(Base):
    observation_space = Things()
class NumberedActions(Base):
    action_space = spaces.Dict({0: spaces.Discrete(2)})

for kind in list(Base.__subclasses__()):
    gymnasium.register(f"{kind.__name__}-v0", kind)
gymnasium.register("Unlimited-v0", Endless, max_episode_steps=-1)
gymnasium.register("Dice-v0", Chance, nondeterministic=True)
gymnasium.register("odd/Plain-v0", Base)
gymnasium.register("odd/Unversioned", Base)
gymnasium.register("Unversioned", Base)
'''
PLAYED = {
    "Text-v0": "",
    "Numbered-v0": "",
    "Mixed-v0": "",
    "Graph-v0": "",
    "NumpyEnds-v0": "checker says",
    "Decimals-v0": "",
    "IntegerEnds-v0": "checker says",
    "Outside-v0": "checker says",
    "Shared-v0": "checker says",
    "Clock-v0": "checker says",
    "Remembers-v0": "depends on the episodes before it",
    "Dice-v0": "registered as nondeterministic",
    "odd/Plain-v0": "",
    "odd/Unversioned": "",
    "Unversioned": "",
}
"""The ids that are played, with a part of the condition that stands beside their scores."""


@pytest.fixture(autouse=True)
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield from environment_package(tmp_path, monkeypatch, "odd_worlds", PACKAGE)


def evaluate(env_id: str, root: Path, **given: Any) -> Any:
    few = ["Submission.num_inference_steps = 5", "Submission.num_warmup_steps = 0"]
    given = {"episodes": 2, "progress": False, "allow_weaker": True, "bindings": few, **given}
    return a2perf.evaluate(constant, env=f"odd_worlds:{env_id}", root_dir=root, **given)


def constant(observation: Any) -> int:
    return 1


def bare_returns(env_id: str, seeds: list[int]) -> list[float]:
    returns = []
    for seed in seeds:
        env = gymnasium.make(env_id, disable_env_checker=True)
        env.reset(seed=seed)
        over, total = False, 0.0
        while not over:
            _, reward, terminated, truncated, _ = env.step(1)
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return returns


@pytest.mark.parametrize("env_id", PLAYED)
def test_it_is_played_and_what_the_checker_says_is_a_condition(env_id: str, tmp_path: Path) -> None:
    result = evaluate(env_id, tmp_path / "run")
    if env_id not in ("Remembers-v0", "Dice-v0"):
        played = json.loads((tmp_path / "run" / "inference" / "metrics" / "rollouts.json").read_bytes())["episodes"]
        assert result.returns.tolist() == bare_returns(env_id, [episode["seed"] for episode in played])
    said = " ".join(read_manifest(tmp_path / "run" / "inference").warnings)
    assert PLAYED[env_id] in said
    assert PLAYED[env_id] or "checker says" not in said
    if PLAYED[env_id]:
        assert any(
            PLAYED[env_id] in text for group in a2perf.score(tmp_path / "run").groups for text in group.conditions
        )


def test_an_observation_with_numbered_parts_reaches_the_policy_as_it_is(tmp_path: Path) -> None:
    def policy(observation: Any) -> int:
        assert set(observation) == {0, 1}
        return int(observation[1][0] == observation[0])

    few = ["Submission.num_inference_steps = 5", "Submission.num_warmup_steps = 0"]
    given: Any = {"episodes": 1, "progress": False, "allow_weaker": True, "bindings": few}
    assert len(a2perf.evaluate(policy, env="odd_worlds:Numbered-v0", root_dir=tmp_path / "run", **given).returns) == 1


@pytest.mark.parametrize(
    ("env_id", "text", "hint"),
    [
        ("Chance-v0", "the same seed and actions give another episode in a new copy", "self.np_random"),
        ("Vector-v0", "in step 1 of the episode with seed 0: its reward is an array of shape (2,)", "one number"),
        ("NaN-v0", "in step 3 of the episode with seed 0: its reward is nan", "finite"),
        ("OldApi-v0", "in reset(seed=0): it returned a ndarray, not observation and info", "earlier Gym API"),
        ("FourValues-v0", "in step 1 of the episode with seed 0: it did not return observation, reward", "wrap"),
        ("NoInfo-v0", "its info is a NoneType, not a dictionary", "return a dictionary"),
        ("Silent-v0", "cannot be made: AssertionError: in odd_worlds.py, line", "None"),
        ("Objects-v0", "observation_space of Objects-v0 is a Things, and an element of it cannot be sent", "arrays"),
        ("NumberedActions-v0", "the action_space of NumberedActions-v0 has the key 0", "text, numbers"),
    ],
)
def test_what_cannot_be_played_is_refused_before_anything_runs(
    env_id: str, text: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as refused:
        evaluate(env_id, tmp_path / "run")
    assert text in refused.value.message
    assert hint in str(refused.value.hint)
    assert not (tmp_path / "run" / "inference").exists()


def test_a_limit_that_gymnasium_ignores_holds(tmp_path: Path) -> None:
    result = evaluate("Unlimited-v0", tmp_path / "run", episodes=1)
    assert result.returns.size == 1
    (group,) = a2perf.score(tmp_path / "run").groups
    assert "1 of 1 episodes were truncated after 10,000 steps" in group.conditions
    assert '"length":10000,' in (tmp_path / "run" / "inference" / "metrics" / "rollouts.json").read_text()


@pytest.mark.parametrize("env_id", ["Text-v0", "Numbered-v0", "odd/Unversioned", "Unversioned"])
def test_the_command_line_plays_and_reproduces_it(env_id: str, minimal: Path, tmp_path: Path) -> None:
    (minimal / "inference.py").write_text(
        "def load_policy(env, **given):\n    env.action_space\n"
        "def preprocess_observation(observation):\n    return observation\n"
        "def infer_once(policy, observation):\n    return 1\n"
    )
    name = f"odd_worlds:{env_id}"
    numbers = ("inference_steps = 5", "warmup_steps = 0", "inference_episodes = 2")
    few = bindings(*(f"Submission.num_{number}" for number in numbers))
    few += ["--gin-config", "inference.gin"]
    for words in (
        ("run", "--submission", str(minimal), "--root-dir", "runs/a", "--env-id", name, *few),
        ("score", "runs/a"),
        ("reproduce", "runs/a", "--submission", str(minimal), "--fail-on", "unchecked", "--trust-bundle"),
    ):
        said = call_a2perf(*words, check=True)
    assert "CONFIRMED (bit-equal)" in said.out


def test_a_package_that_fails_while_it_is_imported_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "packages" / "broken_worlds.py").write_text("raise RuntimeError('no licence')\n")
    with pytest.raises(ConfigError, match="broken_worlds cannot be imported: RuntimeError: no licence"):
        a2perf.evaluate(constant, env="broken_worlds:Any-v0", root_dir=tmp_path / "run")


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "CliffWalking-v1", "odd_worlds:odd/Plain-v0"])
def test_the_template_trains_on_it_and_its_policy_is_evaluated(env_id: str, tmp_path: Path) -> None:
    mine = flags(submission="mine", env_id=env_id, root_dir="runs/mine", allow_weaker=True)
    for words in (
        ("init", "mine", "--task", env_id),
        ("run", *mine, *flags(gin_config="training.gin", participant_args="episodes=40")),
        ("run", *mine, *flags(gin_config="inference.gin", gin_bindings="Submission.num_inference_steps = 5")),
    ):
        call_a2perf(*words, check=True)
    assert a2perf.read_run("runs/mine/inference").mean_return is not None


def test_an_object_in_the_place_of_an_id_is_answered_by_how_to_register_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="given by its id, not as a TimeLimit") as refused:
        a2perf.evaluate(constant, env=gymnasium.make("CartPole-v1"), root_dir=tmp_path / "run")  # type: ignore[call-overload]
    assert "gymnasium.register(" in str(refused.value.hint)


def test_train_takes_the_arguments_of_evaluate(minimal: Path, tmp_path: Path) -> None:
    given: Any = {"env": "odd_worlds:odd/Plain-v0", "root_dir": tmp_path / "run", "allow_weaker": True}
    assert a2perf.train(minimal, **given).task == "odd/Plain-v0"
    with pytest.raises(ConfigError, match="train was given task=None and env=None"):
        a2perf.train(minimal)
