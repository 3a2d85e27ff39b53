"""Every start of a run is listed with what it used, and the budgets of a training run span those of its bundle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from a2perf.errors import InfrastructureError
from a2perf.launch.interface import Cause, ExitStatus
from a2perf.launch.outcomes import classify, recorded
from a2perf.launch.queue import Queue
from a2perf.launch.queue_entry import INFRASTRUCTURE, AttemptOutcome, QueueEntry, State
from a2perf.launch.run_spec import RunCommand, RunSpec
from a2perf.records import Attempt, FailureKind
from a2perf.runs.bundles import attempts
from a2perf.runs.bundles.attempts import AttemptClock, Used, used, with_earlier
from a2perf.runs.bundles.bundle import validate
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from a2perf.submission.evaluator.submitted import artifacts
from tests.commands import bindings, command, run_command
from tests.launch.entries import write_manifest
from tests.waiting import Child, until

ENDLESS = """
def train():
    import os, pathlib, time
    state = pathlib.Path(os.environ["A2PERF_ARTIFACTS"], "starts.txt")
    state.write_text(state.read_text() + "x" if state.exists() else "x")
    time.sleep(600)
"""


def attempt(**changes: object) -> Attempt:
    return Attempt(**{"started_at": "2026-01-01T00:00:00.000+00:00", "host": "h", "pid": 1, "boot_id": "b", **changes})


# --- what is counted --------------------------------------------------------------------------------------------------


def test_budgets_count_the_attempts_of_a_bundle_and_not_those_in_the_attic() -> None:
    found = used(
        [
            attempt(train_s=3.0, net_kwh=1.0, gross_kwh=2.0, wall_s=5.0, archived="train-1"),
            attempt(train_s=4.0, net_kwh=0.5, wall_s=6.0),
            attempt(train_s=1.0, net_kwh=0.25, gross_kwh=0.75, wall_s=2.0),
            attempt(),
        ]
    )
    assert found == Used(train_s=5.0, net_kwh=0.75, gross_kwh=1.25, wall_s=8.0)


def test_an_attempt_that_was_killed_ends_with_its_last_heartbeat(tmp_path: Path) -> None:
    begun = attempt(number=1)
    clock = AttemptClock(tmp_path, begun)
    clock.follow_energy(lambda: 0.125)
    clock.train_begins()
    with clock.beating():
        size = (tmp_path / ".heartbeat").stat().st_blocks
        clock.beat()
        assert (tmp_path / ".heartbeat").stat().st_blocks == size > 0, "a beat needs no further room"
    written = json.loads((tmp_path / ".heartbeat").read_bytes())
    manifest = type("Found", (), {"attempts": [attempt(number=1)]})()
    (ended,) = attempts.resumed(tmp_path, manifest)
    assert (ended.outcome, ended.net_kwh) == ("killed", 0.125)
    assert (ended.wall_s, ended.train_s, ended.finished_at) == (written["wall_s"], written["train_s"], written["at"])
    clock.end()
    clock.forget()
    assert begun.train_s >= written["train_s"]
    assert list(tmp_path.iterdir()) == []


def test_a_heartbeat_that_was_torn_counts_in_full(tmp_path: Path) -> None:
    (tmp_path / ".heartbeat").write_bytes(b'{"number": 1, "wall')
    os.utime(tmp_path / ".heartbeat", (1767225690, 1767225690))  # 90 s after the attempt began
    (ended,) = attempts.resumed(tmp_path, type("Found", (), {"attempts": [attempt(number=1)]})())
    assert (ended.wall_s, ended.train_s) == (90.0, 90.0)


def test_a_tracking_report_is_the_sum_over_attempts() -> None:
    report = {
        "wall_s": 2.0,
        "energy": {"net_kwh": 1.0, "gross_kwh": 2.0, "method": "m"},
        "emissions": {"kg_co2eq": 1.0, "kg_per_kwh": 0.5},
    }
    found = with_earlier(report, [attempt(wall_s=3.0, net_kwh=4.0, gross_kwh=6.0), attempt()])
    assert (found["wall_s"], found["energy"]["net_kwh"], found["energy"]["gross_kwh"]) == (5.0, 5.0, 8.0)
    assert found["emissions"]["kg_co2eq"] == 4.0
    assert "2 attempts" in found["energy"]["method"]


# --- real runs --------------------------------------------------------------------------------------------------------


def test_a_time_budget_spans_attempts_that_were_killed(submission, tmp_path: Path) -> None:
    limit_s, path, root = 12.0, submission(train=ENDLESS), tmp_path / "root"
    limit = bindings(f"Submission.train_time_limit_s = {limit_s}")
    argv = command("--submission", path, "--gin_config", "training.gin", "--root_dir", root, *limit)
    process = Child(argv, cwd=tmp_path, stderr=subprocess.DEVNULL)
    heartbeat = root / "train" / ".heartbeat"

    def train_s() -> float:
        try:
            return json.loads(heartbeat.read_bytes())["train_s"] or 0.0
        except (OSError, ValueError):
            return 0.0

    until(lambda: train_s() > 2)
    evaluator = json.loads((root / "train" / "manifest.json").read_text())["attempts"][0]["pid"]
    os.kill(evaluator, signal.SIGKILL)
    process.wait(timeout=300)
    again = run_command(argv, tmp_path, check=True)
    manifest = json.loads((root / "train" / "manifest.json").read_text())
    first, second = manifest["attempts"]
    assert (first["outcome"], second["outcome"]) == ("killed", "time limit")
    assert first["train_s"] > 2
    assert first["participant_started_at"] > first["started_at"]
    assert second["train_s"] >= limit_s - first["train_s"]
    assert f"at most {limit_s - first['train_s']:g} s" in again.stderr
    results = json.loads((root / "train" / "metrics" / "train.json").read_text())
    assert results["wall_s"] == pytest.approx(first["train_s"] + second["train_s"])
    assert manifest["timings_s"]["train"] == results["wall_s"]
    assert manifest["tracking"]["energy"]["net_kwh"] == pytest.approx(first["net_kwh"] + second["net_kwh"])
    assert (root / "train" / "artifacts" / "starts.txt").read_text() == "xx"
    assert validate(root / "train") == []


def test_a_budget_that_is_used_up_starts_nothing(submission, launch, tmp_path: Path) -> None:
    path, root = submission(train=ENDLESS), tmp_path / "root"
    limit = ("--gin_bindings", "Submission.train_time_limit_s = 2.0")
    assert launch(path, "training.gin", *limit, root=root).status == 0
    bundle = root / "train"
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["state"], manifest["checksum"] = "running", None
    manifest["attempts"][0] |= {"finished_at": None, "outcome": None}
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    (bundle / ".heartbeat").write_text(json.dumps({"number": 1, "at": "x", "wall_s": 9, "train_s": 2.5, "net_kwh": 0}))
    outcome = launch(path, "training.gin", *limit, root=root)
    assert outcome.status == 0, outcome.output
    assert outcome.manifest("train")["exit_reason"] == "time limit"
    assert (bundle / "artifacts" / "starts.txt").read_text() == "x", "its code ran again"
    assert json.loads((bundle / "metrics" / "train.json").read_text())["wall_s"] == 2.5


def test_a_run_that_failed_and_starts_from_scratch_lists_what_was_before(submission, launch) -> None:
    failing = submission(train="def train():\n    raise RuntimeError('bad luck')\n")
    again = ("--retry", "failed")
    assert [launch(failing, "training.gin", *again).status for _ in range(2)] == [1, 1]
    outcome = launch(failing, "training.gin", *again)
    manifest = outcome.manifest("train")
    assert [found["number"] for found in manifest["attempts"]] == [1, 2, 3]
    assert [found["outcome"] for found in manifest["attempts"]] == ["exception"] * 3
    archived = [found["archived"] for found in manifest["attempts"]]
    assert archived[2] is None
    assert sorted(archived[:2]) == sorted(path.name for path in (outcome.root / "attic").iterdir())
    other = submission()
    assert len(launch(other, "training.gin").manifest("train")["attempts"]) == 1, "other code is another run"


@pytest.mark.parametrize(
    ("leave", "kind", "said"),
    [
        ("for i in range(101): os.mkdir('d'); os.chdir('d')", "output_limit", "100 nested folders"),
        ("for name in 'ab': open(name, 'wb').truncate(600_000)", "output_limit", "1000000"),
    ],
    ids=["depth", "sparse"],
)
def test_artifacts_beyond_their_bounds_are_the_participants_failure(
    leave: str, kind: str, said: str, submission, launch
) -> None:
    code = f"import os\ndef train():\n    os.chdir(os.environ['A2PERF_ARTIFACTS'])\n    {leave}\n"
    limit = ("--gin_bindings", "Submission.artifact_limit_bytes = 1000000") if "truncate" in leave else ()
    outcome = launch(submission(train=code), "training.gin", *limit)
    assert outcome.status == 1, outcome.output
    failure = outcome.manifest("train")["failure"]
    assert (failure["kind"], said in failure["message"].replace(",", "")) == (kind, True), failure


def test_more_names_than_allowed_are_the_participants_failure(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(artifacts, "MOST_NAMES", 100)
    for number in range(101):
        (tmp_path / str(number)).touch()
    with pytest.raises(ParticipantFailure, match="100 names") as caught:
        artifacts.count(tmp_path, "train", None)
    assert caught.value.failure.kind is FailureKind.OUTPUT_LIMIT
    (tmp_path / "0").unlink()
    assert artifacts.count(tmp_path, "train", None) == artifacts.Left(0, 100)


def test_odd_names_are_recorded_and_validate(submission, launch) -> None:
    names = [b"\xff\xfe", b"a\nb", b"\x1b[31mred", b".lock", b"n" * 255, b"back\\slash", b"\\xff\\xfe"]
    code = f"""
    def train():
        import os
        folder = os.fsencode(os.environ["A2PERF_ARTIFACTS"])
        for name in {names!r}:
            open(folder + b"/" + name, "wb").write(name)
    """
    outcome = launch(submission(train=code), "training.gin")
    assert outcome.status == 0, outcome.output
    files = outcome.manifest("train")["files"]
    assert len([name for name in files if name.startswith("artifacts/")]) == len(names)
    assert "artifacts/\\xff\\xfe" in files
    assert "artifacts/\\\\xff\\\\xfe" in files
    assert validate(outcome.root / "train") == []


# --- what starts again ------------------------------------------------------------------------------------------------


def entry(tmp_path: Path, state: str, level: str | None, *, started: bool, **manifest: object) -> QueueEntry:
    bundle = tmp_path / "R" / "inference"
    last = {"started_at": "2026-01-01T00:00:00.000+00:00", "host": "h", "pid": 1, "boot_id": "b", "number": 1}
    last["participant_started_at"] = "2026-01-01T00:00:01.000+00:00" if started else None
    sandbox = None if level is None else {"level": level}
    write_manifest(bundle, attempts=[last], state=state, sandbox=sandbox, **manifest)
    return QueueEntry("k", RunCommand(("true",)), {"bundle": str(bundle)})


OUR_FAULT = {"failure": {"kind": "infrastructure", "where": "inference", "message": "no space"}}
CASES = {
    "before the participant, disk full": ("failed", "process", False, ExitStatus(3), OUR_FAULT, True),
    "before the participant, crashed": ("running", None, False, ExitStatus(None, lost=True), {}, True),
    "disk full": ("failed", "bubblewrap", True, ExitStatus(3), OUR_FAULT, False),
    "left nothing": ("running", "bubblewrap", True, ExitStatus(1), {}, False),
    "segmentation fault": ("running", "bubblewrap", True, ExitStatus(None, lost=True), {}, False),
    "killed at bubblewrap": ("running", "bubblewrap", True, ExitStatus(None, lost=True, cause=Cause.KILLED), {}, True),
    "killed at process": ("running", "process", True, ExitStatus(None, lost=True, cause=Cause.KILLED), {}, False),
    "asked to end at bubblewrap": ("interrupted", "bubblewrap", True, ExitStatus(130), {}, True),
    "asked to end at none": ("interrupted", "none", True, ExitStatus(130), {}, False),
    "node failed": ("running", "process", True, ExitStatus(None, lost=True, cause=Cause.OUTSIDE), {}, True),
}


@pytest.mark.parametrize("case", CASES)
def test_only_what_a_participant_cannot_cause_starts_again(case: str, tmp_path: Path) -> None:
    state, level, started, ended, more, again = CASES[case]
    run = entry(tmp_path, state, level, started=started, **more)
    with Queue(tmp_path / "q", retry_delay_s=0) as queue:
        queue.add([run])
        lease = queue.lease()
        outcome = classify(run, ended)
        assert (outcome.kind, outcome.repeatable) == (INFRASTRUCTURE, again)
        assert queue.finish(lease, outcome) is (State.QUEUED if again else State.FAILED)
        if not again:
            assert queue.revive((INFRASTRUCTURE,)) == []
            assert queue.revive((INFRASTRUCTURE,), final=True) == ["k"]
    manifest = json.loads((tmp_path / "R" / "inference" / "manifest.json").read_text())
    assert manifest["state"] == (state if again else "failed")


def test_a_signal_for_lack_of_memory_is_not_from_outside() -> None:
    assert Cause.of_signal(signal.SIGKILL, oom_killed=False) is Cause.KILLED
    assert Cause.of_signal(signal.SIGKILL, oom_killed=True) is Cause.OWN
    assert Cause.of_signal(signal.SIGSEGV, oom_killed=False) is Cause.OWN
    assert not attempts.killed_from_outside(signal.SIGKILL, "bubblewrap", oom_killed=True)
    assert not attempts.killed_from_outside(signal.SIGKILL, "process", oom_killed=False)


def test_a_failure_that_the_queue_did_not_hear_of_stands(tmp_path: Path) -> None:
    wrong = {"failure": {"kind": "bad_output", "where": "infer_once", "message": "words"}, "exit_code": 1}
    run = entry(tmp_path, "failed", "bubblewrap", started=True, **wrong)
    assert recorded(run) == AttemptOutcome(False, "bad_output", "infer_once: words", 1)
    assert classify(run, ExitStatus(None, lost=True, cause=Cause.OUTSIDE)).kind == "bad_output"


def test_a_full_disk_under_the_queue_is_the_infrastructures_and_loses_nothing(tmp_path: Path) -> None:
    entries = [RunSpec(f"k{number}", RunCommand(("true", "x" * 4000))) for number in range(200)]
    with Queue(tmp_path / "q") as queue:
        queue.add(entries[:1])
        queue._connection.execute("PRAGMA max_page_count = 1")  # SQLite's own limit gives the error of a full disk
        with pytest.raises(InfrastructureError, match="cannot be written: database or disk is full"):
            queue.add(entries)
        assert [found.key for found in queue.entries()] == ["k0"]
        queue._connection.execute("PRAGMA max_page_count = 1000000")
        assert queue.add(entries) == 199
