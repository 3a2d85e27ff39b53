"""``a2perf.submit``: a protocol from Python, with failed runs as a result and refusals as errors."""

from __future__ import annotations

import json
import pickle
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import a2perf
from a2perf.api.submitting import read_submitted
from a2perf.cli.submit import submit_command
from a2perf.errors import ConfigError, RunFailed, UserError

TOY = "toy_macro_stdcell"
POLICY = """
import os
def load_policy(env, **arguments):
    if os.environ["A2PERF_BROKEN"] == os.environ["SEED"]:
        raise RuntimeError("this seed is not mine")
    env.action_space.seed(0)
    return env.action_space
def preprocess_observation(observation):
    return observation
def infer_once(policy, observation):
    return policy.sample(observation["mask"].astype("int8"))
"""
QUICK: dict[str, Any] = {"quick": True, "tasks": [TOY], "generalization": False, "progress": False}


@pytest.fixture
def submission(tmp_path: Path) -> Callable[..., Path]:
    """Writes a submission without training; with ``broken``, every run fails."""

    def write(*, broken: bool = False) -> Path:
        folder = tmp_path / "entry"
        folder.mkdir(exist_ok=True)
        policy = POLICY.replace('os.environ["A2PERF_BROKEN"] == os.environ["SEED"]', str(broken))
        files = {
            "train.py": "def train():\n    pass\n",
            "inference.py": policy,
            "requirements.txt": "",
            "__init__.py": "",
        }
        for name, text in files.items():
            (folder / name).write_text(text)
        return folder

    return write


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(submit_command, [str(one) for one in arguments], standalone_mode=False)


