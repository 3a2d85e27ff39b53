"""A run that takes seconds: two inference episodes of a random policy on the smallest circuit."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.commands import launch
from tests.made_submissions import TOY, gin, policy, write_submission

POLICY = policy(infer="return int(observation['mask'].argmax())")
GIN = gin(TOY, num_inference_steps=5, num_warmup_steps=1, num_inference_episodes=2, record_frames=0)


def toy_submission(folder: Path) -> Path:
    """Writes the submission and returns its folder."""
    path = write_submission(folder / "entry", POLICY)
    (path / "inference.gin").write_text(GIN)
    return path


def check_same_returns(folder: Path, launcher: str, options: str = "") -> None:
    """Runs it here and by a launcher; the episodes return the same, and the log is shown as it grows."""
    returns = {}
    for name, further in {"local": "", launcher: f":{options}" if options else ""}.items():
        given = ("--submission", toy_submission(folder), "--gin_config", "inference.gin", "--root_dir", folder / name)
        done = launch(*given, "--launcher", f"{name}{further}", cwd=folder, env=dict(os.environ), check=True)
        assert "2 episodes" in done.stdout + done.stderr
        rollouts = json.loads((folder / name / "inference" / "metrics" / "rollouts.json").read_text())
        returns[name] = [episode["episode_return"] for episode in rollouts["episodes"]]
    assert returns[launcher] == returns["local"]
    assert len(returns["local"]) == 2
