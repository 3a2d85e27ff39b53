"""A whole run of a submission that cheats: the bundle holds what really happened."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest

import a2perf.domains  # noqa: F401
from a2perf.runs.bundles.bundle import validate
from a2perf.sandbox import strongest_level
from tests.made_submissions import TROT, gin, policy

CHEAT = policy(
    top="""
    import json, os, pathlib

    FORGED = json.dumps({"schema": 1, "task": "x", "env_id": "x", "episodes": []})

    def attempt(action):
        try:
            return action()
        except BaseException as error:
            return type(error).__name__
    """,
    load="""
    artifacts = pathlib.Path(os.environ["A2PERF_ARTIFACTS"])
    bundle = artifacts.parent
    said = {
        "metrics": attempt(lambda: (bundle / "metrics" / "rollouts.json").write_text(FORGED)),
        "manifest": attempt(lambda: (bundle / "manifest.json").write_text("{}")),
        "journal": attempt(lambda: (bundle / "journal.jsonl").open("a").write("{}")),
        "link": attempt(lambda: (artifacts / "link").symlink_to("/etc/passwd")),
        "folder": attempt(lambda: (artifacts / "away").symlink_to("/")),
        "pipe": attempt(lambda: os.mkfifo(artifacts / "pipe")),
        "forged": attempt(lambda: (artifacts / "rollouts.json").write_text(FORGED)),
        "reward": attempt(lambda: setattr(type(env.unwrapped), "step", lambda *given: (None, 1e9, True, True, {}))),
    }
    print(json.dumps({name: str(value) for name, value in said.items()}))
    return np.zeros(env.action_space.shape, np.float32)
    """,
)
GIN = gin(TROT, num_inference_episodes=2, time_participant_code=False, record_frames=0, kwargs={"mode": "train"})


@pytest.mark.group("bwrap")
def test_returns_files_and_manifest_are_those_of_the_real_episodes(submission, launch, noted) -> None:
    outcome = launch(submission(inference=CHEAT, inference_gin=GIN), "inference.gin")
    assert outcome.status == 0, outcome.output
    bundle = outcome.root / "inference"
    assert validate(bundle) == []
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert manifest["sandbox"]["level"] == strongest_level()
    assert not {"artifacts/link", "artifacts/away", "artifacts/pipe"} & set(manifest["files"])
    said = json.loads((bundle / "logs" / "stdout.log").read_text())
    for name in ("metrics", "manifest", "journal"):
        noted(f"a whole run: forge its {name}", "the real ones stay", [strongest_level()])
    assert said["forged"].isdigit(), "it could write its artifacts"
    episodes = json.loads((bundle / "metrics" / "rollouts.json").read_text())["episodes"]
    env = gymnasium.make(TROT, mode="train")
    try:
        for episode in episodes:
            assert episode["episode_return"] == pytest.approx(played(env, episode["seed"]), rel=1e-6)
    finally:
        env.close()
    assert len(episodes) == 2


def played(env: gymnasium.Env, seed: int) -> float:
    """Plays one episode with the cheat's real policy."""
    env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        _, reward, terminated, truncated, _ = env.step(np.zeros(env.action_space.shape, np.float32))
        total, over = total + float(reward), terminated or truncated
    return total
