"""The learnt baseline: no invalid action is ever chosen, a run continues, and it is a submission a2perf runs."""

from __future__ import annotations

import csv
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import numpy as np
import pytest

TOY = "CircuitTraining-ToyMacro-v0"
WEB = "WebNavigation-Difficulty-01-v0"
TINY = {
    "learning_starts": "40",
    "evaluate_every": "60",
    "evaluation_episodes": "2",
    "buffer_size": "500",
    "width": "16",
}
MODULES = ("inference", "masked_dqn", "scorer", "train")

needs_sb3 = pytest.mark.group("sb3")


@pytest.fixture
def example(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Makes the modules of the example importable for one test."""
    folder = repository / "packages" / "baselines" / "examples" / "sb3_masked_dqn"
    monkeypatch.syspath_prepend(str(folder))
    for name in MODULES:
        sys.modules.pop(name, None)
    yield folder
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def train(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs the example's ``train`` into ``tmp_path``."""
    monkeypatch.setenv("A2PERF_ARTIFACTS", str(tmp_path))
    monkeypatch.setenv("ROOT_DIR", str(tmp_path))
    monkeypatch.setenv("SEED", "5")

    def run(env_id: str, **arguments: str) -> None:
        monkeypatch.setenv("A2PERF_ENV_ID", env_id)
        monkeypatch.setenv("A2PERF_ENV_KWARGS", '{"num_websites": 1}' if env_id == WEB else "{}")
        importlib.import_module("train").train(**{**TINY, **arguments})

    return run


def _curve(artifacts: Path) -> list[dict[str, float]]:
    with (artifacts / "progress.csv").open() as stream:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(stream)]


def _steps(env: gymnasium.Env, count: int) -> Iterator[tuple[dict, np.ndarray]]:
    """Yields observations and the environment's own masks along random valid actions."""
    rng = np.random.default_rng(0)
    observation, info = env.reset(seed=0)
    for _ in range(count):
        yield observation, info["action_mask"]
        observation, _, ended, cut_off, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
        if ended or cut_off:
            observation, info = env.reset()


@needs_sb3
def test_exploration_and_greedy_choice_are_valid(example: Path) -> None:
    dqn = importlib.import_module("masked_dqn")
    tables = np.random.default_rng(0).normal(size=(3, 12, 5)).astype(np.float16)
    tables[:, :, 0] = 0
    tables[0, 3, 0] = tables[1, 7, 0] = tables[2, [2, 9], 0] = 1
    drawn = np.stack([dqn._random_valid(tables) for _ in range(60)])
    assert [set(column.tolist()) for column in drawn.T] == [{3}, {7}, {2, 9}]

    import torch

    scorer_module = importlib.import_module("scorer")
    values = scorer_module.candidate_values(
        scorer_module.make_scorer(5, 8), torch.from_numpy(tables.astype(np.float32))
    )
    assert values.argmax(dim=1)[:2].tolist() == [3, 7]
    none_valid = torch.zeros(1, 12, 5)
    assert scorer_module.candidate_values(scorer_module.make_scorer(5, 8), none_valid).tolist() == [[0.0] * 12]


@needs_sb3
@pytest.mark.parametrize("env_id", [TOY, WEB])
def test_a_tiny_training_leaves_a_policy_that_acts_validly_and_continues(train, tmp_path: Path, env_id: str) -> None:
    train(env_id, total_steps="148")
    train(env_id, total_steps="200")
    curve = _curve(tmp_path)
    assert [row["env_steps"] for row in curve] == [60, 120, 148, 180, 200]
    kwargs = {"num_websites": 1} if env_id == WEB else {}
    with gymnasium.make(env_id, **kwargs) as env:
        inference = importlib.import_module("inference")
        policy = inference.load_policy(env)
        for observation, mask in _steps(env, 6):
            assert mask[inference.infer_once(policy, inference.preprocess_observation(observation))] == 1


@needs_sb3
def test_the_same_seed_gives_the_same_curve(train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    curves = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv("A2PERF_ARTIFACTS", str(tmp_path / name))
        train(WEB, total_steps="150")
        curves.append(_curve(tmp_path / name))
    assert curves[0] == curves[1]


@needs_sb3
def test_checkpoint_of_another_seed_and_unknown_arguments_are_refused(train, monkeypatch: pytest.MonkeyPatch) -> None:
    train(TOY, total_steps="50")
    monkeypatch.setenv("SEED", "6")
    with pytest.raises(ValueError, match="'seed': 5"):
        train(TOY, total_steps="60")
    with pytest.raises(ValueError, match=r"unknown arguments \['total_step'\]; known are .*'total_steps'"):
        train(TOY, total_step="60")


@needs_sb3
def test_it_trains_and_infers_as_a_submission(example: Path, tmp_path: Path) -> None:
    for config, arguments in (
        ("training_toy_macro.gin", ("--participant_args", "total_steps=120,learning_starts=40,evaluate_every=60")),
        (
            "inference_toy_macro.gin",
            (
                "--gin_bindings",
                "Submission.num_inference_steps = 10",
                "--gin_bindings",
                "Submission.num_inference_episodes = 2",
            ),
        ),
    ):
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "from a2perf.cli import launch_main; launch_main()",
                "--submission",
                str(example),
                "--gin_config",
                config,
                "--root_dir",
                str(tmp_path),
                *arguments,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    rollouts = json.loads((tmp_path / "inference" / "metrics" / "rollouts.json").read_text())
    assert [episode["length"] for episode in rollouts["episodes"]] == [2, 2]