def test_result_of_a_thread_is_that_of_the_command(
    submission: Callable[..., Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    entry, folder = submission(), tmp_path / "runs"
    handlers = signal.getsignal(signal.SIGINT)
    found: list[a2perf.Submitted] = []
    thread = threading.Thread(target=lambda: found.append(a2perf.submit(entry, folder, **QUICK)))
    thread.start()
    thread.join(300)
    (result,) = found
    assert (bool(result), result.exit_code, result.complete, result.rankable) == (True, 0, True, False)
    assert (result.failed, result.interrupted) == ([], False)
    assert list(result.scores) == [TOY]
    assert result.overall.seeds == result.overall.expected == 3
    assert capfd.readouterr() == ("", "")
    assert signal.getsignal(signal.SIGINT) is handlers

    told = run(entry, "-o", folder, "--quick", "--task", TOY, "--no-generalization")
    assert (told.return_value, told.stdout) == (0, f"{result}\n")
    told = run(entry, "-o", folder, "--quick", "--task", TOY, "--no-generalization", "--json")
    assert json.loads(told.stdout) == json.loads((folder / "protocol.json").read_text())
    assert read_submitted(folder) == result == pickle.loads(pickle.dumps(result))

    frame = result.to_pandas()
    assert list(frame["mode"]) == ["inference"] * 3
    assert list(frame["state"]) == ["finished"] * 3
    assert list(frame["mean_return"]) == [entry.mean_return for entry in result.record.runs]
    assert "made with --quick, a reduced protocol" in " ".join(repr(result).split())


def test_failed_runs_are_a_result(submission: Callable[..., Path], tmp_path: Path) -> None:
    entry, folder = submission(broken=True), tmp_path / "runs"
    result = a2perf.submit(entry, folder, **QUICK)
    assert (bool(result), result.exit_code) == (False, 1)
    assert [(failed.seed, failed.state) for failed in result.failed] == [(1, "failed"), (2, "failed"), (3, "failed")]
    assert result.overall.iqm is None
    assert run(entry, "-o", folder, "--quick", "--task", TOY, "--no-generalization").return_value == 1


def test_a_stopped_call_resumes(submission: Callable[..., Path], tmp_path: Path) -> None:
    entry, folder = submission(), tmp_path / "runs"
    stopped = a2perf.submit(entry, folder, stop=lambda: True, **QUICK)
    assert (stopped.interrupted, stopped.complete, stopped.failed) == (True, False, [])
    assert [one.state for one in stopped.record.runs] == ["missing"] * 3
    assert a2perf.submit(entry, folder, **QUICK).complete


@pytest.mark.slow
def test_nothing_that_started_is_an_error(
    submission: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command still prints the summary, and exits with 3."""
    from a2perf.launch import local

    monkeypatch.setattr(local.sys, "executable", "/bin/false")
    entry, folder = submission(), tmp_path / "runs"
    with pytest.raises(RunFailed, match="no run of entry started") as caught:
        a2perf.submit(entry, folder, **QUICK)
    assert (caught.value.exit_code, caught.value.bundle) == (3, folder)
    told = run(entry, "-o", folder, "--quick", "--task", TOY, "--no-generalization")
    assert told.return_value == 3
    assert "0 of 3 finished" in told.stdout


@pytest.mark.parametrize(
    ("given", "message", "hint", "flags"),
    [
        ({"submission": "nowhere"}, "the submission folder nowhere does not exist", "train.py", None),
        ({"protocol": "v9"}, "'v9' is not a protocol", "v1", ["--protocol", "v9"]),
        (
            {"tasks": "dog_pce"},
            "protocol v2 has no task 'dog_pce'; did you mean 'dog_pace'?",
            "choose one of",
            ["--task", "dog_pce"],
        ),
        (
            {"tasks": [TOY], "domain": "circuit_training"},
            "--task and --domain are both given",
            "one of them",
            ["--task", TOY, "--domain", "circuit_training"],
        ),
        ({"domain": "circuits"}, "'circuits' is not a known domain", "choose", ["--domain", "circuits"]),
        ({"track": "opn"}, "track is 'opn'; did you mean 'open'?", "fixed_energy", None),
        ({"workers": 0}, "workers=0 is not valid", "1 or more", None),
        ({"launcher": "slrm"}, "'slrm' is not a launcher; did you mean 'slurm'?", "local", ["--launcher", "slrm"]),
        ({"sandbx": "none"}, "submit has no option 'sandbx'; did you mean 'sandbox'?", "python_env", None),
        ({"memory_limit_bytes": 1}, "submit has no option 'memory_limit_bytes'", "sandbox", None),
        ({"sandbox": "vault"}, "'vault' is not a sandbox level", "choose one of", None),
        ({"participant_args": {"lr": "1,2"}}, "participant_args: 'lr': '1,2' is not valid", "without commas", None),
        ({"bindings": ["Submission.seed = 3"]}, "Submission.seed", "", ["--gin-bindings", "Submission.seed = 3"]),
    ],
)
def test_bad_arguments_say_what_is_valid_and_run_nothing(
    given: dict[str, Any],
    message: str,
    hint: str,
    flags: list[str] | None,
    submission: Callable[..., Path],
    tmp_path: Path,
) -> None:
    """With ``flags``, the command refuses the same with the same text."""
    with pytest.raises(UserError) as caught:
        a2perf.submit(**{"submission": submission(), "folder": tmp_path / "runs", **given})
    assert message in caught.value.message
    assert hint in str(caught.value.hint)
    if flags is not None:
        assert str(run(submission(), "-o", tmp_path / "runs", *flags).exception) == str(caught.value)
    assert not (tmp_path / "runs" / "protocol.json").exists()


def test_another_submission_in_the_folder_is_refused(submission: Callable[..., Path], tmp_path: Path) -> None:
    entry, folder = submission(), tmp_path / "runs"
    a2perf.submit(entry, folder, stop=lambda: True, **QUICK)
    (entry / "inference.py").write_text(POLICY)
    with pytest.raises(ConfigError, match="holds another submission"):
        a2perf.submit(entry, folder, **QUICK)
