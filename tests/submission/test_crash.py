"""Real processes, really killed: a readable bundle, no orphans, and the same command finishes the run."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from a2perf.runs.bundles.bundle import validate
from a2perf.storage import Journal
from tests.commands import bindings, command, launch, run_command
from tests.launch.remains import processes_of
from tests.made_submissions import policy
from tests.submission.test_disk_space import small_disk
from tests.waiting import Child, until

SLOW_POLICY = policy(
    top="import subprocess, sys, time",
    load="""
    # a worker of the participant's own, which ignores polite requests to end
    subprocess.Popen([sys.executable, "-c",
        "import signal, time, os; os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"])
    return np.zeros(env.action_space.shape, np.float32)
    """,
    infer="time.sleep(0.004)\nreturn policy",
)
SLOW_TRAIN = """
def train():
    import os, pathlib, time
    state = pathlib.Path(os.environ["A2PERF_ARTIFACTS"], "step.txt")
    step = int(state.read_text()) if state.exists() else 0
    while step < 40:
        step += 1
        state.write_text(str(step))
        time.sleep(0.05)
"""


def episodes_in(root: Path) -> int:
    return sum(1 for entry in Journal(root / "inference" / "journal.jsonl").entries() if entry["kind"] == "episode")


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "the bundle was made": lambda root: (root / "inference" / "manifest.json").exists(),
    "the participant's log was opened": lambda root: (root / "inference" / "logs" / "stdout.log").exists(),
    "latency was written": lambda root: (root / "inference" / "metrics" / "latency.json").exists(),
    "two episodes were played": lambda root: episodes_in(root) >= 2,
}


@pytest.mark.parametrize(
    ("moment", "sent"),
    [
        *((moment, signal.SIGKILL) for moment in MOMENTS),
        *(
            pytest.param(moment, signal.SIGINT, marks=() if moment == "two episodes were played" else pytest.mark.slow)
            for moment in MOMENTS
        ),
    ],
)
def test_killed_launcher_leaves_a_readable_bundle_and_the_same_command_resumes(
    moment: str, sent: signal.Signals, submission, tmp_path: Path
) -> None:
    path, root = submission(inference=SLOW_POLICY), tmp_path / "root"
    given = bindings("Submission.num_inference_episodes = 4", "Submission.measure_emissions = True")
    argv = command("--submission", path, "--gin_config", "inference.gin", "--root_dir", root, *given)
    process = Child(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: MOMENTS[moment](root))
    before = episodes_in(root)
    process.send_signal(sent)
    process.wait(timeout=300)
    until(lambda: not processes_of(tmp_path))
    manifest = json.loads((root / "inference" / "manifest.json").read_text())
    assert manifest["state"] in ("interrupted", "running")
    assert validate(root / "inference")
    run_command(argv, tmp_path, check=True)
    manifest = json.loads((root / "inference" / "manifest.json").read_text())
    assert manifest["state"] == "finished"
    assert len(manifest["attempts"]) == 2
    assert validate(root / "inference") == []
    rollouts = json.loads((root / "inference" / "metrics" / "rollouts.json").read_text())
    assert [episode["index"] for episode in rollouts["episodes"]] == [0, 1, 2, 3]
    assert episodes_in(root) == 4, "no episode counts twice"
    assert before <= 4
    assert not processes_of(tmp_path)


def test_resumed_run_has_the_same_numbers_as_an_undisturbed_one(submission, tmp_path: Path) -> None:
    path, root = submission(inference=SLOW_POLICY), tmp_path / "disturbed"
    argv = command("--submission", path, "--gin_config", "inference.gin", "--root_dir", root)
    process = Child(argv, cwd=tmp_path, stderr=subprocess.DEVNULL)
    until(lambda: episodes_in(root) >= 1)
    process.kill()
    process.wait(300)
    assert run_command(argv, tmp_path).returncode == 0
    argv[argv.index(str(root))] = str(tmp_path / "undisturbed")
    assert run_command(argv, tmp_path).returncode == 0

    def returns(folder: Path) -> list[float]:
        record = json.loads((folder / "inference" / "metrics" / "rollouts.json").read_text())
        return [episode["episode_return"] for episode in record["episodes"]]

    assert returns(root) == returns(tmp_path / "undisturbed")


def test_killed_training_goes_on_from_its_own_checkpoint(submission, tmp_path: Path) -> None:
    path, root = submission(train=SLOW_TRAIN), tmp_path / "root"
    argv = command("--submission", path, "--gin_config", "training.gin", "--root_dir", root)
    process = Child(argv, cwd=tmp_path, stderr=subprocess.DEVNULL)
    state = root / "train" / "artifacts" / "step.txt"
    until(lambda: state.exists() and state.read_text() not in ("", "1", "2"))
    process.kill()
    process.wait(300)
    until(lambda: not processes_of(tmp_path))
    reached = int(state.read_text() or 0)
    assert 0 < reached < 40
    run_command(argv, tmp_path, check=True)
    assert state.read_text() == "40"
    assert len(json.loads((root / "train" / "manifest.json").read_text())["attempts"]) == 2


@pytest.mark.group("root")
def test_full_disk_is_an_infrastructure_failure_and_keeps_what_was_written(submission, tmp_path: Path) -> None:
    code = """
    def train():
        import os
        with open(os.environ["A2PERF_ARTIFACTS"] + "/big", "wb") as stream:
            try:
                while True:
                    stream.write(b"x" * 4096)
                    stream.flush()
            except OSError:
                pass
    """
    with small_disk(tmp_path, "256k") as disk:
        given = ("--submission", submission(train=code), "--gin_config", "training.gin", "--root_dir", disk / "run")
        ended = launch(*given, cwd=tmp_path)
        assert ended.returncode == 3, ended.stderr
        assert "space" in ended.stderr
        assert "Traceback" not in ended.stderr.split("output of the submission:")[0] or "No space left" in ended.stderr
        assert json.loads((disk / "run" / "train" / "manifest.json").read_text())["mode"] == "train"
