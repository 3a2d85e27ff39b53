"""What a participant names, says and leaves is read by others: in a terminal, a browser, a spreadsheet, a scorer."""

from __future__ import annotations

import json
import math
import os
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from a2perf.records import Failure, FailureKind, SubmissionIdentity
from a2perf.runs import files_of, find_runs, read_run
from a2perf.runs.bundles import tables
from a2perf.runs.bundles.files import BundleFiles
from a2perf.runs.dataset_notes import read_notes
from a2perf.runs.events import event_series, log_files
from a2perf.storage import Journal, json_text, read_json
from tests.commands import call_a2perf, run_command
from tests.deep_folders import nest
from tests.event_logs import read_event_file
from tests.metrics import event_bytes as made
from tests.metrics.made_bundles import seal
from tests.report.recorded_runs import RunMaker

BAD = (
    "\x1b]0;OWNED\x07\x1b[2J\x1b[32mSUCCESS\x9b31m\u202e <script>alert(1)</script> <img src=x onerror=alert(2)>"
    " [md](javascript:alert(3)) \\input{/etc/passwd} | `x` @everyone\nmend: SUCCESS"
)
NAME = "=cmd|' /C calc'!A0 " + BAD


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """One failed and one finished run in which everything that a participant chooses is hostile."""
    top = tmp_path / "runs"
    runs = RunMaker(top)
    identity = SubmissionIdentity(name=NAME, path=NAME, sha256="ab" * 32)
    failure = Failure(
        kind=FailureKind.EXCEPTION, where="train()", message=BAD, traceback=BAD, log="logs/participant.log"
    )
    runs.failed("bad", failure, log=BAD)
    seal(top / "bad" / "train", submission=identity, warnings=[BAD])
    runs.training("good", submission=identity, task=NAME, participant_args={NAME: BAD})
    artifacts = top / "good" / "train" / "artifacts"
    (artifacts / BAD.replace("/", "\u2215")[:80]).write_text("x")
    (artifacts / "a2perf_datasets").mkdir()
    note = {"dataset_id": NAME, "samples": 10, "per_sample_kwh": -5.0, "generation": {"kwh": -1, "method": BAD}}
    (artifacts / "a2perf_datasets" / "x.json").write_text(json.dumps(note))
    os.mkfifo(artifacts / "logs" / "\x1b]0;OWNED\x07monitor.csv")
    seal(top / "good" / "train")
    return top


def obeyed(text: str) -> list[str]:
    """Characters of a text that a terminal obeys, or that nobody sees."""
    return [sign for sign in text if unicodedata.category(sign) in ("Cc", "Cf", "Cs") and sign not in "\n\t"]


def printed(words: list[str]) -> str:
    """Returns what a command prints, which holds nothing that a terminal obeys."""
    status, said, errors = call_a2perf(*words)
    assert not obeyed(said + errors)
    assert "Traceback (most recent call last)" not in errors
    assert status in (0, 1, 2)
    return said


