"""Every example is a submission that a2perf accepts and runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import bindings, flags, launch

EXAMPLES = sorted(path.parent.name for path in (Path(__file__).parents[2] / "examples").glob("*/train.py"))

SMALL = bindings(
    "Submission.num_inference_steps = 20", "Submission.num_inference_episodes = 1", "Submission.record_frames = 0"
)


def _returns(root: Path) -> list[float]:
    rollouts = json.loads((root / "inference" / "metrics" / "rollouts.json").read_text())
    return [episode["episode_return"] for episode in rollouts["episodes"]]


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_has_the_four_files(repository: Path, name: str) -> None:
    folder = repository / "examples" / name
    assert {path.name for path in folder.iterdir()} >= {"train.py", "inference.py", "requirements.txt", "__init__.py"}


@pytest.mark.group("clips")
def test_pretrained_policy_walks_to_the_time_limit(repository: Path, tmp_path: Path) -> None:
    example = flags(submission=repository / "examples" / "motion_imitation", gin_config="dog_pace/inference.gin")
    launch(*example, *flags(domain="quadruped_locomotion", root_dir=tmp_path), *SMALL, check=True)
    (total,) = _returns(tmp_path)
    assert total == pytest.approx(389.1, rel=0.03)  # the mean over 20 episodes of the published policy


def test_random_search_trains_and_its_policy_is_loaded(repository: Path, tmp_path: Path) -> None:
    example = repository / "examples" / "numpy_ars"
    given = flags(submission=example, domain="quadruped_locomotion", root_dir=tmp_path)
    launch(
        *given,
        *flags(gin_config="training.gin", participant_args="iterations=1,directions=2,top=1,horizon=4,workers=2"),
        *bindings("create_domain.env_name = 'QuadrupedLocomotion-SyntheticTrot-v0'"),
        check=True,
    )
    assert (tmp_path / "train" / "artifacts" / "policy.npz").is_file()
    launch(*given, "--gin_config", "synthetic_trot/inference.gin", *SMALL, check=True)
    assert len(_returns(tmp_path)) == 1
