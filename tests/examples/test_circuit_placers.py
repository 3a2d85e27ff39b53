"""The two placers of circuits: they keep to the mask and do better than chance."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from a2perf.domains.circuit_training.environment import CircuitEnv
from a2perf.records import FailureKind
from a2perf.submission.evaluator.playing.rollouts import rollout
from a2perf.submission.evaluator.process.failures import ParticipantFailure

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def load(monkeypatch):
    """Imports modules of a submission's folder as its own process would."""

    def load(folder, *names):
        monkeypatch.syspath_prepend(str(EXAMPLES / folder))
        for name in ("inference", "train", *names):
            monkeypatch.delitem(sys.modules, name, raising=False)
        return [importlib.import_module(name) for name in names]

    return load


class Agent:
    """A submission's functions as a policy."""

    def __init__(self, inference, env):
        self.inference, self.policy = inference, inference.load_policy(env)

    def infer(self, observation):
        prepared = self.inference.preprocess_observation(observation)
        action = self.inference.infer_once(self.policy, prepared)
        return type("Answer", (), {"action": action})


def chance(env, episodes=5):
    generator = np.random.default_rng(0)

    class Random:
        def infer(self, observation):
            return type("Answer", (), {"action": generator.choice(np.flatnonzero(observation["mask"]))})

    return np.mean([rollout(env, Random(), index=0, seed=0).episode_return for _ in range(episodes)])


def test_the_greedy_placer_beats_chance_on_a_generated_design(load):
    (inference,) = load("greedy_placer", "inference")
    env = CircuitEnv(design="generated", num_macros=40)
    episode = rollout(env, Agent(inference, env), index=0, seed=0)
    assert episode.length == 40
    assert episode.episode_return > chance(env) + 0.1


def test_the_annealing_placer_beats_chance_and_plays_what_it_kept(load, monkeypatch, tmp_path):
    monkeypatch.setenv("A2PERF_ARTIFACTS", str(tmp_path))
    monkeypatch.setenv("ROOT_DIR", str(tmp_path))
    monkeypatch.setenv("A2PERF_ENV_ID", "CircuitTraining-Generated-v0")
    monkeypatch.setenv("A2PERF_ENV_KWARGS", json.dumps({"num_macros": 20, "seed": 810001, "utilization": 0.55}))
    train, inference = load("annealing_placer", "train", "inference")
    train.train(max_moves="2000", time_budget_s="600", replace_every="500")
    assert set(json.loads((tmp_path / "placement.json").read_text())) == {f"M{k}" for k in range(20)}
    rows = (tmp_path / "progress.csv").read_text().splitlines()
    assert len(rows) == 5
    env = CircuitEnv(design="generated", num_macros=20, seed=810001, utilization=0.55)
    episode = rollout(env, Agent(inference, env), index=0, seed=0)
    assert episode.episode_return == pytest.approx(-float(rows[-1].split(",")[2]), abs=1e-4)
    assert episode.episode_return > chance(env) + 0.02


def test_an_action_outside_the_mask_is_the_participants_failure():
    env = CircuitEnv(design="toy_macro_stdcell")

    class Wrong:
        def infer(self, observation):
            return type("Answer", (), {"action": int(np.flatnonzero(observation["mask"] == 0)[0])})

    with pytest.raises(ParticipantFailure) as caught:
        rollout(env, Wrong(), index=0, seed=0)
    assert caught.value.failure.kind == FailureKind.BAD_OUTPUT
    assert "infeasible" in caught.value.failure.message