COMMANDS = (
    "score RUNS",
    "score RUNS --json",
    "validate RUNS",
    "validate RUNS --json",
    "report RUNS -o OUT",
    "report RUNS -o OUT --json",
    "leaderboard RUNS -o OUT",
    "leaderboard RUNS -o OUT --json",
    "status RUNS",
    "rlops-import RUNS --store OUT",
    "check RUNS",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_prints_or_writes_what_a_participant_smuggled(
    command: str, hostile: Path, tmp_path: Path, noted
) -> None:
    out = tmp_path / "out"
    words = [{"RUNS": str(hostile), "OUT": str(out)}.get(word, word) for word in command.split()]
    said = printed(words)
    if "--json" in words and said.strip():
        json.loads(said)
    for path in out.rglob("*"):
        if path.suffix in (".html", ".svg", ".md", ".csv", ".json", ".tex"):
            _check(path)
    noted("names, messages and logs with escapes, tags, formulas and bidi marks", "escaped everywhere")


def _check(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text), path
    if path.suffix == ".md":
        text = re.sub(r"(?ms)^(`{3,})text\n.*?^\1$", "", text)  # nothing is interpreted in a block of code
    if path.suffix in (".html", ".svg", ".md"):
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert not re.search(r"href=.{0,2}javascript:", text)
        assert path.suffix != ".md" or "[md](javascript" not in text
    if path.suffix == ".csv":
        assert not re.search(r"(^|[,\n])\"?=cmd", text)
    if path.suffix == ".tex":
        assert "\\input{/etc" not in text


# --- bounded readers -------------------------------------------------------------------------------------------------


def _train(top: Path, name: str) -> Path:
    runs = RunMaker(top)
    runs.training(name)
    return top / name / "train"


def _fifo(artifacts: Path) -> None:
    os.mkfifo(artifacts / "events.out.tfevents.1")
    os.mkfifo(artifacts / "0.monitor.csv")


def _sparse(artifacts: Path) -> None:
    for name in ("events.out.tfevents.1", "0.monitor.csv", "weights.bin"):
        (artifacts / name).touch()
        os.truncate(artifacts / name, 1 << 42)


def _links(artifacts: Path) -> None:
    (artifacts / "loop").symlink_to(artifacts, target_is_directory=True)
    (artifacts / "events.out.tfevents.1").symlink_to("/dev/zero")
    (artifacts / "1.monitor.csv").symlink_to("1.monitor.csv")


def _deep(artifacts: Path) -> None:
    nest(artifacts, "d", 1500)


def _nested(artifacts: Path) -> None:
    (artifacts / "a2perf_datasets").mkdir()
    (artifacts / "a2perf_datasets" / "x.json").write_text("[" * 10**5)
    (artifacts / "a2perf_datasets" / "y.json").write_text('{"dataset_id": "d", "samples": 1' + "0" * 10**4 + "}")


def _wide(artifacts: Path) -> None:
    (artifacts / "logs" / "progress.csv").write_text(",".join(["step"] * 10**6) + "\n")


@pytest.mark.parametrize("leave", [_fifo, _sparse, _links, _deep, _nested, _wide], ids=lambda leave: leave.__name__[1:])
def test_what_a_training_leaves_costs_its_own_run_a_condition(
    leave: Callable[[Path], None], tmp_path: Path, noted
) -> None:
    bundle = _train(tmp_path, "hostile")
    _train(tmp_path, "honest")
    leave(bundle / "artifacts")
    seal(bundle)
    seal(tmp_path / "honest" / "train")
    try:
        runs = {run.path.parent.name: read_run(run) for run in find_runs([tmp_path])}
    finally:
        run_command(["rm", "-rf", bundle / "artifacts"], check=True)  # Python cannot remove a tree of this depth
    assert set(runs) == {"honest", "hostile"}
    assert runs["honest"].curve is not None
    assert len(runs["honest"].curve.values) == 60
    assert runs["hostile"].conditions
    assert not runs["honest"].changed
    noted("fifos, sparse files, links, deep trees, wide tables in artifacts", "a condition")


def test_a_journal_of_nested_lists_ends_and_does_not_crash(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"kind": "a"}\n[1]\n' + "[" * 10**5 + "\n")
    assert list(Journal(path).entries()) == [{"kind": "a"}]


@pytest.mark.parametrize("text", ["[" * 10**5, "1" * 10**5, '{"a": 1'])
def test_json_that_is_none_is_an_error_of_that_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match=r"x\.json"):
        read_json(tmp_path / "x.json")


def test_surrogates_in_a_record_stay_readable() -> None:
    assert json.loads(json_text({"name": "a\udc80"})) == {"name": "a\\udc80"}


# --- bounds of counts, made small ------------------------------------------------------------------------------------


def _events(path: Path, payloads: list[bytes]) -> Path:
    path.write_bytes(b"".join(made.record(payload) for payload in payloads))
    return path


