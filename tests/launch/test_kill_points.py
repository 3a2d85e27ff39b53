"""SIGKILL at named points: the same command finishes the experiment, with the results of an undisturbed one.

Every point runs a real experiment with real processes. ``docs/reference/experiments.md`` holds the table of the points.
"""

from __future__ import annotations

import contextlib
import json
import signal
from pathlib import Path

import psutil
import pytest

from a2perf.launch.conductor import QUEUE_FILE
from a2perf.launch.queue import Queue
from a2perf.launch.queue_entry import State
from a2perf.runs.bundles.attempts import OUT_OF_REACH
from a2perf.runs.bundles.bundle import validate
from a2perf.sandbox import available_levels, strongest_level
from a2perf.storage import Journal
from tests.launch.entries import Stage
from tests.launch.remains import leftovers, processes_of

BOTH = ("--gin_config", "training.gin", "inference.gin", "--workers", "1")
ONE = ("--gin_config", "inference.gin", "--workers", "1")

LAUNCHER = (
    "launcher: planned",
    "launcher: queued",
    "launcher: leased",
    "launcher: started",
    "launcher: running",
    "launcher: ended",
    "launcher: settled",
    "launcher: driven",
)
EVALUATOR = (
    "evaluator: bundle locked",
    "write manifest.json",
    "evaluator: home made",
    "evaluator: participant started",
    "write latency.json",
    "evaluator: latency measured",
    "evaluator: episode played",
    "evaluator: episode recorded",
    "write rollouts.json",
    "evaluator: files hashed",
)
BEFORE_THE_PARTICIPANT = EVALUATOR[:3]
TRACKER = ("tracker: row written", "write tracking.json")
PARTICIPANT = (
    "participant: import",
    "participant: load_policy",
    "participant: infer_once",
    "participant: train",
    "guard: infer_once",
)
OUTSIDE = (
    *(
        (level, victim)
        for level in ("process", "bubblewrap")
        for victim in ("a2perf.submission.participant.worker", "guard.main", "main_submission")
    ),
    ("bubblewrap", "bwrap"),
)
TASK = ("task: policy loaded",)
POINTS = (*LAUNCHER, *EVALUATOR, *TRACKER, *PARTICIPANT)
QUICK = {
    "launcher: queued",
    "launcher: leased",
    "launcher: started",
    "launcher: ended",
    "launcher: settled",
    "evaluator: bundle locked",
    "evaluator: home made",
    "evaluator: episode recorded",
    "write rollouts.json",
    "evaluator: files hashed",
    "tracker: row written",
    "participant: infer_once",
    "guard: infer_once",
}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The results of the experiment when nobody dies."""
    stage = Stage(tmp_path_factory.mktemp("undisturbed"), BOTH)
    status, output = stage.run()
    assert status == 0, output
    return stage.results()


def point_cases() -> list[object]:
    return [pytest.param(point, marks=() if point in QUICK else pytest.mark.slow) for point in POINTS]


def expected_status(point: str) -> int:
    """A dead participant is a failed run; a dead evaluator is replaced if no participant can have killed it."""
    if point in LAUNCHER:
        return -signal.SIGKILL
    if point in PARTICIPANT:
        return 1
    return 0 if point in BEFORE_THE_PARTICIPANT or strongest_level() in OUT_OF_REACH else 3


def wish_of(status: int) -> tuple[str, ...]:
    """What starts a run again that ended with that status: nothing but the command if the launcher was killed."""
    return {1: ("--retry=failed",), 3: ("--retry=infrastructure",)}.get(status, ())


@pytest.mark.parametrize("point", point_cases())
def test_same_command_finishes_after_sigkill(point: str, tmp_path: Path, undisturbed: dict[str, object]) -> None:
    both = point in LAUNCHER or point == "participant: train"
    stage = Stage(tmp_path, BOTH if both else ONE)
    if point in PARTICIPANT:
        stage.environment["KILL_AT"] = point
        stage.arguments += ("--sandbox", "process")
    else:
        stage.environment["A2PERF_FAULT_POINT"] = point
    status, output = stage.run()
    assert status == expected_status(point), output
    killed = stage.folder / ("participant" if point in PARTICIPANT else "killed")
    assert killed.exists(), "nobody came to that point"

    wish = wish_of(status)
    if wish:
        again, output = stage.run("--json")
        assert again == status, "a run that its participant may have ended starts again by itself"
        assert json.loads(output[output.index("{\n") : output.rindex("}") + 1])["jobs_started"] == 0
    status, output = stage.run(*wish)
    assert status == 0, output
    wanted = {name: value for name, value in undisturbed.items() if both or name.endswith("inference")}
    assert stage.results() == wanted
    for bundle in stage.bundles().values():
        assert validate(bundle) == []
        indices = [item["episode"]["index"] for item in Journal(bundle / "journal.jsonl").entries()]
        assert len(indices) == len(set(indices)), "an episode counts twice"
    with Queue(stage.root / QUEUE_FILE) as queue:
        entries = queue.entries()
        assert [entry.state for entry in entries] == [State.FINISHED] * len(wanted)
        for entry in entries:
            assert sum(change["state"] == "finished" for change in queue.history(entry.key)) == 1
    assert leftovers(stage.folder) == []


@pytest.mark.slow
@pytest.mark.parametrize(("level", "victim"), [pair for pair in OUTSIDE if pair[0] in available_levels()])
def test_a_process_killed_from_outside_leaves_nothing_at_any_level(level: str, victim: str, tmp_path: Path) -> None:
    bindings = ("--gin_bindings", "Submission.num_inference_episodes = 5000")
    stages = [Stage(tmp_path / name, (*ONE, *bindings, "--sandbox", level)) for name in ("disturbed", "whole")]
    process = stages[0].start()
    stages[0].wait_for("entry/*/seed_0/inference/journal.jsonl")
    for found in processes_of(stages[0].folder):
        with contextlib.suppress(psutil.Error):
            program, *words = found.cmdline() or [""]
            if victim in program or ("bwrap" not in program and any(victim in word for word in words)):
                found.kill()
    output, errors = process.communicate(timeout=300)
    status = 1 if victim != "main_submission" else 0 if level in OUT_OF_REACH else 3
    assert process.returncode == status, output + errors
    for stage, wish in zip(stages, (wish_of(status), ()), strict=True):
        status, output = stage.run(*wish)
        assert status == 0, output
        assert leftovers(stage.folder) == []
    assert stages[0].results() == stages[1].results()


@pytest.mark.slow
@pytest.mark.parametrize("point", TASK)
def test_a_killed_task_of_a_generalization_is_tried_again(point: str, tmp_path: Path) -> None:
    stages = [Stage(tmp_path / name, ("--gin_config", "generalization.gin", "--workers", "1")) for name in ("a", "b")]
    stages[0].environment["A2PERF_FAULT_POINT"] = point
    for stage in stages:
        status, output = stage.run()
        if stage is stages[0] and strongest_level() not in OUT_OF_REACH:
            assert status == 3, output
            status, output = stage.run("--retry=infrastructure")
        assert status == 0, output
        assert leftovers(stage.folder) == []
    assert (stages[0].folder / "killed").exists()
    assert stages[0].task_returns() == stages[1].task_returns()


def test_the_reference_counts_the_points(repository: Path) -> None:
    page = (repository / "docs" / "reference" / "experiments.md").read_text()
    guard = [point for point in PARTICIPANT if point.startswith("guard")]
    counts = {
        "launcher": len(LAUNCHER),
        "evaluator or tracker": len(EVALUATOR) + len(TRACKER),
        "participant": len(PARTICIPANT) - len(guard),
        "guard": len(guard),
        "process of a task": len(TASK),
    }
    assert [name for name, count in counts.items() if f"| {name} | {count} |" not in page] == []
    assert f"at {sum(counts.values())} points" in page
