"""Performance tests conducted for real: child processes in a store, their verdicts, messages and exit statuses."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.commands import run_a2perf

SCRIPT = """
import argparse, os, sys, time
from pathlib import Path
from a2perf.runs.events.event_writer import EventWriter

parser = argparse.ArgumentParser()
parser.add_argument("--env-id")
parser.add_argument("--seed", type=int)
parser.add_argument("--bad", type=int, nargs="*", default=[])
parser.add_argument("--crash", type=int, nargs="*", default=[])
parser.add_argument("--slow", type=int, nargs="*", default=[])
parser.add_argument("--nan", type=int, nargs="*", default=[])
given = parser.parse_args()
if given.seed in given.crash:
    raise RuntimeError("crashed as asked")
if given.seed in given.slow:
    time.sleep(600)
with EventWriter(Path(os.environ["A2PERF_RUN_DIR"])) as writer:
    for step in range(1, 11):
        value = 0.1 if given.seed in given.bad else step / 10
        writer.scalar("eval/score", float("nan") if step == 10 and given.seed in given.nan else value, 100 * step)
"""
TEST = """
env: Toy-v0
command: {python} script.py {words}
performance_testing_conditions:
  {{total_runs: {total}, succ_runs: {succ}, eval_columns: {column}, eval_value: 0.9, on_crash: {crash}, {more}}}
hydra: {{sweeper: {{n_jobs: {jobs}, study_name: toy, max_duration_minutes: {minutes}}}}}
"""

FRAMEWORK_TEST = """
env: toy_macro_stdcell
submission: learner
gin_configs: training.gin
flags: [--domain, circuit_training]
performance_testing_conditions: {total_runs: 1, succ_runs: 1, eval_columns: rollouts/mean_return, eval_value: 0}
hydra: {sweeper: {study_name: learner}}
"""

TRAINING_TEST = """
defaults: [override /algorithm: ppo]
env: Acrobot-v0
performance_testing_conditions:
  {total_runs: 1, succ_runs: 1, eval_columns: eval/mean_reward, eval_value: -500, max_steps: 2_000}
hydra: {sweeper: {study_name: ppo}}
"""


class Folder:
    """A project with a script and its tests."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "script.py").write_text(SCRIPT)

    def write(
        self,
        words: str = "",
        *,
        name: str = "Toy/a-test",
        total: int = 3,
        succ: int = 2,
        jobs: int = 2,
        column: str = "eval/score",
        crash: str = "count_as_failure",
        minutes: float = 5.0,
        more: str = "",
    ) -> None:
        path = self.path / "conf" / "performance" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            TEST.format(
                python=sys.executable,
                words=words,
                total=total,
                succ=succ,
                jobs=jobs,
                column=column,
                crash=crash,
                minutes=minutes,
                more=more,
            )
        )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run_a2perf("perftest", *words, cwd=self.path)

    def result(self, name: str = "Toy/a-test") -> dict:
        return json.loads((self.path / "runs" / "performance_tests" / name / "performance_test.json").read_text())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_test_that_passes_stops_when_it_is_certain_and_is_not_repeated(folder: Folder):
    folder.write(jobs=1)
    done = folder.run("run", "Toy/a-test")
    assert done.returncode == 0, done.stderr
    assert "Performance test Toy/a-test successful! The value for eval/score was at least 0.9 in 2 runs." in done.stdout
    assert re.search(r"Performance testing runs for \d+:\d\d:\d\d of 0:05:00\. Max\. 3 runs left\.", done.stdout)
    result = folder.result()
    assert [run["state"] for run in result["runs"]] == ["met", "met", "not run"]
    assert result["pass_probability"]["0.8"] == pytest.approx(0.896)
    again = folder.run("run", "Toy/a-test")
    assert again.returncode == 0
    assert again.stdout.count("finished before") == 2


