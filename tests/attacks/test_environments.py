"""An environment that ends the evaluator, or raises what is no error: the run fails once, and the record says why."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import a2perf
from tests.commands import flags, run_a2perf
from tests.made_submissions import gin, policy, write_submission

ENVIRONMENT = """
import os, sys
import gymnasium
import numpy as np

class Ends(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, how, render_mode=None):
        self.how, self.steps, self.armed = how, 0, False
        if how == "exit in the constructor":
            sys.exit(0)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.armed = seed is not None and seed > 10_000  # not for the check of the environment before a run
        if self.armed and self.how == "exit in reset":
            sys.exit(0)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        info = {}
        if self.armed and self.how == "exit":
            sys.exit(0)
        if self.armed and self.how == "interrupt":
            raise KeyboardInterrupt
        if self.armed and self.how == "abort":
            os.abort()
        if self.armed and self.how == "leave":
            os._exit(0)
        if self.armed and self.how == "info":
            info = None
        return np.zeros(2, np.float32), 1.0, self.steps == 5, False, info

    def close(self):
        if self.armed and self.how == "exit in close":
            sys.exit(1)

gymnasium.register("Ends-v0", Ends)
"""
PLAYS = policy(infer="return 1")


@pytest.fixture
def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "ending_envs.py").write_text(ENVIRONMENT)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "envs"), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.syspath_prepend(str(tmp_path / "envs"))
    return write_submission(tmp_path / "entry", PLAYS)


def arguments(entry: Path, how: str) -> list[str]:
    few = ("Submission.num_inference_episodes = 2", "Submission.num_inference_steps = 0")
    kwargs = json.dumps({"how": how})
    return flags(submission=entry, env_id="ending_envs:Ends-v0", env_kwargs=kwargs, gin_bindings=few)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("exit", "in step 1 of the episode with seed"),
        ("interrupt", "KeyboardInterrupt"),
        ("info", "in step 1 of the episode with seed"),
        ("exit in reset", "in reset of the episode with seed"),
        ("abort", "its evaluator was ended by SIGABRT"),
        ("leave", "its evaluator ended with status 0"),
    ],
)
def test_an_environment_that_ends_the_run_is_named(how: str, says: str, entry: Path, tmp_path: Path, noted) -> None:
    ended = run_a2perf("run", *arguments(entry, how), "--root-dir", "one", cwd=tmp_path)
    assert ended.returncode == 3, ended.stderr
    assert says in ended.stderr
    found = json.loads((tmp_path / "one" / "inference" / "manifest.json").read_text())
    assert (found["state"], found["exit_code"], len(found["attempts"])) == ("failed", 3, 1)
    assert (found["failure"]["kind"], found["failure"]["where"]) == ("infrastructure", "environment")
    assert says in found["failure"]["message"]
    noted(f"environment: {how}", "infrastructure", [found["sandbox"]["level"]])


def test_an_environment_that_exits_is_not_a_result_of_an_experiment(entry: Path, tmp_path: Path) -> None:
    text = gin("ending_envs:Ends-v0", kwargs={"how": "leave"}, num_inference_episodes=2)
    lines = [line for line in text.splitlines() if not line.startswith("Submission.domain")]
    (tmp_path / "ends.gin").write_text("\n".join([*lines, "Submission.domain = 'gymnasium'"]))
    given = ["--submission", "entry", "--gin-config", "ends.gin", "--seeds", "0", "1"]
    ended = run_a2perf("run", *given, "--root-dir", "two", cwd=tmp_path)
    assert ended.returncode == 3, ended.stderr
    manifests = [json.loads(path.read_text()) for path in (tmp_path / "two").rglob("inference/manifest.json")]
    assert [(found["state"], found["failure"]["where"], len(found["attempts"])) for found in manifests] == [
        ("failed", "environment", 1)
    ] * 2


def test_an_environment_that_exits_is_not_a_result_of_evaluate(entry: Path, tmp_path: Path) -> None:
    with pytest.raises(a2perf.RunFailed, match=r"failed in environment .*its evaluator ended with status 0") as caught:
        a2perf.evaluate(
            entry,
            env="ending_envs:Ends-v0",
            env_kwargs={"how": "leave"},
            episodes=1,
            root_dir=tmp_path / "three",
            progress=False,
        )
    assert json.loads((caught.value.bundle / "manifest.json").read_text())["state"] == "failed"


def test_an_environment_that_exits_while_it_is_made_is_refused(entry: Path, tmp_path: Path) -> None:
    ended = run_a2perf("run", *arguments(entry, "exit in the constructor"), "--root-dir", "four", cwd=tmp_path)
    assert ended.returncode in (2, 3)
    assert "SystemExit: 0" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_environment_that_exits_in_close_loses_no_episode(entry: Path, tmp_path: Path) -> None:
    ended = run_a2perf("run", *arguments(entry, "exit in close"), "--root-dir", "five", cwd=tmp_path, check=True)
    assert "failed in close: SystemExit(1)" in ended.stderr
    assert json.loads((tmp_path / "five" / "inference" / "manifest.json").read_text())["state"] == "finished"
