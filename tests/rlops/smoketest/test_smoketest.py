"""Smoke tests of real submissions and algorithms: what passes, what is excluded, and that no failure hides another."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from a2perf.errors import UserError
from a2perf.experiments.smoke_test import plan
from tests.commands import run_a2perf


def test_pairs_are_excluded_by_what_they_can_do():
    pairs = plan(["sac", "dqn", "ppo"], [], ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1"])
    excluded = {(pair.what, pair.env): pair.excluded for pair in pairs if pair.excluded}
    assert excluded == {
        ("sac", "CartPole-v1"): "sac cannot act in a Discrete space",
        ("sac", "FrozenLake-v1"): "sac cannot act in a Discrete space",
        ("dqn", "Pendulum-v1"): "dqn cannot act in a Box space",
    }
    assert len(pairs) == 9


@pytest.mark.parametrize(
    ("algorithms", "submissions", "envs", "words"),
    [
        (["sacc"], [], ["CartPole-v1"], "did you mean 'sac'"),
        (["sac"], [], ["CartPol-v1"], "did you mean 'CartPole-v1'"),
        ([], [Path("nowhere")], ["CartPole-v1"], "nowhere is not a folder"),
        ([], [Path("examples/minimal")], ["CartPol-v1"], "Did you mean: `CartPole`"),
    ],
)
def test_unknown_names(algorithms: list[str], submissions: list[Path], envs: list[str], words: str):
    with pytest.raises(UserError, match=words):
        plan(algorithms, submissions, envs)


def test_one_failure_does_not_hide_the_others(tmp_path: Path, repository: Path):
    shutil.copytree(repository / "examples" / "minimal", tmp_path / "good")
    shutil.copytree(tmp_path / "good", tmp_path / "bad")
    inference = tmp_path / "bad" / "inference.py"
    inference.write_text(inference.read_text().replace("def infer_once", "raise OSError('spoilt')\n\n\ndef infer_once"))
    envs = ["--env-ids", "CircuitTraining-ToyMacro-v0", "CartPole-v1"]
    done = run_a2perf("smoketest", "--submissions", "bad", "good", *envs, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    pairs = json.loads((tmp_path / "runs" / "smoke_test" / "smoke_test.json").read_text())["pairs"]
    results = {
        (pair["what"], pair["env"]): {name: phase["result"] for name, phase in pair["phases"].items()} for pair in pairs
    }
    assert "failed" in results["bad", "CircuitTraining-ToyMacro-v0"].values()
    good = results["good", "CircuitTraining-ToyMacro-v0"]
    assert (good["construct"], good["train"], good["reload"]) == ("passed", "passed", "passed")
    assert results["good", "CartPole-v1"]["reload"] == "passed"
    assert results["good", "CartPole-v1"]["record"] == "not possible"
    suite = ElementTree.parse(tmp_path / "runs" / "smoke_test" / "junit.xml").getroot()
    assert suite.get("failures") == "2"
    assert "2 of 4 pairs failed" in done.stderr


def test_nothing_to_try(tmp_path: Path):
    done = run_a2perf("smoketest", "--env-ids", "CartPole-v1", cwd=tmp_path)
    assert done.returncode == 2
    assert "nothing to try" in done.stderr


@pytest.mark.slow
@pytest.mark.group("sb3")
def test_an_algorithm_goes_through_every_phase(tmp_path: Path):
    pair = ["--algorithms", "ppo", "--env-ids", "CartPole-v1"]
    done = run_a2perf("smoketest", *pair, "--steps", "128", "--json", cwd=tmp_path, check=True)
    (found,) = json.loads(done.stdout)["pairs"]
    assert {name: phase["result"] for name, phase in found["phases"].items() if name != "record"} == {
        "construct": "passed",
        "train": "passed",
        "reload": "passed",
    }
    assert (tmp_path / "runs" / "smoke_test" / "ppo-CartPole-v1" / "restored" / "rl_model_finished.zip").exists()
    assert "All smoke tests passed successfully." in done.stderr
