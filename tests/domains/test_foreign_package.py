"""A package that registers ids with and without a namespace, through every command that starts another process."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import a2perf
from a2perf.domains import any_environment
from tests.commands import bindings
from tests.commands import run_a2perf as command
from tests.installed_package import environment_package
from tests.made_submissions import policy, write_submission

TANKS = """
import gymnasium
import numpy as np


class Tank(gymnasium.Env):
    '''Pays the seed's fuel for five steps.'''

    observation_space = gymnasium.spaces.Box(0, 10, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.fuel, self.steps = float(self.np_random.integers(1, 10)), 0
        return np.array([self.fuel], np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.array([self.fuel], np.float32), self.fuel, self.steps == 5, False, {}


gymnasium.register("tanks/Tank-v0", Tank)
gymnasium.register("Tank-v1", Tank)
"""
TRAIN = """
import os, pathlib
from a2perf.domains.tfa.suite_gym import create_domain

def train(**arguments):
    env = create_domain()
    env.reset(seed=0)
    pathlib.Path(os.environ["A2PERF_ARTIFACTS"], "steps.txt").write_text(str(env.step(0)[1]))
"""
SCRIPT = """
import argparse, gymnasium
parser = argparse.ArgumentParser()
parser.add_argument("--env-id")
parser.add_argument("--seed", type=int)
given = parser.parse_args()
gymnasium.make(given.env_id).reset(seed=given.seed)
"""
NAMES = ("tank_envs:tanks/Tank-v0", "tank_envs:Tank-v1")
IDS = ("tanks/Tank-v0", "Tank-v1")
FEW = bindings("Submission.num_inference_steps = 2", "Submission.num_inference_episodes = 2")


@pytest.fixture(autouse=True)
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield from environment_package(tmp_path, monkeypatch, "tank_envs", TANKS)


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    # The participant's process finds the package in the submission, as one that requirements.txt installs.
    return write_submission(tmp_path / "entry", policy(load="return 0"), TRAIN, tank_envs=TANKS)


def done(folder: Path, *words: object) -> str:
    ended = command(*words, cwd=folder, check=True)
    return ended.stdout


def manifests(folder: Path) -> list[dict[str, Any]]:
    found = [json.loads(path.read_text()) for path in sorted(folder.rglob("manifest.json"))]
    for manifest in found:
        assert (manifest["state"], manifest["domain"]) == ("finished", "gymnasium")
        assert manifest["env_id"] in IDS
        assert manifest["environment"]["module"] == "tank_envs"
        assert len(manifest["environment"]["sha256"]) == 64
    return found


def test_many_runs_of_two_tasks(entry: Path, tmp_path: Path) -> None:
    both = ("--gin-config", "training.gin", "inference.gin", "--tasks", *NAMES, "--seeds", "0-1")
    done(tmp_path, "run", "--submission", entry, *both, "--root-dir", "runs", "--allow-weaker", *FEW)
    found = manifests(tmp_path / "runs")
    assert len(found) == 8
    assert {(one["env_id"], one["root_seed"], one["mode"]) for one in found} == {
        (env_id, seed, mode) for env_id in IDS for seed in (0, 1) for mode in ("train", "inference")
    }
    for trained in (tmp_path / "runs").rglob("steps.txt"):
        assert float(trained.read_text()) > 0
    reproduced = done(tmp_path, "reproduce", "runs", "-o", "again", "--trust-bundle", "--submission", entry)
    assert reproduced.count("CONFIRMED (bit-equal)") == 4


def test_a_single_run_and_a_check(entry: Path, tmp_path: Path) -> None:
    where = ("--env-id", NAMES[0], "--root-dir", "run", "--allow-weaker", *FEW)
    for gin in ("training.gin", "inference.gin"):
        done(tmp_path, "run", "--submission", entry, "--gin-config", gin, *where)
    assert [one["mode"] for one in manifests(tmp_path / "run")] == ["inference", "train"]
    said = done(tmp_path, "check", entry, "--env-id", NAMES[0], "--allow-weaker")
    assert "trained and stepped 20 times on tanks/Tank-v0" in said


def test_a_benchmark_of_a_submission_and_of_a_command(entry: Path, tmp_path: Path) -> None:
    matrix = ("--env-ids", *NAMES, "--num-seeds", "1", "--workers", "1", "--no-auto-tag")
    own = ("--submission", entry, "--gin-config", "inference.gin", "--store", "mine")
    done(tmp_path, "benchmark", *own, *matrix, "--", "--allow-weaker", *FEW)
    assert [one["root_seed"] for one in manifests(tmp_path / "mine")] == [1, 1]
    (tmp_path / "script.py").write_text(SCRIPT)
    script = f"{shlex.quote(sys.executable)} script.py"
    assert "2 of 2 runs finished, 0 failed" in done(tmp_path, "benchmark", "--command", script, *matrix)


def test_python_and_generalization(entry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    few = [word for word in FEW if not word.startswith("--")]
    runs = a2perf.evaluate(
        lambda observation: 0, env=NAMES[1], seeds=[0, 1], bindings=few, allow_weaker=True, progress=False
    )
    assert [len(run.returns) for run in runs] == [2, 2]
    trained = a2perf.train(entry, task=NAMES[0], allow_weaker=True, progress=False)
    assert trained.task == "tanks/Tank-v0"
    assert a2perf.make(NAMES[0]).reset(seed=3)[0].shape == (1,)
    assert a2perf.check(entry, task=NAMES[1], allow_weaker=True)
    (tmp_path / "general.gin").write_text(
        "import a2perf.submission.submission_util\nSubmission.mode = %BenchmarkMode.GENERALIZATION\n"
        f"Submission.domain = 'gymnasium'\nSubmission.generalization_tasks = {list(NAMES)!r}\n"
        "Submission.num_generalization_episodes = 1\n"
    )
    done(tmp_path, "run", "--submission", entry, "--gin-config", "general.gin", "--root-dir", "all", "--allow-weaker")
    played = sorted(path.parent.name for path in (tmp_path / "all").rglob("rollouts.json"))
    assert len(played) == 2


def test_an_id_alone_names_no_package(entry: Path, tmp_path: Path) -> None:
    ended = command("run", "--submission", entry, "--env-id", "Tank-v1", "--seeds", "0-1", cwd=tmp_path)
    assert ended.returncode == 2
    assert "name the package of another one: --env-id my_envs:ID" in ended.stderr
    assert any_environment.register(NAMES[0]) == IDS[0]
    assert any_environment.qualified_id(IDS[0]) == NAMES[0]
