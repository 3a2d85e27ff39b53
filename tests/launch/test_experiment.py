"""Experiments from the command line: plans, results, failures, resumption, interruption."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from a2perf.cli import cli
from a2perf.errors import ConfigError
from a2perf.experiments.planning import EVALUATOR_MEMORY_BYTES, PlannedRun, domain_of, plan_runs
from a2perf.launch.conductor import QUEUE_FILE
from a2perf.launch.interface import ExitStatus
from a2perf.launch.outcomes import classify
from a2perf.launch.preparation import Restart, prepare
from a2perf.launch.queue import Queue
from a2perf.launch.queue_entry import QueueEntry, State
from a2perf.launch.run_spec import Resources, RunCommand, RunSpec
from a2perf.records import FailureKind
from a2perf.runs.pack import pack
from a2perf.submission.run_options import RunOptions
from tests.commands import run_a2perf
from tests.launch.entries import Stage, write_entry, write_manifest
from tests.launch.remains import leftovers, processes_of
from tests.made_submissions import TOY, gin
from tests.waiting import until


def gin_of(mode: str) -> str:
    """Returns a gin file without a task."""
    return gin(TOY, mode).partition("create_domain")[0]


@pytest.fixture
def entry_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = write_entry(tmp_path / "entry")
    for mode in ("train", "inference", "generalization"):
        (folder / f"plain_{mode}.gin").write_text(gin_of(mode))
    return folder


def planned(tmp_path: Path, **changes: Any) -> list[RunSpec]:
    given: dict[str, Any] = {
        "root": tmp_path / "root",
        "submissions": (tmp_path / "entry",),
        "gin_files": ("plain_train.gin", "plain_inference.gin"),
        "seeds": (0, 1),
        **changes,
    }
    return plan_runs(**given)


# --- plans ------------------------------------------------------------------------------------------------------------


def test_a_plan_is_the_product_with_each_seeds_modes_in_order(entry_folder: Path, tmp_path: Path) -> None:
    write_entry(tmp_path / "other")
    files = tuple(str(tmp_path / f"plain_{mode}.gin") for mode in ("train", "inference"))
    for file, mode in zip(files, ("train", "inference"), strict=True):
        Path(file).write_text(gin_of(mode))
    submissions = (entry_folder, tmp_path / "other")
    entries = planned(tmp_path, submissions=submissions, gin_files=files, tasks=("toy_macro_stdcell", "ariane"))
    assert len(entries) == len({entry.key for entry in entries}) == 2 * 2 * 2 * 2
    names = [entry.command.name for entry in entries]
    assert names[:4] == [
        "entry/toy_macro_stdcell/seed_0/train",
        "entry/toy_macro_stdcell/seed_0/inference",
        "entry/ariane/seed_0/train",
        "entry/ariane/seed_0/inference",
    ]
    assert all("seed_0" in name for name in names[:8])
    assert [entry.after for entry in entries[:4]] == [None, entries[0].key, None, entries[2].key]
    first = entries[0]
    assert first.data["bundle"] == str(tmp_path / "root" / "entry" / "toy_macro_stdcell" / "seed_0" / "train")
    assert first.command.domain == "circuit_training"
    assert first.command.evaluator_flags()[-4:] == ("--task", "toy_macro_stdcell", "--seed", "0")


def test_generalization_goes_with_the_task_that_was_trained(entry_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "training.gin").write_text(gin(TOY, "train"))
    made = planned(tmp_path, gin_files=("training.gin", "plain_generalization.gin"), seeds=(4,))
    assert [entry.command.name for entry in made] == [
        "entry/toy_macro_stdcell/seed_4/train",
        "entry/toy_macro_stdcell/seed_4/generalization",
    ]
    alone = planned(tmp_path, gin_files=("plain_generalization.gin",), seeds=(4,))
    assert [entry.command.name for entry in alone] == ["entry/all/seed_4/generalization"]


def test_a_key_changes_with_what_the_run_is_and_with_nothing_else(entry_folder: Path, tmp_path: Path) -> None:
    def key(**changes: object) -> str:
        return planned(tmp_path, gin_files=("inference.gin",), seeds=(0,), **changes)[0].key

    same = key()
    assert key() == same
    assert key(flags=("--verbosity", "debug", "--metric-values-dir", "other")) == same
    assert key(flags=("--concurrent-episodes", "2")) == key(flags=("--concurrent-episodes", "3")) != same
    assert key(resources=Resources(cpus=2)) != same
    assert key(flags=("--sandbox", "none")) != same
    assert key(participant_args="a=1") != same
    assert key(bindings=("Submission.num_inference_episodes = 4",)) != same
    (entry_folder / "inference.py").write_text("# changed\n")
    assert key() != same


def test_resources_reach_the_run(entry_folder: Path, tmp_path: Path) -> None:
    wanted = Resources(cpus=2, memory_bytes=2**31, gpus=1, wall_s=90)
    command = planned(tmp_path, resources=wanted, options=RunOptions.of(memory_limit_bytes=2**31))[0].command
    assert command.resources == Resources(2, 2**31 + EVALUATOR_MEMORY_BYTES, 1, 120)
    flags = command.evaluator_flags()
    assert flags is not None
    assert flags[flags.index("--memory-limit-bytes") + 1] == str(2**31)


@pytest.mark.parametrize(
    ("changes", "domain"),
    [
        ({}, "circuit_training"),
        ({"bindings": ("Submission.domain = %BenchmarkDomain.WEB_NAVIGATION",)}, "web_navigation"),
        ({"task": "dog_pace"}, "quadruped_locomotion"),
        ({"domain": "web_navigation", "task": "dog_pace"}, "web_navigation"),
    ],
)
def test_the_domain_of_a_run_is_its_flags_its_tasks_or_its_gin_files(
    changes: dict[str, Any], domain: str, entry_folder: Path, tmp_path: Path
) -> None:
    run = PlannedRun(submission=entry_folder, gin_file="plain_inference.gin", root=tmp_path / "root", **changes)
    assert domain_of(run) == domain
    (entry_folder / "plain_inference.gin").write_text("import os_of_nobody\nSubmission.domain = 'web_navigation'\n")
    with pytest.raises(ConfigError, match="may not import modules"):  # it is read, and not executed
        domain_of(replace(run, domain=None))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": (1, 1)}, "the seed 1 is given twice"),
        ({"tasks": ("ariane", "ariane")}, "the task ariane is given twice"),
        ({"tasks": ("arianne",)}, "'arianne' is not a task"),
        ({"gin_files": ("nowhere.gin",)}, "'nowhere.gin' does not exist"),
        (
            {
                "gin_files": ("plain_train.gin", "training.gin"),
                "bindings": ("create_domain.env_name = 'CircuitTraining-ToyMacro-v0'",),
            },
            "two of these runs would write",
        ),
        ({"participant_args": "novalue"}, "is not name=value"),
    ],
)
def test_a_wrong_experiment_is_refused_before_anything_runs(
    changes: dict[str, object], message: str, entry_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        planned(tmp_path, **changes)
    assert not (tmp_path / "root").exists()


def test_the_reference_names_every_state_and_kind_of_failure(repository: Path) -> None:
    page = (repository / "docs" / "reference" / "experiments.md").read_text()
    for state in State:
        assert f"| `{state.value}` |" in page
    kinds = {kind.value for kind in FailureKind} | {"configuration", "prerequisite"}
    assert [kind for kind in sorted(kinds) if f"`{kind}`" not in page] == []


# --- what an end means ------------------------------------------------------------------------------------------------


def bundle_entry(tmp_path: Path, manifest: dict[str, object] | None) -> QueueEntry:
    bundle = tmp_path / "R" / "inference"
    if manifest is not None:
        write_manifest(bundle, **manifest)
    return QueueEntry("k", RunCommand(("true",)), {"bundle": str(bundle)})


def settle(queue: Queue, entry: QueueEntry, ended: ExitStatus) -> None:
    """Prepares a queue for one run, whose job ends in that way."""
    prepare(queue, [entry])
    lease = queue.lease()
    assert lease is not None
    queue.finish(lease, classify(entry, ended))


def failure(kind: str) -> dict[str, object]:
    return {"state": "failed", "failure": {"kind": kind, "where": "infer_once", "message": "words"}}


@pytest.mark.parametrize(
    ("manifest", "ended", "kind"),
    [
        ({"state": "finished"}, ExitStatus(0), None),
        ({"state": "running"}, ExitStatus(0), "infrastructure"),
        (None, ExitStatus(0), "infrastructure"),
        *(
            (failure(kind), ExitStatus(1), kind)
            for kind in (
                "exception",
                "timeout",
                "memory",
                "disk",
                "bad_output",
                "forbidden",
                "signal",
                "contract",
                "exit",
            )
        ),
        (None, ExitStatus(1), "infrastructure"),
        ({"state": "running"}, ExitStatus(1), "infrastructure"),
        (None, ExitStatus(2), "configuration"),
        (failure("infrastructure"), ExitStatus(3), "infrastructure"),
        ({"state": "interrupted"}, ExitStatus(130), "infrastructure"),
        ({"state": "finished"}, ExitStatus(None, lost=True, reason="the node was lost"), "infrastructure"),
        ({"state": "running"}, ExitStatus(None, reason="killed"), "infrastructure"),
        ({"state": "interrupted"}, ExitStatus(130, timed_out=True, reason="over time"), "timeout"),
    ],
)
def test_every_end_has_its_kind(
    manifest: dict[str, object] | None, ended: ExitStatus, kind: str | None, tmp_path: Path
):
    outcome = classify(bundle_entry(tmp_path, manifest), ended)
    assert (outcome.finished, outcome.kind) == (kind is None, kind)


def test_a_launchers_time_limit_is_written_into_the_bundle(tmp_path: Path) -> None:
    entry = bundle_entry(tmp_path, {"state": "interrupted"})
    classify(entry, ExitStatus(130, timed_out=True, reason="it ran longer than the 5 s that it was given"))
    manifest = json.loads(Path(entry.data["bundle"], "manifest.json").read_text())
    assert manifest["state"] == "failed"
    assert manifest["failure"]["kind"] == "timeout"
    assert "5 s" in manifest["failure"]["message"]


# --- queue and bundles ------------------------------------------------------------------------------------------------


def test_a_finished_run_of_other_code_is_not_overwritten(tmp_path: Path) -> None:
    done = bundle_entry(tmp_path, {"state": "finished"})
    other = RunSpec("other", done.command, done.data)
    with Queue(tmp_path / "q") as queue:
        settle(queue, done, ExitStatus(0))
        with pytest.raises(ConfigError, match="holds a finished run with different code"):
            prepare(queue, [other])
        prepare(queue, [other], Restart(force=True))
        assert [entry.key for entry in queue.entries()] == ["other"]
    assert not Path(done.data["bundle"]).exists()
    assert len(list((tmp_path / "R" / "attic").iterdir())) == 1


def test_a_finished_run_whose_bundle_is_gone_is_run_again(tmp_path: Path) -> None:
    done = bundle_entry(tmp_path, {"state": "finished"})
    with Queue(tmp_path / "q") as queue:
        settle(queue, done, ExitStatus(0))
        prepare(queue, [done])
        assert queue.counts()[State.FINISHED] == 1
        Path(done.data["bundle"], "manifest.json").unlink()
        prepare(queue, [done])
        assert queue.counts()[State.QUEUED] == 1


# --- whole experiments ------------------------------------------------------------------------------------------------


def test_one_bad_submission_does_not_spoil_the_others(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ("--workers", "2", "--gin_config", "inference.gin"))
    bad = write_entry(tmp_path / "bad")
    (bad / "inference.py").write_text("def load_policy(env):\n    raise RuntimeError('no weights')\n")
    stage.arguments += ("--submission", str(bad), "--seeds", "3", "5")
    status, output = stage.run("--json")
    assert status == 1, output
    summary = json.loads(output[output.index("{\n") : output.rindex("}") + 1])
    assert summary["counts"]["finished"] == 2
    assert summary["counts"]["failed"] == 2
    found = {(run["submission"], run["seed"]): (run["state"], run["kind"]) for run in summary["runs"]}
    assert found == {
        ("entry", 3): ("finished", None),
        ("entry", 5): ("finished", None),
        ("bad", 3): ("failed", "contract"),
        ("bad", 5): ("failed", "contract"),
    }
    log = stage.root / "entry" / "toy_macro_stdcell" / "seed_3" / "inference.log"
    assert "3 episodes, mean return" in log.read_text()
    shown = [
        CliRunner().invoke(cli, ["status", str(place), "--json"], standalone_mode=False)
        for place in (stage.root, pack([stage.root], tmp_path / "packed.zip"))
    ]
    assert [one.return_value for one in shown] == [1, 1]
    assert shown[0].output == shown[1].output


def test_an_interrupted_experiment_goes_on_where_it_was(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ("--gin_config", "inference.gin", "--num-seeds", "2", "--workers", "1"))
    stage.arguments += ("--gin_bindings", "Submission.num_inference_episodes = 40")
    process = stage.start()
    stage.wait_for("entry/*/seed_0/inference/metrics/latency.json")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    assert "run the same command again to resume" in output
    until(lambda: not processes_of(tmp_path))
    with Queue(stage.root / QUEUE_FILE) as queue:
        assert queue.counts()[State.QUEUED] >= 1
        assert queue.counts()[State.LEASED] == queue.counts()[State.RUNNING] == 0
    status, output = stage.run()
    assert status == 0, output
    assert "2 of 2 runs finished" in output
    assert f"a2perf report {stage.root}" in output
    assert leftovers(stage.folder) == []


def test_two_launchers_share_an_experiment_and_run_nothing_twice(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ("--gin_config", "training.gin", "--num-seeds", "4", "--workers", "1"))
    launchers = [stage.start("--json"), stage.start("--json")]
    summaries = [json.loads(launcher.communicate(timeout=300)[0]) for launcher in launchers]
    assert [launcher.returncode for launcher in launchers] == [0, 0]
    assert sum(summary["jobs_started"] for summary in summaries) == 4
    assert all(summary["counts"]["finished"] == 4 for summary in summaries)
    assert [run["attempts"] for run in summaries[0]["runs"]] == [1] * 4


def test_a_launcher_started_with_nohup_goes_on_when_the_terminal_closes(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ("--gin_config", "training.gin", "--num-seeds", "2", "--workers", "1"))
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # children inherit that, as under nohup
    try:
        process = stage.start()
    finally:
        signal.signal(signal.SIGHUP, hang_up)
    stage.wait_for("entry/*/seed_0/train/manifest.json")
    process.send_signal(signal.SIGHUP)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors


def test_status_tells_what_died_from_what_runs(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ("--gin_config", "training.gin", "--num-seeds", "2", "--workers", "1"))
    stage.environment["A2PERF_FAULT_POINT"] = "launcher: running"
    assert stage.run()[0] == -signal.SIGKILL
    done = run_a2perf("status", stage.root, "--json", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert [run["state"] for run in json.loads(done.stdout)["runs"]] == ["lost", "queued"]


@pytest.mark.slow
def test_a_launcher_that_is_killed_again_and_again_gets_there(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ("--gin_config", "training.gin", "inference.gin", "--num-seeds", "3", "--workers", "2"))
    chance = random.Random(7)
    status = -signal.SIGKILL
    kills = 0
    while status == -signal.SIGKILL:
        process = stage.start()
        try:
            process.communicate(timeout=chance.uniform(0.3, 0.8) + 0.4 * kills)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate(timeout=300)
            kills += 1
        status = process.returncode
    assert status == 0
    assert kills >= 2
    whole = Stage(tmp_path / "whole", stage.arguments)
    assert whole.run()[0] == 0
    assert stage.results() == whole.results()
    assert leftovers(stage.folder) == []


def test_a_run_over_its_time_limit_fails_and_the_rest_goes_on(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path, ("--gin_config", "training.gin", "inference.gin", "--workers", "1", "--run-time-limit-s", "5s")
    )
    (stage.entry / "train.py").write_text("def train():\n    import time\n    time.sleep(600)\n")
    status, output = stage.run()
    assert status == 1, output
    assert "timeout: train: the run reached its limit of 5 s" in output
    assert "1 more did not run because the run before them failed" in output
    assert leftovers(stage.folder) == []