def test_a_test_that_fails_counts_a_crash_as_a_run_that_missed(folder: Folder):
    folder.write("--bad 0 --crash 1")
    done = folder.run("run", "Toy/a-test")
    assert done.returncode == 1
    assert (
        "Performance test Toy/a-test failed. The needed number of successful runs could not be achieved." in done.stdout
    )
    states = {run["seed"]: run["state"] for run in folder.result()["runs"]}
    assert (states[0], states[1]) == ("missed", "crashed")
    junit = ElementTree.parse(folder.path / "runs" / "performance_tests" / "junit.xml").getroot()
    assert (junit.get("tests"), junit.get("failures"), junit.get("errors")) == ("1", "1", "0")
    assert "seed 1: crashed" in (junit.findtext("testcase/failure") or "")


def test_a_crash_can_end_the_test(folder: Folder):
    folder.write("--crash 0", jobs=1, crash="abort", total=5)
    assert folder.run("run", "Toy/a-test").returncode == 1
    assert [run["state"] for run in folder.result()["runs"]] == ["crashed", *["not run"] * 4]


def test_a_verdict_cancels_the_runs_that_no_longer_count(folder: Folder):
    folder.write("--slow 2", jobs=3)
    done = folder.run("run", "Toy/a-test")
    assert done.returncode == 0
    assert [run["state"] for run in folder.result()["runs"]] == ["met", "met", "not run"]


def test_a_test_that_runs_out_of_time(folder: Folder):
    folder.write("--slow 0 1 2", minutes=0.05)
    done = folder.run("run", "Toy/a-test")
    assert done.returncode == 1
    assert (
        "The needed number of successful runs could not be achieved within 0.05 minutes "
        "for performance test Toy/a-test." in done.stdout
    )


@pytest.mark.parametrize(
    ("words", "changes", "value", "said", "reason"),
    [
        (
            "",
            {"column": "eval/success_rate"},
            None,
            "missed (eval/success_rate never logged)",
            "never logged eval/success_rate; it logged eval/score",
        ),
        ("--nan 0", {}, None, "missed (eval/score nan)", "eval/score is not a finite number, which meets no condition"),
        (
            "",
            {"more": "max_steps: 850"},
            pytest.approx(0.9),
            "met (eval/score 0.9)",
            "eval/score of step 900, the first value at or after max_steps = 850",
        ),
    ],
)
def test_what_is_odd_about_a_run_is_said(
    folder: Folder, words: str, changes: dict[str, str], value: object, said: str, reason: str
):
    folder.write(words, total=1, succ=1, **changes)  # type: ignore[arg-type]
    done = folder.run("run", "Toy/a-test")
    (run,) = folder.result()["runs"]
    assert (done.returncode, run["state"], run["values"], run["reason"]) == (
        int(value is None),
        "missed" if value is None else "met",
        [value],
        reason,
    )
    assert said in done.stdout
    assert reason in done.stdout


