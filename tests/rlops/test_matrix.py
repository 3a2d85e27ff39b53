"""The benchmark matrix with real commands: order, attribution of parallel runs, failures, resuming after a kill."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from a2perf.errors import UserError
from a2perf.experiments.benchmark_matrix import BenchmarkMatrix, command_matrix, run_matrix, submission_matrix
from a2perf.launch import Conductor, ExperimentResult, State, get_launcher
from a2perf.records import Manifest
from a2perf.rlops.store import Store
from a2perf.runs.bundles.bundle import validate
from a2perf.runs.bundles.run_record import AutotagRecord, ExperimentRun
from a2perf.runs.stores.store import read_curve
from a2perf.storage import read_record
from tests.commands import flags, run_command
from tests.rlops.made_runs import METRIC, events
from tests.waiting import Child, is_alive, until

PYTHON = shlex.quote(sys.executable)

SCRIPT = '''
"""Logs as single-file trainers do: an event file below ./runs, with the process id in its name, or a table."""
import argparse, os, pathlib, socket, sys, time

parser = argparse.ArgumentParser()
parser.add_argument("--env-id")
parser.add_argument("--seed", type=int)
parser.add_argument("--where", default="runs/{env}__train__{seed}__1700000000")
parser.add_argument("--sleep", type=float, default=0.15)
parser.add_argument("--marks", default="marks")
options = parser.parse_args()
print("tags", os.environ.get("WANDB_TAGS"), "mode", os.environ["WANDB_MODE"], flush=True)
pathlib.Path(options.marks).mkdir(exist_ok=True)
mark = pathlib.Path(options.marks, f"{options.env_id}-{options.seed}-{os.getpid()}")
mark.write_text("")
if options.env_id == "Broken-v0":
    print("about to break", flush=True)
    sys.exit(7)
if options.env_id == "Deadly-v0":
    os.kill(os.getpid(), 11)
points = pathlib.Path(f"points-{options.env_id}-{options.seed}").read_bytes()
folder = options.where.format(env=options.env_id, seed=options.seed)
folder = pathlib.Path(os.environ["A2PERF_RUN_DIR"] if folder == "given" else folder)
folder.mkdir(parents=True, exist_ok=True)
name = f"events.out.tfevents.1700000000.{socket.gethostname()}.{os.getpid()}.0"
with (folder / name).open("wb") as log:
    log.write(points)
    log.flush()
    time.sleep(options.sleep)
print("done", flush=True)
'''
ENVS = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    for number, env in enumerate(ENVS):
        for seed in range(1, 4):
            points = [(step, 100.0 * number + seed) for step in range(5)]
            (folder / f"points-{env}-{seed}").write_bytes(events({METRIC: points}))
    return folder


def planned(
    project: Path, *words: str, envs: tuple[str, ...] = ENVS, seeds: int = 3, alone: bool = False
) -> BenchmarkMatrix:
    command = " ".join([PYTHON, "train.py", *words])
    tag = AutotagRecord(tag="v1-dirty-12345678", describe="v1", dirty=True)
    return command_matrix(
        project / "runs",
        command,
        envs,
        range(1, seeds + 1),
        tag=lambda folder: tag,
        cwd=project,
        alone=alone,
        environment={"WANDB_TAGS": "mine"},
    )


def benchmark(*envs: str, words: str = "", seeds: int = 1, workers: int = 1) -> list[str]:
    """Returns the command line of a matrix."""
    train = f"{PYTHON} train.py {words}"
    given = flags(env_ids=envs, command=train, num_seeds=seeds, workers=workers, no_auto_tag=True, store="runs")
    return [sys.executable, "-m", "a2perf", "benchmark", *given]


def conducted(matrix: BenchmarkMatrix, workers: int, **watching: Any) -> ExperimentResult:
    with Conductor(get_launcher("local"), workers) as conductor:
        return run_matrix(matrix, conductor, **watching)


def test_nine_parallel_runs_each_get_their_own_curve(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)  # commands do not reach out unless the user says so
    # all write into one folder, at the same time, under names that tell nothing but the process
    matrix = planned(project, "--where", "runs/shared")
    result = conducted(matrix, workers=9)
    assert result.exit_code == 0
    store = Store(project / "runs")
    runs = store.runs()
    assert len(runs) == 9
    for run in runs:
        assert (run.state, run.record.experiment, run.record.source) == ("finished", "train", "command")
        assert run.record.tags == ["mine", "v1-dirty-12345678"]
        assert run.execution.wall_s is not None
        assert run.execution.wall_s > 0
        curve = read_curve(run)
        assert curve is not None
        assert run.record.seed is not None
        assert curve.values.tolist() == [100.0 * ENVS.index(run.record.env_id) + run.record.seed] * 5
        assert validate(run.folder.path / "command") == []
        log = (run.folder.path / "command" / "logs" / "output.log").read_text()
        assert log == "tags mine,v1-dirty-12345678 mode offline\ndone\n"


def test_usual_folder_names_and_the_folder_that_is_given(project: Path) -> None:
    assert conducted(planned(project, envs=ENVS[:1], seeds=1), workers=1).exit_code == 0
    assert conducted(planned(project, "--where", "given", envs=ENVS[:1], seeds=1), workers=1).exit_code == 0
    store = Store(project / "runs")
    usual, given = sorted(store.runs(), key=lambda run: run.record.config.get("where", ""))
    assert [curve.values[0] for run in (usual, given) if (curve := read_curve(run))] == [1.0, 1.0]
    record = read_record(usual.folder.path / "rlops.json", ExperimentRun)
    (note,) = record.notes
    assert note.startswith("runs/CartPole-v1__train__1__1700000000/events")
    assert record.config["exp_name"] == "train"
    assert (record.env_id, record.seed, record.version) == ("CartPole-v1", 1, "v1-dirty-12345678")
    assert record.command[-4:] == ["--env-id", "CartPole-v1", "--seed", "1"]
    # the script's own folder is left where the script put it
    assert list((project / "runs" / "CartPole-v1__train__1__1700000000").iterdir())


def test_failed_runs_are_told_and_cost_only_themselves(project: Path) -> None:
    matrix = planned(project, envs=("Broken-v0", "Deadly-v0", "CartPole-v1"), seeds=1)
    told: list[tuple[str, str | None, str]] = []
    result = conducted(
        matrix,
        workers=3,
        on_event=lambda event: (
            event.entry and told.append((event.entry.state.value, event.entry.kind, event.entry.reason))
        ),
    )
    assert result.exit_code == 1
    assert dict(result.failed) == {"exit": 1, "signal": 1}
    reasons = [reason for what, _, reason in told if what == "failed"]
    assert sum("ended with status 7" in reason for reason in reasons) == 1
    assert sum("was ended by SIGSEGV" in reason for reason in reasons) == 1
    states = {run.record.env_id: run for run in Store(project / "runs").runs()}
    assert {env: run.state for env, run in states.items()} == {
        "Broken-v0": "failed",
        "Deadly-v0": "failed",
        "CartPole-v1": "finished",
    }
    manifest = read_record(states["Broken-v0"].folder.path / "command" / "manifest.json", Manifest)
    assert manifest.failure is not None
    assert (manifest.failure.exit_code, manifest.failure.log) == (7, "logs/output.log")
    assert "about to break" in (manifest.failure.traceback or "")


def test_same_command_keeps_finished_runs_and_repeats_the_others(project: Path) -> None:
    envs = ("CartPole-v1", "Broken-v0")
    assert conducted(planned(project, envs=envs, seeds=1), workers=2).exit_code == 1
    before = {path.name for path in (project / "marks").iterdir()}
    kept: list[str] = []
    again = conducted(
        planned(project, envs=envs, seeds=1),
        workers=2,
        on_ready=lambda queue: kept.extend(one.key for one in queue.entries() if one.state is State.FINISHED),
    )
    assert [key.split("/")[1] for key in kept] == ["CartPole-v1"]
    assert (again.exit_code, again.attempts) == (1, 1)
    new = {path.name for path in (project / "marks").iterdir()} - before
    assert [name.rsplit("-", 2)[0] for name in new] == ["Broken-v0"]
    # a third environment leaves what is there alone
    more = conducted(planned(project, envs=("CartPole-v1", "Acrobot-v1"), seeds=1), workers=2)
    assert (more.exit_code, more.attempts, more.counts[State.FINISHED]) == (0, 1, 2)
    # other words, other runs
    assert planned(project, "--sleep 0").runs[0].folder != planned(project).runs[0].folder


def test_killed_matrix_goes_on_where_it_was(project: Path) -> None:
    words = benchmark(*ENVS, words="--sleep 0.4", workers=2)
    child = Child(words, cwd=project, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        until(lambda: (project / "marks").exists() and len(list((project / "marks").iterdir())) >= 2)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(300)
    until(lambda: not any(is_alive(int(path.name.rsplit("-", 1)[1])) for path in (project / "marks").iterdir()))
    until(lambda: not [run for run in Store(project / "runs").runs() if run.state == "running"])
    started = len(list((project / "marks").iterdir()))
    run_command(words, project, check=True)
    runs = Store(project / "runs").runs()
    assert [(run.state, run.record.seed) for run in runs] == [("finished", 1)] * 3
    assert all(len(list((run.folder.path / "command").rglob("events.out*"))) == 1 for run in runs)
    assert len(list((project / "marks").iterdir())) <= started + 3


def test_two_matrices_of_the_same_command_share_the_work(project: Path) -> None:
    words = benchmark(*ENVS[:2], seeds=2)
    children = [Child(words, cwd=project, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [child.communicate(timeout=300)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0], said
    assert all("4 of 4 runs finished, 0 failed" in out for out in said)
    assert len(list((project / "marks").iterdir())) == 4  # each was executed once
    assert [run.state for run in Store(project / "runs").runs()] == ["finished"] * 4


def test_interrupted_matrix_ends_its_commands_and_says_so(project: Path) -> None:
    words = benchmark("CartPole-v1", words="--sleep 600")
    child = Child(words, cwd=project, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        until(lambda: (project / "marks").exists() and list((project / "marks").iterdir()))
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=300)
    finally:
        child.kill()
    assert child.returncode == 130
    assert "run the same command again to resume them" in out
    (mark,) = (project / "marks").iterdir()
    assert not is_alive(int(mark.name.rsplit("-", 1)[1]))
    (run,) = Store(project / "runs").runs()
    assert run.state == "interrupted"


def test_leftover_of_a_command_is_ended_with_it(project: Path) -> None:
    (project / "daemon.py").write_text(
        "import argparse, pathlib, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        "pathlib.Path('pid').write_text(str(child.pid))\n"
    )
    matrix = command_matrix(project / "runs", f"{PYTHON} daemon.py", ["E"], [1], cwd=project, environment={})
    assert conducted(matrix, workers=1).exit_code == 0
    assert not is_alive(int((project / "pid").read_text()))
    assert matrix.plan.tags == []
    assert matrix.plan.version().startswith("untagged-")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("", "is empty"),
        ("python 'x", "cannot be split"),
        ("no-such-program x", "not a program on PATH"),
        (f"{PYTHON} no.py", "does not exist"),
    ],
)
def test_commands_that_cannot_run_are_refused(project: Path, command: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        conducted(command_matrix(project / "runs", command, ["E"], [1], cwd=project), workers=1)
    assert caught.value.exit_code == 2
    assert not (project / "runs").exists()


def test_submission_goes_through_the_evaluator(repository: Path, tmp_path: Path) -> None:
    matrix = submission_matrix(
        tmp_path,
        repository / "examples" / "greedy_placer",
        ["train.gin"],
        ["CircuitTraining-ToyMacro-v0"],
        [5],
        experiment="greedy",
        environment={"WANDB_TAGS": "mine"},
    )
    (line,) = matrix.command_lines()
    assert line.startswith("a2perf run --submission ")
    assert "--task CircuitTraining-ToyMacro-v0" in line  # the gin file may name another domain
    result = conducted(matrix, workers=1)
    assert result.exit_code == 0, (matrix.runs[0].folder / "launch.log").read_text()
    (run,) = Store(tmp_path).runs()
    assert (run.record.experiment, run.record.env_id, run.record.seed) == ("greedy", "CircuitTraining-ToyMacro-v0", 5)
    assert (run.record.source, run.state, list(run.logs), run.record.tags) == (
        "submission",
        "finished",
        ["train"],
        ["mine"],
    )
    manifest = read_record(run.folder.path / "train" / "manifest.json", Manifest)
    assert manifest.root_seed == 5
    assert conducted(matrix, workers=1).attempts == 0


def test_environments_and_seeds_are_given_once_each(project: Path) -> None:
    with pytest.raises(UserError, match="E is given twice"):
        command_matrix(project / "runs", "python train.py", ["E", "E"], [1], cwd=project)
    with pytest.raises(UserError, match="--env-ids is empty"):
        command_matrix(project / "runs", "python train.py", [], [1], cwd=project)
