"""Participants import the distribution, in a sandbox with an editable installation and in a separate Python."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from a2perf.submission.evaluator.python_env import own_wheel

WEB = "difficulty_level_1_num_websites_10"


@pytest.mark.group("bwrap")
def test_a_shipped_policy_acts_under_bubblewrap(repository: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from a2perf.cli import launch_main; launch_main()",
            "--submission",
            str(repository / "packages" / "baselines" / "examples" / "torch_ppo_web"),
            "--domain",
            "web_navigation",
            "--gin_config",
            f"{WEB}/inference.gin",
            "--root_dir",
            str(tmp_path),
            "--sandbox",
            "bubblewrap",
            "--participant_args",
            "weights=level_1",
            "--gin_bindings",
            "Submission.num_inference_episodes = 3",
            "--gin_bindings",
            "Submission.num_inference_steps = 5",
            "--gin_bindings",
            "Submission.record_frames = 0",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rollouts = json.loads((tmp_path / "inference" / "metrics" / "rollouts.json").read_text())
    assert min(episode["episode_return"] for episode in rollouts["episodes"]) > 1.5


def test_the_wheel_of_a_separate_python_carries_the_package_and_its_readers_of_candidates(tmp_path: Path) -> None:
    with zipfile.ZipFile(own_wheel.write_wheel(tmp_path)) as wheel:
        assert {"a2perf/__init__.py", "a2perf_baselines/candidates.py"} <= set(wheel.namelist())
        (points,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
        listed = wheel.read(points).decode()
    assert "[a2perf_baselines.candidates]\ncircuit_training = " in listed
