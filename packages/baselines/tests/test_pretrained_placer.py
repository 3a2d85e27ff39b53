"""The pre-trained placer: its shipped policy places unknown designs, and fine-tuning leaves what inference replays."""

import csv
import importlib
import json
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import a2perf  # noqa: F401
from a2perf.submission.checking.trial import missing_files
from a2perf.submission.evaluator.playing.rollouts import rollout
from a2perf.submission.participant.signatures import INFER_ONCE, LOAD_POLICY, PREPROCESS, TRAIN, find

pytest.importorskip("numba", reason="needs the extra circuit-training")
pytest.importorskip("a2perf_placement", reason="needs the distribution a2perf-placement")

FOLDER = Path(__file__).parents[1] / "examples" / "pretrained_placer"
# neither a training nor a validation design of the shipped weights
UNSEEN = {"num_macros": 16, "seed": 77, "utilization": 0.6}


@pytest.fixture
def load(monkeypatch, tmp_path):
    """Imports modules of the submission as its own process would; ``ROOT_DIR`` is empty at first."""
    monkeypatch.setenv("ROOT_DIR", str(tmp_path))

    def load(name, folder=FOLDER):
        monkeypatch.syspath_prepend(str(folder))
        for module in ("inference", "train"):
            monkeypatch.delitem(sys.modules, module, raising=False)
        return importlib.import_module(name)

    return load


class Agent:
    """A submission's functions as a policy."""

    def __init__(self, inference, policy):
        self.inference, self.policy = inference, policy

    def infer(self, observation):
        action = self.inference.infer_once(self.policy, self.inference.preprocess_observation(observation))
        return type("Answer", (), {"action": action})


@pytest.fixture(scope="module")
def env():
    made = gymnasium.make("CircuitTraining-Generated-v0", disable_env_checker=True, **UNSEEN)
    yield made
    made.close()


def test_the_folder_keeps_the_contract(load):
    assert missing_files(FOLDER) == []
    assert find(load("train"), TRAIN)
    inference = load("inference")
    assert all(find(inference, role) for role in (LOAD_POLICY, PREPROCESS, INFER_ONCE))


def test_the_shipped_policy_beats_the_greedy_placer_on_an_unseen_design_and_repeats_itself(load, env):
    inference = load("inference")
    policy = inference.load_policy(env)
    returns = [rollout(env, Agent(inference, policy), index=0, seed=seed).episode_return for seed in (0, 1)]
    assert returns[0] == returns[1]
    greedy = load("inference", FOLDER.parents[3] / "examples" / "greedy_placer")
    reference = rollout(env, Agent(greedy, greedy.load_policy(env)), index=0, seed=0).episode_return
    assert returns[0] > reference


def test_answers_depend_on_the_observation_alone(load, env):
    inference = load("inference")
    policy = inference.load_policy(env)
    observation, _ = env.reset(seed=0)
    observations, actions = [], []
    for _ in range(6):
        observations.append(observation)
        actions.append(inference.infer_once(policy, observation))
        observation, *_ = env.step(actions[-1])
    for number in (5, 0, 3, 2):
        assert inference.infer_once(policy, observations[number]) == actions[number]


TINY = {
    "evolution": {"population": "4", "evaluate_every": "1"},
    "ppo": {"episodes": "2", "horizon": "32", "minibatches": "2", "epochs": "1", "evaluate_every": "1"},
}


@pytest.mark.parametrize("method", ["evolution", pytest.param("ppo", marks=pytest.mark.group("sb3"))])
def test_fine_tuning_resumes_and_leaves_a_placement_that_is_replayed_at_its_cost(
    method, load, env, monkeypatch, tmp_path
):
    monkeypatch.setenv("A2PERF_ARTIFACTS", str(tmp_path))
    monkeypatch.setenv("A2PERF_ENV_ID", "CircuitTraining-Generated-v0")
    monkeypatch.setenv("A2PERF_ENV_KWARGS", json.dumps(UNSEEN))
    train = load("train")
    for total_steps in (80, 160):
        train.train(method=method, total_steps=str(total_steps), **TINY[method])
    with (tmp_path / "progress.csv").open() as file:
        steps = [int(row["steps"]) for row in csv.DictReader(file)]
    assert steps == sorted(set(steps))
    assert steps[-1] >= 160
    placement = json.loads((tmp_path / "placement.json").read_text())
    inference = load("inference")
    episode = rollout(env, Agent(inference, inference.load_policy(env)), index=0, seed=0)
    assert episode.episode_return == -placement["cost"]
    with np.load(tmp_path / "weights.npz") as weights:
        assert weights["skip"].shape == (1, 26)


def test_a_search_is_the_same_with_the_same_seed_and_in_parts(load, monkeypatch, tmp_path):
    monkeypatch.setenv("A2PERF_ENV_ID", "CircuitTraining-Generated-v0")
    monkeypatch.setenv("A2PERF_ENV_KWARGS", json.dumps(UNSEEN))
    train = load("train")

    def weights(folder, *budgets):
        (tmp_path / folder).mkdir()
        monkeypatch.setenv("A2PERF_ARTIFACTS", str(tmp_path / folder))
        for budget in budgets:
            train.train(total_steps=budget, **TINY["evolution"])
        with np.load(tmp_path / folder / "weights.npz") as arrays:
            return arrays["skip"]

    np.testing.assert_array_equal(weights("whole", "160"), weights("parts", "80", "160"))
