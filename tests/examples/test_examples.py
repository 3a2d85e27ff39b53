"""Every example is a submission that a2perf accepts and runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted(path.parent.name for path in (Path(__file__).parents[2] / "examples").glob("*/train.py"))

SMALL = (
    "--gin_bindings",
    "Submission.num_inference_steps = 20",
    "--gin_bindings",
    "Submission.num_inference_episodes = 1",
    "--gin_bindings",
    "Submission.record_frames = 0",
)


def _launch(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from a2perf.cli import launch_main; launch_main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def _returns(root: Path) -> list[float]:
    rollouts = json.loads((root / "inference" / "metrics" / "rollouts.json").read_text())
    return [episode["episode_return"] for episode in rollouts["episodes"]]


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_has_the_four_files(repository: Path, name: str) -> None:
    folder = repository / "examples" / name
    assert {path.name for path in folder.iterdir()} >= {"train.py", "inference.py", "requirements.txt", "__init__.py"}


@pytest.mark.group("clips")
def test_pretrained_policy_walks_to_the_time_limit(repository: Path, tmp_path: Path) -> None:
    done = _launch(
        "--submission",
        str(repository / "examples" / "motion_imitation"),
        "--domain",
        "quadruped_locomotion",
        "--gin_config",
        "dog_pace/inference.gin",
        "--root_dir",
        str(tmp_path),
        *SMALL,
    )
    assert done.returncode == 0, done.stderr
    (total,) = _returns(tmp_path)
    assert total == pytest.approx(389.1, rel=0.03)  # the mean over 20 episodes of the published policy


def test_random_search_trains_and_its_policy_is_loaded(repository: Path, tmp_path: Path) -> None:
    arguments = (
        "--submission",
        str(repository / "examples" / "numpy_ars"),
        "--domain",
        "quadruped_locomotion",
        "--root_dir",
        str(tmp_path),
    )
    trained = _launch(
        *arguments,
        "--gin_config",
        "training.gin",
        "--gin_bindings",
        "create_domain.env_name = 'QuadrupedLocomotion-SyntheticTrot-v0'",
        "--participant_args",
        "iterations=1,directions=2,top=1,horizon=4,workers=2",
    )
    assert trained.returncode == 0, trained.stderr
    assert (tmp_path / "train" / "artifacts" / "policy.npz").is_file()
    evaluated = _launch(
        *arguments,
        "--gin_config",
        "synthetic_trot/inference.gin",
        *SMALL,
    )
    assert evaluated.returncode == 0, evaluated.stderr
    assert len(_returns(tmp_path)) == 1
