"""Everything between a participant's first instruction and the end of its last process counts, and is its own fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from a2perf.storage import read_json
from tests.made_submissions import STANDS, WEB, gin, policy
from tests.submission import wheels

SPIN = """
import atexit, os, time

def spin(seconds, folder=None):
    end = time.process_time() + seconds
    while time.process_time() < end:
        if folder is not None:  # what has been used so far: a busy host may end it before the time is over
            with open(f"{folder}/used-{os.getpid()}", "w") as file:
                file.write(f"{time.process_time():9.6f}")
"""
# Not os.fork, which Python 3.12 refuses to exit handlers.
TRAINS_AT_ITS_END = (
    SPIN
    + """
import subprocess, sys

def train():
    folder = os.environ["A2PERF_ARTIFACTS"]
    def after():
        child = subprocess.Popen([sys.executable, __file__, folder])
        spin(1.0, folder)
        child.wait()
    atexit.register(after)

if __name__ == "__main__":
    spin(1.0, sys.argv[1])
"""
)
SLEEPS_AT_ITS_END = """
import atexit, os, time

def train():
    open(os.environ["A2PERF_ARTIFACTS"] + "/weights", "w").close()
    atexit.register(time.sleep, 600)
"""
WEB_GIN = gin(WEB, "train")
ISOLATED = ("--python-env", "isolated", "--sandbox", "bubblewrap")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[object, ...]]:
    """Returns the options of runs whose requirements hold a package that runs code while the interpreter starts."""
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("A2PERF_OFFLINE", "1")

    def make(start_up: str, *, real: bool = False) -> tuple[object, ...]:
        folder = tmp_path / "wheels"
        if real:
            wheels.real_base(folder, "quadruped-locomotion")
        else:
            wheels.hollow_base(folder)
        wheels.write_wheel(folder, "evil", "1.0", {"evil.pth": "import evil_start\n", "evil_start.py": start_up})
        monkeypatch.setenv("UV_FIND_LINKS", str(folder))
        return ISOLATED

    return make


@pytest.mark.parametrize("level", ["none", "process", pytest.param("bubblewrap", marks=pytest.mark.group("bwrap"))])
def test_work_of_exit_handlers_and_their_children_is_training(level: str, submission, launch, noted) -> None:
    outcome = launch(submission(train=TRAINS_AT_ITS_END), "training.gin", "--sandbox", level)
    assert outcome.status == 0, outcome.output
    results = read_json(outcome.root / "train" / "metrics" / "train.json")
    tracking = read_json(outcome.root / "train" / "metrics" / "tracking.json")
    used = [float(file.read_text() or 0) for file in (outcome.root / "train" / "artifacts").glob("used-*")]
    assert len(used) == 2
    assert results["wall_s"] > max(used)
    assert results["wall_s"] > results["call_wall_s"] > 0
    assert tracking["cpu_seconds"] > sum(used)
    assert tracking["energy"]["net_kwh"] > 0
    assert {"start", "train_call", "exit"} <= set(outcome.manifest("train")["timings_s"])
    assert f"{results['wall_s'] - results['call_wall_s']:.1f} s of them outside of train()" in outcome.output
    noted("train after train() has returned", "counted", [level])


def test_the_time_limit_holds_after_train_has_returned(submission, launch) -> None:
    limit = ("--gin-bindings", "Submission.train_time_limit_s = 4.0")
    outcome = launch(submission(train=SLEEPS_AT_ITS_END), "training.gin", *limit)
    assert outcome.status == 0, outcome.output
    results = read_json(outcome.root / "train" / "metrics" / "train.json")
    assert (results["exit_reason"], results["artifact_files"]) == ("time limit", 1)
    assert results["wall_s"] >= 4.0
    assert any("outside of train()" in text for text in outcome.manifest("train")["warnings"])


@pytest.mark.group("bwrap")
@pytest.mark.group("pybullet")  # the robot in MuJoCo needs clips, which the cache of this test does not have
@pytest.mark.timeout(900)
def test_work_while_the_interpreter_starts_is_training(submission, launch, packages, noted) -> None:
    options = packages(SPIN + "spin(3.0)\n", real=True)
    entry = submission(requirements_txt="evil==1.0\n")
    outcome = launch(entry, "training.gin", *options, timeout=900)
    assert outcome.status == 0, outcome.output
    results = read_json(outcome.root / "train" / "metrics" / "train.json")
    tracking = read_json(outcome.root / "train" / "metrics" / "tracking.json")
    assert results["wall_s"] >= 3.0
    assert results["wall_s"] - results["call_wall_s"] >= 3.0
    assert tracking["cpu_seconds"] >= 3.0
    inference = launch(entry, "inference.gin", *options, timeout=900)
    assert inference.status == 0, inference.output
    timings = inference.manifest("inference")["timings_s"]
    assert timings["load_policy"] >= timings["start"] >= 3.0
    assert read_json(inference.root / "inference" / "metrics" / "tracking.json")["cpu_seconds"] >= 3.0
    noted("train while the interpreter starts", "counted", ["bubblewrap"])


@pytest.mark.group("bwrap")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("start_up", "kind"),
    [
        ("import os; os._exit(3)", "exit"),
        ("import os; os.kill(os.getpid(), 9)", "signal"),
        (
            "import os; [os.close(number) for number in range(3, 99) if os.path.exists(f'/proc/self/fd/{number}')]\n"
            "import time; time.sleep(600)",
            "bad_output",
        ),
    ],
    ids=["exits", "is killed", "closes the wire"],
)
def test_an_end_before_the_greeting_is_the_submissions_fault(
    start_up: str, kind: str, submission, launch, packages, noted
) -> None:
    entry = submission(requirements_txt="evil==1.0\n", training_gin=WEB_GIN)
    outcome = launch(entry, "training.gin", *packages(start_up), timeout=900)
    assert outcome.status == 1, outcome.output
    failure = outcome.manifest("train")["failure"]
    assert (failure["kind"], failure["where"]) == (kind, "start")
    assert "python_envs" not in outcome.output.replace(str(outcome.root), ""), "it names a foreign interpreter"
    noted("reroll: a package ends the interpreter while it starts", "its failure", ["bubblewrap"])


@pytest.mark.parametrize(("mode", "gin"), [("train", "training.gin"), ("inference", "inference.gin")])
def test_a_whole_run_has_a_limit_on_its_time(mode: str, gin: str, submission, launch) -> None:
    slow = submission(
        train="import time\ndef train():\n    time.sleep(600)\n",
        inference=policy(top="import time", load=STANDS, infer="time.sleep(0.2)\nreturn policy"),
    )
    outcome = launch(slow, gin, "--run-time-limit-s", 4)
    assert outcome.status == 1, outcome.output
    manifest = outcome.manifest(mode)
    assert (manifest["state"], manifest["exit_reason"], manifest["failure"]["kind"]) == ("failed", "timeout", "timeout")
    assert "limit of 4 s (Submission.run_time_limit_s)" in manifest["failure"]["message"]
