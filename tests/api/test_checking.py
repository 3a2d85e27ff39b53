"""``a2perf.check``: every problem at once, without a trace in the calling process."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import gin
import pytest
from click.testing import CliRunner

import a2perf
from a2perf.api import checking
from a2perf.cli.submission_folder import check as command
from a2perf.errors import InfrastructureError, UserError
from tests.made_submissions import policy
from tests.waiting import Child, until

TASK = "toy_macro_stdcell"


def broken(folder: Path) -> Path:
    """Leaves out a file, and lets the policy fail."""
    (folder / "requirements.txt").unlink()
    (folder / "inference.py").write_text(policy(load="return open('<b>weights</b>')"))
    return folder


def test_a_sound_submission_is_true_and_prints_what_the_command_prints(minimal: Path) -> None:
    report = a2perf.check(minimal, task=TASK, steps=2)
    assert report
    assert report.findings == ()
    result = CliRunner().invoke(
        command, [str(minimal), "--env-id", report.env_id, "--steps", "2"], standalone_mode=False
    )
    level, _, output = result.output.partition("\n")
    assert level.startswith("sandbox: ")
    assert (output, result.return_value) == (f"{report}\n", 0)
    assert str(report) == f"{minimal}: no problems; trained and stepped 2 times on CircuitTraining-ToyMacro-v0"


def test_problems_are_listed_in_a_report_that_travels(minimal: Path) -> None:
    report = a2perf.check(broken(minimal), task=TASK, steps=2)
    assert not report
    assert [finding.where for finding in report.findings] == ["requirements.txt", "load_policy"]
    assert "FileNotFoundError" in report.findings[1].message
    assert "2 problems" in repr(report)
    assert pickle.loads(pickle.dumps(report)) == report


def test_the_task_of_the_gin_files_is_the_default(minimal: Path) -> None:
    (minimal / "inference.gin").write_text(
        "import a2perf.submission.submission_util\n"
        "Submission.mode = 'inference'\nSubmission.domain = 'circuit_training'\n"
        "create_domain.env_name = 'CircuitTraining-ToyMacro-v0'\n"
    )
    assert a2perf.check(minimal, steps=1).env_id == "CircuitTraining-ToyMacro-v0"


def test_nothing_of_the_caller_changes(minimal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for a caller inside the submission, with a gin configuration, signal handlers and other threads."""

    @gin.configurable(module="test_checking")
    def mine(width: int = 0) -> int:
        return width

    gin.parse_config("test_checking.mine.width = 3")
    monkeypatch.chdir(minimal)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = (gin.config_str(), os.getcwd(), dict(os.environ), list(sys.path))
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append((a2perf.check(".", task=TASK, steps=1), mine()))) for _ in range(2)
    ]
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            assert (mine(), os.getcwd()) == (3, str(minimal))
            time.sleep(0.05)
        for thread in threads:
            thread.join(300)
        assert [(bool(report), width) for report, width in found] == [(True, 3), (True, 3)]
        assert before == (gin.config_str(), os.getcwd(), dict(os.environ), list(sys.path))
        assert handlers == {number: signal.getsignal(number) for number in handlers}
    finally:
        gin.clear_config()


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"submission": "nowhere"}, "nowhere is not a folder", "train.py and inference.py"),
        ({"artifacts": "results"}, "results is not a folder", "artifacts folder"),
        ({"task": "dog_pce"}, "'dog_pce' is not a task of any domain; did you mean 'dog_pace'?", "a2perf envs list"),
        ({"steps": 0}, "steps=0 is not valid", "1 or more"),
        ({"train_limit_s": 0}, "train_limit_s=0 is not valid", "above 0"),
        ({"train_limit_s": "soon"}, "train_limit_s='soon' is not valid", "above 0"),
        ({"sandbx": "none"}, "check has no option 'sandbx'; did you mean 'sandbox'?", "sandbox"),
        ({"public_seeds": True}, "check has no option 'public_seeds'", "sandbox"),
        ({"participant_args": {"lr": "1,2"}}, "participant_args: 'lr': '1,2' is not valid", "without commas"),
        ({"sandbox": "vault", "task": TASK}, "'vault' is not a sandbox level", "choose one of"),
    ],
)
def test_bad_arguments_say_what_is_valid(
    given: dict[str, Any], message: str, hint: str, minimal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(minimal.parent)
    with pytest.raises(UserError) as caught:
        a2perf.check(**{"submission": minimal, **given})
    assert message in caught.value.message
    assert hint in str(caught.value.hint)


def test_an_interrupt_ends_the_check_and_its_processes(minimal: Path, tmp_path: Path) -> None:
    (minimal / "train.py").write_text("import time\n\ndef train(**arguments):\n    time.sleep(600)\n")
    program = (
        "import signal, sys, a2perf\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"try:\n    a2perf.check({str(minimal)!r}, task={TASK!r}, train_limit_s=500)\n"
        "except KeyboardInterrupt:\n    print('interrupted')\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with Child([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment) as started:
        until(lambda: list(tmp_path.glob("a2perf-check-*/run")))
        time.sleep(2)
        started.send_signal(signal.SIGINT)
        assert started.communicate(timeout=300)[0] == "interrupted\n"
    assert list(tmp_path.glob("a2perf-check-*")) == []


def test_a_check_that_is_killed_is_the_fault_of_the_host(minimal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking.sys, "executable", shutil.which("false"))
    with pytest.raises(InfrastructureError, match="ended with exit status"):
        a2perf.check(minimal, task=TASK)
