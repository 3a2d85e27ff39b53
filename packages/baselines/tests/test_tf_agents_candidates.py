"""Cloning, double DQN and PPO over candidates: tiny training runs resume, write a valid policy, and refuse misfits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.event_logs import event_files_below, read_event_file
from tests.waiting import Child, until

pytestmark = [pytest.mark.group("tf_agents"), pytest.mark.slow, pytest.mark.timeout(1800)]

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
TOY = "CircuitTraining-ToyMacro-v0"
WEB = "WebNavigation-Difficulty-01-v0"
SMALL = {
    "tf_agents_bc": {
        WEB: ("rounds=2", "designs=6", "updates=8", "batch_size=16", "layers=16:16", "evaluation_designs=3"),
        TOY: ("rounds=2", "moves=60", "replace_every=20", "updates=40", "batch_size=4", "layers=32:32"),
    },
    "tf_agents_ddqn": {
        WEB: ("total_steps=120", "learning_starts=40", "evaluate_every=60", "layers=16:16", "evaluation_episodes=2"),
        TOY: ("total_steps=120", "learning_starts=40", "evaluate_every=60", "layers=16:16", "evaluation_episodes=1"),
    },
    "tf_agents_ppo": {
        WEB: ("total_steps=120", "members=2", "rows=20", "epochs=1", "evaluate_every=60", "layers=16:16"),
        TOY: ("total_steps=120", "members=2", "rows=20", "epochs=1", "evaluate_every=60", "layers=16:16"),
    },
}
EACH = [(example, env_id) for example, tasks in SMALL.items() for env_id in tasks]

# plays episodes with the contract's functions and prints the return of each; an invalid action would raise
PLAY = """
import json, os, sys, gymnasium, a2perf, inference
env = gymnasium.make(os.environ["A2PERF_ENV_ID"], **json.loads(os.environ["A2PERF_ENV_KWARGS"]))
policy = inference.load_policy(env)
for seed in range(2):
    observation, info = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        action = int(inference.infer_once(policy, inference.preprocess_observation(observation)))
        assert info["action_mask"][action] == 1
        observation, reward, terminated, truncated, info = env.step(action)
        total, over = total + reward, terminated or truncated
    print("return", total)
"""


def kwargs_of(env_id: str) -> str:
    return json.dumps({"num_websites": 1} if env_id == WEB else {})


def command(example: str, env_id: str, output: Path, *further: str) -> list[str]:
    call = [sys.executable, "train.py", "--env-id", env_id, "--env-kwargs", kwargs_of(env_id)]
    return [*call, "--output", str(output), "--seed", "1", *SMALL[example][env_id], *further]


def train(example: str, env_id: str, output: Path, *further: str) -> subprocess.CompletedProcess[str]:
    call = command(example, env_id, output, *further)
    return subprocess.run(call, cwd=EXAMPLES / example, capture_output=True, text=True, check=False)


def play(example: str, env_id: str, artifacts: Path) -> subprocess.CompletedProcess[str]:
    variables = {"ROOT_DIR": str(artifacts), "A2PERF_ENV_ID": env_id, "A2PERF_ENV_KWARGS": kwargs_of(env_id)}
    return subprocess.run(
        [sys.executable, "-c", PLAY],
        cwd=EXAMPLES / example,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )


def curve(folder: Path) -> list[int]:
    series = [read_event_file(path).scalars.get("Metrics/AverageReturn") for path in event_files_below(folder)]
    return [int(step) for one in series if one is not None for step in one.steps]


@pytest.mark.parametrize(("example", "env_id"), EACH)
def test_a_tiny_training_leaves_a_policy_that_acts_validly(tmp_path: Path, example: str, env_id: str) -> None:
    done = train(example, env_id, tmp_path)
    assert done.returncode == 0, done.stderr
    steps = curve(tmp_path)
    assert len(steps) >= 2
    assert steps == sorted(set(steps))
    played = play(example, env_id, tmp_path)
    assert played.returncode == 0, played.stderr
    returns = [float(line.split()[1]) for line in played.stdout.splitlines() if line.startswith("return")]
    assert len(returns) == 2
    if (example, env_id) == ("tf_agents_bc", TOY):
        assert returns == [pytest.approx(-0.99, abs=0.03)] * 2


def test_cloning_goes_on_after_a_kill_exactly_as_it_would_have(tmp_path: Path) -> None:
    more = ("rounds=3", "updates=40")
    whole = train("tf_agents_bc", WEB, tmp_path / "whole", *more)
    assert whole.returncode == 0, whole.stderr
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    call = command("tf_agents_bc", WEB, tmp_path / "killed", *more)
    with Child(call, cwd=EXAMPLES / "tf_agents_bc", **quiet) as one:
        until(lambda: list((tmp_path / "killed").glob("resume/step_*")))
        one.send_signal(signal.SIGKILL)
    again = train("tf_agents_bc", WEB, tmp_path / "killed", *more)
    assert again.returncode == 0, again.stderr
    assert "continuing after" in again.stdout
    last = [run.stdout.strip().splitlines()[-1] for run in (whole, again)]
    assert last[0] == last[1]
    assert curve(tmp_path / "whole") == curve(tmp_path / "killed")


def test_double_dqn_goes_on_where_it_was(tmp_path: Path) -> None:
    train("tf_agents_ddqn", TOY, tmp_path)
    again = train("tf_agents_ddqn", TOY, tmp_path, "total_steps=180")
    assert again.returncode == 0, again.stderr
    assert "continuing after" in again.stdout
    assert max(curve(tmp_path)) >= 180
    other = train("tf_agents_ddqn", TOY, tmp_path, "layers=8:8")
    assert other.returncode == 2
    assert "layers" in other.stderr


def test_policies_of_other_tasks_and_tables_are_named(tmp_path: Path) -> None:
    assert train("tf_agents_bc", TOY, tmp_path).returncode == 0
    misfit = play("tf_agents_bc", WEB, tmp_path)
    assert "trained on circuit_training" in misfit.stderr
    record = json.loads((tmp_path / "candidates.json").read_text())
    for key, wrong, message in (
        ("rows", 100, "tables of 100 candidates, and CircuitTraining-ToyMacro-v0 has 512"),
        ("features", 9, "9 features of a candidate"),
    ):
        (tmp_path / "candidates.json").write_text(json.dumps({**record, key: wrong}))
        assert message in play("tf_agents_bc", TOY, tmp_path).stderr
    (tmp_path / "candidates.json").write_text("{")
    assert "candidates.json cannot be read" in play("tf_agents_bc", TOY, tmp_path).stderr
