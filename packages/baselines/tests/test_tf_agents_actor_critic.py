"""PPO and soft actor-critic for quadrupeds: tiny training runs are killed, resume, and write a policy."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.event_logs import event_files_below, read_event_file
from tests.waiting import Child, until

pytestmark = [pytest.mark.group("tf_agents"), pytest.mark.slow, pytest.mark.timeout(1800)]

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
ENV_ID = "QuadrupedLocomotion-SyntheticTrot-v0"
SMALL = {
    "tf_agents_ppo": ("total_steps=240", "evaluate_every=80", "members=1", "rows=40", "layers=16:16", "mode=train"),
    "tf_agents_sac": (
        *("total_steps=160", "evaluate_every=50", "learning_starts=40", "members=2", "rows=10", "mode=train"),
        *("buffer_size=400", "batch_size=32", "layers=16:16"),
    ),
}


def command(example: str, output: Path, *further: str) -> list[str]:
    call = [sys.executable, "train.py", "--env-id", ENV_ID, "--output", str(output), "--seed", "1"]
    return [*call, *SMALL[example], *further]


def trained(example: str, output: Path, *further: str) -> str:
    call = command(example, output, *further)
    done = subprocess.run(call, cwd=EXAMPLES / example, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def kill_at_first_checkpoint(example: str, output: Path) -> None:
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with Child(command(example, output), cwd=EXAMPLES / example, **quiet) as one:
        until(lambda: list(output.glob("resume/step_*")))
        one.send_signal(signal.SIGKILL)
    assert one.returncode == -signal.SIGKILL


def curve(folder: Path) -> dict[int, float]:
    series = [read_event_file(path).scalars.get("Metrics/AverageReturn") for path in event_files_below(folder)]
    points = [zip(one.steps, one.values, strict=True) for one in series if one is not None]
    return {int(step): float(value) for some in points for step, value in some}


def test_ppo_goes_on_after_a_kill_exactly_as_it_would_have(tmp_path: Path) -> None:
    trained("tf_agents_ppo", tmp_path / "whole")
    kill_at_first_checkpoint("tf_agents_ppo", tmp_path / "killed")
    assert "continuing after" in trained("tf_agents_ppo", tmp_path / "killed")
    whole = curve(tmp_path / "whole")
    assert len(whole) >= 3
    assert curve(tmp_path / "killed") == whole


def test_soft_actor_critic_goes_on_after_a_kill_with_its_replay_buffer(tmp_path: Path) -> None:
    kill_at_first_checkpoint("tf_agents_sac", tmp_path)
    before = curve(tmp_path)
    checkpoint = next(iter(tmp_path.glob("resume/step_*")))
    assert sum(path.stat().st_size for path in checkpoint.rglob("tensorflow.data*")) > 400 * 160 * 4
    assert "continuing after" in trained("tf_agents_sac", tmp_path)
    after = curve(tmp_path)
    first = min(before)
    assert after[first] == before[first]
    assert max(after) >= 160
    assert all(np.isfinite(value) and value > 0 for value in after.values())


@pytest.mark.parametrize("example", sorted(SMALL))
def test_two_actors_leave_a_policy_behind(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from a2perf.domains.tfa.suite_gym import make_environment
    from a2perf.submission.participant.adapters import tf_agents

    assert "done:" in trained(example, tmp_path, "actors=2", "total_steps=90")
    monkeypatch.setenv("ROOT_DIR", str(tmp_path))
    monkeypatch.setenv("A2PERF_ENV_ID", ENV_ID)
    env = make_environment(ENV_ID, {"mode": "test"})
    load_policy, preprocess_observation, infer_once = tf_agents.contract()
    policy = load_policy(env)
    observation, _ = env.reset(seed=0)
    action = infer_once(policy, preprocess_observation(observation))
    assert env.action_space.contains(action)
    assert np.abs(action).max() > 0.01
