"""Evaluators that are forked behave as those that are executed, and none outlives its launcher."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

import a2perf
from a2perf.launch import ExitStatus, RunCommand
from a2perf.launch.fork_server import started
from a2perf.launch.local import LocalJob, LocalLauncher
from a2perf.runs.bundles.process_identity import ProcessIdentity
from tests.api.evaluate_runs import BINDINGS, TASK, write_submission
from tests.commands import bindings, flags
from tests.waiting import PATIENCE_S, Child, until

SLOW = """
def load_policy(env):
    import time
    time.sleep(600)
"""


def _command(folder: Path, root: Path, *more: str) -> RunCommand:
    given = flags(submission=folder, gin_config="inference.gin", root_dir=root, task=TASK, sandbox="process")
    words = [*given, *bindings(*BINDINGS), *more]
    return RunCommand.evaluator(words, name=root.name, log=root.with_suffix(".log"))


def _ended(job: LocalJob) -> ExitStatus:
    return until(job.poll)


def _process(job: LocalJob) -> psutil.Process:
    return psutil.Process(ProcessIdentity.parse(job.identity).pid)


@pytest.fixture
def launcher():
    with closing(LocalLauncher()) as opened:
        yield opened


def test_the_second_evaluator_is_forked_and_writes_its_own_log(tmp_path: Path, launcher: LocalLauncher) -> None:
    folder = write_submission(tmp_path / "mine")
    assert _ended(launcher.start(_command(folder, tmp_path / "first"))).exit_code == 0
    job = launcher.start(replace(_command(folder, tmp_path / "second"), env={"A2PERF_LOCK_WAIT_S": "1"}))
    assert _process(job).ppid() != os.getpid()
    assert _ended(job).exit_code == 0
    assert "100 episodes" in (tmp_path / "first.log").read_text()
    first, second = (
        [line for line in (tmp_path / name).read_text().splitlines() if "/100" not in line]  # progress: by the clock
        for name in ("first.log", "second.log")
    )
    assert first == second
    wrong = launcher.start(_command(folder, tmp_path / "third", "--no-such-flag"))
    assert _ended(wrong).exit_code == 2
    assert "No such option" in (tmp_path / "third.log").read_text()
    assert _ended(launcher.start(_command(tmp_path / "nothing", tmp_path / "fourth"))).exit_code == 2
    assert "nothing does not exist" in (tmp_path / "fourth.log").read_text()


def test_a_killed_server_ends_its_run_and_the_next_one_is_executed(tmp_path: Path, launcher: LocalLauncher) -> None:
    folder, slow = write_submission(tmp_path / "mine"), write_submission(tmp_path / "slow", SLOW)
    assert _ended(launcher.start(_command(folder, tmp_path / "first"))).exit_code == 0
    job = launcher.start(_command(slow, tmp_path / "second"))
    until(lambda: "loading slow" in (tmp_path / "second.log").read_text())
    server = _process(job).parent()
    server.kill()
    ended = _ended(job)
    assert (ended.exit_code, ended.lost) == (None, True)
    assert ended.reason == "its evaluator was ended by SIGKILL"
    job = launcher.start(_command(folder, tmp_path / "third"))
    assert _process(job).ppid() == os.getpid()
    assert _ended(job).exit_code == 0


def test_a_server_that_ends_early_is_not_needed(tmp_path: Path, launcher: LocalLauncher) -> None:
    folder = write_submission(tmp_path / "mine")
    with started() as launcher.server:
        (server,) = psutil.Process().children()
        server.suspend()  # it has not answered when it ends
        ending = threading.Timer(1.0, server.kill)
        ending.start()
        job = launcher.start(_command(folder, tmp_path / "first"))
        ending.join(PATIENCE_S)
        assert _ended(job).exit_code == 0


def test_a_refused_call_ends_the_server_that_it_started() -> None:
    with pytest.raises(a2perf.UserError, match="no_such_option"):
        a2perf.evaluate(lambda seen: 0, env="CartPole-v1", no_such_option=1)  # type: ignore[call-overload]
    assert psutil.Process().children() == []


LAUNCHER = """
import sys
from pathlib import Path
from tests.launch.test_fork_server import _command, _ended, LocalLauncher
launcher, folder, slow, root = LocalLauncher(), *map(Path, sys.argv[1:])
_ended(launcher.start(_command(folder, root / "first")))
job = launcher.start(_command(slow, root / "second"))
print(job.identity, flush=True)
sys.stdin.read()
"""


def test_a_forked_run_ends_with_its_killed_launcher(tmp_path: Path) -> None:
    folder, slow = write_submission(tmp_path / "mine"), write_submission(tmp_path / "slow", SLOW)
    words = [sys.executable, "-c", LAUNCHER, str(folder), str(slow), str(tmp_path)]
    with Child(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as launcher:
        identity = launcher.stdout.readline().strip()
        until(lambda: "loading slow" in (tmp_path / "second.log").read_text())
        run = ProcessIdentity.parse(identity)
        server = psutil.Process(run.pid).parent()
        assert server.ppid() == launcher.pid
        launcher.kill()
        until(lambda: not run.alive() and not server.is_running())
    manifest = json.loads((tmp_path / "second" / "inference" / "manifest.json").read_text())
    assert manifest["state"] == "interrupted"
