"""A run that takes seconds: two inference episodes of a random policy on the smallest circuit."""

from __future__ import annotations

import json
import sys
from pathlib import Path

POLICY = """
def load_policy(env, **kwargs):
    return None


def preprocess_observation(observation):
    return observation


def infer_once(policy, observation):
    return int(observation["mask"].argmax())
"""
GIN = """
import a2perf.submission.submission_util
Submission.mode = %BenchmarkMode.INFERENCE
Submission.domain = %BenchmarkDomain.CIRCUIT_TRAINING
Submission.num_inference_steps = 5
Submission.num_warmup_steps = 1
Submission.num_inference_episodes = 2
Submission.record_frames = 0
create_domain.env_name = 'CircuitTraining-ToyMacro-v0'
"""


def toy_submission(folder: Path) -> Path:
    """Writes the submission and returns its folder."""
    path = folder / "entry"
    path.mkdir(exist_ok=True)
    (path / "inference.py").write_text(POLICY)
    (path / "train.py").write_text("def train():\n    pass\n")
    (path / "__init__.py").write_text("")
    (path / "requirements.txt").write_text("")
    (path / "inference.gin").write_text(GIN)
    return path


def toy_launch(folder: Path, launcher: str, *further: str) -> list[str]:
    """The command line of the run by that launcher; its root directory is ``folder/launcher``."""
    return [
        sys.executable, "-c", "from a2perf.cli import launch_main; launch_main()",
        "--submission", str(toy_submission(folder)), "--gin_config", "inference.gin",
        "--root_dir", str(folder / launcher), "--launcher", launcher, *further,
    ]  # fmt: skip


def toy_returns(folder: Path, launcher: str) -> list[float]:
    """What the episodes of that run returned."""
    rollouts = json.loads((folder / launcher / "inference" / "metrics" / "rollouts.json").read_text())
    return [episode["episode_return"] for episode in rollouts["episodes"]]
