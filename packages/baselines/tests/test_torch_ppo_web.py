"""PPO from scratch on websites: it learns, a resumed run continues, and NumPy chooses what PyTorch chose."""

from __future__ import annotations

import csv
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from a2perf.domains.web_navigation.sites.generator import training_designs
from a2perf.errors import UserError
from a2perf_baselines.web_navigation.batch import WebBatch
from a2perf_baselines.web_navigation.pairs import BUCKETS, FEATURES

WEB = "WebNavigation-Difficulty-01-v0"
SMALL = {"designs": "40", "members": "64", "horizon": "16", "minibatches": "4", "validation_designs": "20"}

needs_torch = pytest.mark.group("sb3")  # the environment with Stable-Baselines3 has PyTorch


@pytest.fixture
def example(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes the modules of the example importable for one test."""
    folder = repository / "packages" / "baselines" / "examples" / "torch_ppo_web"
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.fixture
def artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sets the variables of a training run and returns its folder."""
    for name, value in {
        "A2PERF_ARTIFACTS": str(tmp_path),
        "ROOT_DIR": str(tmp_path),
        "SEED": "5",
        "A2PERF_ENV_ID": WEB,
        "A2PERF_ENV_KWARGS": '{"num_websites": 1}',
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def _curve(artifacts: Path) -> list[dict[str, float]]:
    with (artifacts / "progress.csv").open() as stream:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(stream)]


def _share_solved(policy, inference, designs) -> float:
    solved = []
    for number, design in enumerate(designs):
        with gymnasium.make("WebNavigation-v0", designs=[design], num_websites=1) as env:
            observation, info = env.reset(seed=number)
            over = False
            while not over:
                action = inference.infer_once(policy, inference.preprocess_observation(observation))
                assert info["action_mask"][action] == 1
                observation, _, terminated, truncated, info = env.step(action)
                over = terminated or truncated
            solved.append(info["is_success"])
    return float(np.mean(solved))


@pytest.mark.parametrize("level", [1, 2, 3])
def test_the_shipped_policies_solve_new_websites_without_pytorch(
    example: Path, artifacts: Path, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    inference = importlib.import_module("inference")
    policy = inference.load_policy(None, weights=f"level_{level}")
    assert _share_solved(policy, inference, training_designs(level, 77_000, 15)) >= 14 / 15


def test_no_policy_and_a_policy_with_other_features_are_refused(example: Path, artifacts: Path) -> None:
    inference = importlib.import_module("inference")
    with pytest.raises(FileNotFoundError, match="level_1, level_2, level_3"):
        inference.load_policy(None)
    scorer = importlib.import_module("scorer")
    arrays = {name: np.zeros((size, 4)) for name, size in zip(("key", "caption", "kind"), BUCKETS, strict=True)}
    arrays |= {"first.weight": np.zeros((8, 3)), "first.bias": np.zeros(8)}
    with pytest.raises(ValueError, match=r"no arrays last\.weight, last\.bias"):
        scorer.CandidateScorer(arrays)
    with pytest.raises(ValueError, match="takes 3 features per candidate, there are 20"):
        scorer.CandidateScorer(arrays | {"last.weight": np.zeros((1, 8)), "last.bias": np.zeros(1)})


@needs_torch
def test_it_learns_to_solve_new_websites_and_resumes(example: Path, artifacts: Path) -> None:
    train = importlib.import_module("train").train
    train(**SMALL, total_steps="10240")
    with pytest.raises(UserError, match=r"gamma was 0\.99 and is 0\.5"):
        train(**SMALL, total_steps="20480", gamma="0.5")
    train(**SMALL, total_steps="30720")
    curve = _curve(artifacts)
    assert [row["env_steps"] for row in curve] == [5120.0 * row for row in range(1, 7)]
    assert curve[-1]["training_solved"] > 0.5 > curve[0]["training_solved"]
    assert curve[-1]["processor_s"] > curve[1]["processor_s"] > 0.0
    shown = json.loads((artifacts / "designs.json").read_text())
    assert len(shown) == 60
    inference = importlib.import_module("inference")
    policy = inference.load_policy(None)
    assert _share_solved(policy, inference, training_designs(1, 77_000, 20)) > 0.5


@needs_torch
@pytest.mark.parametrize("compare_words", [True, False])
def test_numpy_scores_candidates_as_the_trained_network_does(example: Path, compare_words: bool) -> None:
    import torch

    from a2perf_baselines.web_navigation.pairs import PageTable

    policy = importlib.import_module("policy").CandidatePolicy(seed=3, compare_words=compare_words)
    scorer = importlib.import_module("scorer").CandidateScorer(policy.weights())
    shown = WebBatch(training_designs(3, 4, 6), 6, in_order=True).reset(seed=0)
    tensors = {name: torch.from_numpy(array.copy()) for name, array in shown.items()}
    with torch.no_grad():
        table, values = policy._distribution(tensors)
        actions, log_probabilities, _ = policy.act(tensors, torch.Generator().manual_seed(0))
        again, entropy, _ = policy.evaluate(tensors, actions)
    assert values.shape == (6,)
    torch.testing.assert_close(log_probabilities, again)
    for member, rows in enumerate(shown["rows"].tolist()):
        assert actions[member] < rows
        assert 0.0 < float(entropy[member]) <= np.log(rows) + 1e-4
        scores = scorer.scores(
            PageTable(
                shown["features"][member, :rows],
                shown["numbers"][member, :rows],
                shown["page"][member],
                np.arange(rows),
            )
        )
        expected = scores - np.log(np.exp(scores).sum())
        np.testing.assert_allclose(table[member, :rows].numpy(), expected, atol=1e-5)
    if not compare_words:
        tensors["features"][:, :, [FEATURES.index(name) for name in FEATURES if name.startswith("resem")]] += 1.0
        with torch.no_grad():
            torch.testing.assert_close(policy._distribution(tensors)[0], table)


@needs_torch
def test_it_trains_as_a_submission(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from a2perf.cli import launch_main; launch_main()",
            "--submission",
            str(example),
            "--gin_config",
            "training_web_level_1.gin",
            "--root_dir",
            str(tmp_path),
            "--participant_args",
            ",".join(f"{name}={value}" for name, value in {**SMALL, "total_steps": "2048"}.items()),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "train" / "artifacts" / "policy.npz").is_file()