@pytest.mark.parametrize(
    ("bound", "most"),
    [("MAX_POINTS", 10), ("MAX_RECORDS", 5), ("MAX_FIELDS_DECODED", 100), ("MAX_TAGS", 3)],
)
def test_event_files_beyond_a_bound_say_so(
    bound: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from a2perf.runs.events import event_files

    for module in (event_series, event_files):
        if hasattr(module, bound):
            monkeypatch.setattr(module, bound, most)
    payloads = [made.event(step, made.simple(f"tag{step % 7}" + "x" * step, 1.0)) for step in range(40)]
    found = read_event_file(_events(tmp_path / "tfevents", payloads))
    assert [problem.kind for problem in found.problems] == ["bounded"]
    if bound == "MAX_TAGS":
        assert len(found.scalars) == 3


def test_a_record_of_gigabytes_is_not_read_into_memory(tmp_path: Path) -> None:
    length = (1 << 31).to_bytes(8, "little")
    path = tmp_path / "tfevents"
    path.write_bytes(length + made.masked(length))
    os.truncate(path, 1 << 31)
    found = read_event_file(path)
    assert [problem.kind for problem in found.problems] == ["bounded"]


def test_damage_in_many_places_ends_the_reading(tmp_path: Path) -> None:
    good = made.record(made.event(1, made.simple("r", 1.0)))
    bad = (4).to_bytes(8, "little") + b"xxxxabcdyyyy"
    path = tmp_path / "tfevents"
    path.write_bytes((good + bad) * 500)
    found = read_event_file(path)
    assert found.problems[-1].kind == "bounded"
    assert len(found.problems) <= event_series.MAX_LOST + 1
    assert found.scalars["r"].steps.size >= event_series.MAX_LOST


def test_tables_beyond_a_bound_keep_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_VALUES", 100)
    (tmp_path / "progress.csv").write_text("step,r\n" + "1,2\n" * 1000)
    table = tables.read_table(tmp_path / "progress.csv")
    assert table.rows == 49
    assert table.conditions == ["more than 100 cells; what follows was left out"]


def test_tables_of_many_headers_are_not_joined_without_end(tmp_path: Path) -> None:
    lines = "".join(f"step,c{index}\n1,2\n" for index in range(5000))
    (tmp_path / "progress.csv").write_text(lines)
    table = tables.read_table(tmp_path / "progress.csv")
    assert len(table.columns) <= tables.MAX_HEADERS + 1
    assert any("header lines" in condition for condition in table.conditions)


def test_files_of_curves_beyond_a_bound_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "MAX_FILES", 3)
    for index in range(9):
        (tmp_path / f"{index}.monitor.csv").write_text("r,l,t\n")
    found = log_files.find_logs(BundleFiles(tmp_path), "")
    assert len(found.found[log_files.LogKind.MONITOR]) == 3
    assert found.notes == ["more than 3 files of curves; the rest was left out"]


# --- what a participant claims ---------------------------------------------------------------------------------------


def _claimed(bundle: Path, note: str) -> tuple[list[Any], list[str]]:
    """Reads the note of a dataset among a run's artifacts."""
    folder = bundle / "artifacts" / "a2perf_datasets"
    folder.mkdir(parents=True)
    (folder / "x.json").write_text(note)
    return read_notes(files_of(bundle))


@pytest.mark.parametrize(
    "claim",
    [
        '"per_sample_kwh": -5.0',
        '"samples": -1',
        '"checkpoint_kwh": [-1.0]',
        '"generation": {"kwh": -1}',
        '"per_sample_kwh": 1e999',
        '"samples": 1e30',
        '"per_sample_kwh": "5"',
    ],
)
def test_amounts_that_cannot_be_are_not_believed(claim: str, tmp_path: Path, noted) -> None:
    notes, conditions = _claimed(tmp_path, f'{{"dataset_id": "d", {claim}}}')
    assert notes == []
    assert len(conditions) == 1
    noted("negative or endless energy claimed for offline data", "left out, with a condition")


def test_energy_that_a_participant_calls_measured_is_a_claim(tmp_path: Path) -> None:
    parts = {"generation": {"kwh": 1.0, "provenance": "measured"}, "training": {"kwh": 1.0, "provenance": "measured"}}
    claim = {"dataset_id": "d", "samples": 2, "per_sample_kwh": 0.5, **parts}
    (note,), conditions = _claimed(tmp_path, json.dumps(claim))
    assert note.kwh is not None
    assert math.isclose(note.kwh, 1.0)
    assert note.provenance == "estimated"
    assert conditions == ["artifacts/a2perf_datasets/x.json: energy claimed by the participant, not measured here"]
