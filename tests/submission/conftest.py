"""Submissions written on the spot, and the real commands run on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

TRAIN = """
def train():
    import os, pathlib
    pathlib.Path(os.environ["A2PERF_ARTIFACTS"], "weights.txt").write_text(os.environ["SEED"])
"""

INFERENCE = """
import numpy as np

def load_policy(env, **kwargs):
    return np.zeros(env.action_space.shape, np.float32)

def preprocess_observation(observation):
    return observation

def infer_once(policy, observation):
    return policy
"""

TRAIN_GIN = """
import a2perf.submission.submission_util
Submission.mode = %BenchmarkMode.TRAIN
Submission.domain = %BenchmarkDomain.QUADRUPED_LOCOMOTION
create_domain.env_name = 'QuadrupedLocomotion-SyntheticTrot-v0'
"""

INFERENCE_GIN = """
import a2perf.submission.submission_util
Submission.mode = %BenchmarkMode.INFERENCE
Submission.domain = %BenchmarkDomain.QUADRUPED_LOCOMOTION
Submission.num_inference_steps = 20
Submission.num_inference_episodes = 2
Submission.record_frames = 0
Submission.call_timeout_s = 300
create_domain.env_name = 'QuadrupedLocomotion-SyntheticTrot-v0'
create_domain.mode = 'train'
"""


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    status: int
    output: str
    root: Path

    def manifest(self, mode: str) -> dict:
        return json.loads((self.root / mode / "manifest.json").read_text())


@pytest.fixture
def submission(tmp_path: Path) -> Callable[..., Path]:
    """Writes a submission folder, and beside it the organizer's gin files; a file given as None is left out."""

    def write(folder: str = "entry", **files: str | None) -> Path:
        path = tmp_path / folder
        path.mkdir(exist_ok=True)
        content: Mapping[str, str | None] = {
            "train": TRAIN, "inference": INFERENCE, "training_gin": TRAIN_GIN, "inference_gin": INFERENCE_GIN,
            "requirements_txt": "", "__init__": "", **files,
        }  # fmt: skip
        for name, text in content.items():
            stem, _, suffix = name.rpartition("_") if name.endswith(("_gin", "_txt")) else (name, "", "py")
            if text is not None:
                place = path.parent if suffix == "gin" else path
                (place / f"{stem}.{suffix}").write_text(textwrap.dedent(text))
        return path

    return write


def command(*arguments: object) -> list[str]:
    """The command line of ``a2perf-launch`` with the interpreter of the tests."""
    return [sys.executable, "-c", "from a2perf.cli import launch_main; launch_main()", *map(str, arguments)]


@pytest.fixture
def launch(tmp_path: Path) -> Callable[..., Outcome]:
    """Runs ``a2perf-launch`` as a user would and returns what it did."""

    def run(path: Path, gin: str, *arguments: object, root: Path | None = None, timeout: float = 300) -> Outcome:
        folder = root or tmp_path / "root"
        done = subprocess.run(
            command("--submission", path, "--gin_config", gin, "--root_dir", folder, *arguments),
            capture_output=True, text=True, timeout=timeout, cwd=tmp_path, env=os.environ.copy(),
        )  # fmt: skip
        return Outcome(done.returncode, done.stdout + done.stderr, folder)

    return run