def test_all_tests_with_one_left_out(folder: Folder):
    folder.write(total=1, succ=1)
    folder.write("--bad 0", name="Toy/b-test", total=1, succ=1)
    folder.write("--bad 0", name="Other/c-test", total=1, succ=1)
    folder.write(name="top-test", total=1, succ=1)
    (folder.path / "conf" / "performance" / "Toy" / "a-opti.yaml").write_text("env: Toy-v0\n")
    done = folder.run("run", "--skip", "Other/*")
    assert done.returncode == 1
    assert "performance tests: 3, 1 left out; not under version control" in done.stdout
    assert "not passed: Toy/b-test" in done.stdout
    assert "== top-test" in done.stdout
    assert "not tests (no performance_testing_conditions): Toy/a-opti" in done.stdout
    listed = folder.run("list")
    assert "Toy/a-test: eval/score >= 0.9 in 1 of 1 runs on Toy-v0" in listed.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["Toy/b-test"], "did you mean 'Toy/a-test'"),
        (["Toy/a-test", "--n-jobs", "0"], "--n-jobs"),
        (["Toy/a-test"], "script.py, which does not exist"),
    ],
)
def test_bad_words_and_a_missing_script(folder: Folder, words: list[str], said: str):
    folder.write()
    (folder.path / "script.py").unlink()
    done = folder.run("run", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_package_of_a_program_is_no_verdict_and_no_failure(folder: Folder):
    folder.write()
    (folder.path / "script.py").write_text("import a_package_of_nobody\n")
    done = folder.run("run", "Toy/a-test")
    assert done.returncode == 3
    assert "ModuleNotFoundError: No module named 'a_package_of_nobody'. Install the package" in done.stdout
    assert folder.result()["verdict"] == "open"
    junit = ElementTree.parse(folder.path / "runs" / "performance_tests" / "junit.xml").getroot()
    assert (junit.get("failures"), junit.get("errors")) == ("0", "1")
    matrix = ["--env-ids", "Toy-v0", "--num-seeds", "1", "--workers", "1", "--store", "other"]
    done = run_a2perf("benchmark", "--command", f"{sys.executable} script.py", *matrix, cwd=folder.path)
    assert done.returncode == 3
    assert "missing package: ModuleNotFoundError: No module named 'a_package_of_nobody'" in done.stdout


def test_a_missing_framework_of_a_submission_is_no_verdict_and_no_failure(folder: Folder):
    (folder.path / "conf" / "performance").mkdir(parents=True)
    (folder.path / "conf" / "performance" / "learner-test.yaml").write_text(FRAMEWORK_TEST)
    learner = folder.path / "learner"
    learner.mkdir()
    for name in ("__init__.py", "requirements.txt", "inference.py"):
        (learner / name).touch()
    framework = "from a2perf.domains.tfa.legacy_keras import tf_agents_module"
    (learner / "train.py").write_text(f"{framework}\ntf_agents_module('tf_agents.of_nobody')\n")
    done = folder.run("run", "learner-test")
    assert done.returncode == 3, done.stdout + done.stderr
    assert re.search(r"no verdict: TF-Agents needs the package '.*', which is not installed; pip install", done.stdout)
    assert folder.result("learner-test")["verdict"] == "open"


@pytest.mark.parametrize(
    "words",
    [("perftest", "run", "FetchReach/sac_her-test"), ("smoketest", "--algorithms", "sac", "--env-ids", "Pendulum-v1")],
)
def test_a_missing_package_of_the_runner_is_found_before_anything_runs(
    repository: Path, tmp_path: Path, words: tuple[str, ...]
):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['stable_baselines3'] = None\n")
    copy = shutil.copytree(repository / "compatibility" / "conf", tmp_path / "conf")
    own = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = run_a2perf(*words, cwd=tmp_path, env=own)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "a2perf: the packaged runner needs packages that are not installed: stable_baselines3"
    )
    assert "  Hint: pip install -e '.[perftest]'" in done.stderr
    assert len(done.stderr.splitlines()) == 2
    assert sorted(tmp_path.iterdir()) == [copy, tmp_path / "sitecustomize.py"]


@pytest.mark.slow
@pytest.mark.group("sb3")
def test_another_version_of_the_environment_is_announced(folder: Folder):
    (folder.path / "conf" / "performance").mkdir(parents=True)
    (folder.path / "conf" / "performance" / "ppo-test.yaml").write_text(TRAINING_TEST)
    done = folder.run("run", "ppo-test")
    assert "notice: Acrobot-v0 is not installed; Acrobot-v1 is used" in done.stdout, done.stderr
    assert "Performance test ppo-test successful!" in done.stdout


def test_a_test_that_cannot_run_is_no_verdict_beside_those_that_can(folder: Folder, repository: Path) -> None:
    folder.write()
    shutil.copytree(
        repository / "compatibility" / "conf" / "performance" / "FetchReach",
        folder.path / "conf/performance/FetchReach",
    )
    (folder.path / "sitecustomize.py").write_text("import sys\nsys.modules['stable_baselines3'] = None\n")
    done = run_a2perf("perftest", "run", cwd=folder.path, env={**os.environ, "PYTHONPATH": str(folder.path)})
    assert done.returncode == 3, done.stdout + done.stderr
    assert "FetchReach/sac_her-test came to no verdict: the packaged runner needs packages" in done.stdout
    assert "Hint: pip install -e '.[perftest]'" in done.stdout
    assert "Performance test Toy/a-test successful!" in done.stdout
