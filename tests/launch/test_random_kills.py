"""A few rounds of random kills; ``python -m tests.launch.random_kills --minutes 60`` takes an hour."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.commands import run_command
from tests.launch import kill_checks, random_kills, remains
from tests.launch.kill_checks import Findings, Ledger
from tests.launch.kill_forms import FORMS, KINDS, write_place
from tests.waiting import Child


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [pytest.param(KINDS, id="every kind", marks=pytest.mark.group("competition"))])
def test_random_kills_lose_nothing_and_leave_nothing(
    kinds: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    status = random_kills.main(["--rounds", str(len(kinds)), "--seed", "3", "--kinds", *kinds])
    output, said = capsys.readouterr()
    summary = json.loads(output)
    assert status == 0, said
    assert summary["rounds"] == dict.fromkeys(kinds, 1)
    assert summary["commands"] >= len(kinds)
    assert [summary[name] for name in ("lost", "twice", "left over", "wrong")] == [0, 0, 0, 0]
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """A round of inference that nobody killed."""
    (form,) = [form for form in FORMS if (form.kind, form.name) == ("inference", "run")]
    place = tmp_path_factory.mktemp("finished") / "round"
    write_place(place, form, place)
    environment = {**os.environ, "TMPDIR": str(place / "tmp"), random_kills.VARIABLE: str(place / "seed_secret")}
    argv = form.argv(place, random_kills.strongest_level())
    run_command(argv, place, check=True, env=environment, timeout=400)
    ledger = Ledger(place, form)
    ledger.note()
    return ledger


def drop_last(journal: Path) -> None:
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:-1]))


def repeat_last(journal: Path) -> None:
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join([*lines, lines[-1]]))


@pytest.mark.parametrize(
    ("spoil", "found", "invalid"),
    [(lambda journal: None, "", False), (drop_last, "lost", True), (repeat_last, "twice", True)],
    ids=["nothing", "an episode dropped", "an episode repeated"],
)
def test_the_checks_see_lost_and_repeated_episodes(
    spoil: Callable[[Path], None], found: str, invalid: bool, finished: Ledger
) -> None:
    reference = finished.form.results(finished.place)
    journal = finished.place / "root" / "inference" / "journal.jsonl"
    before = journal.read_bytes()
    findings = Findings()
    try:
        spoil(journal)
        kill_checks.check_results(finished, reference, findings, may_fail=False)
    finally:
        journal.write_bytes(before)
    assert bool(findings.lost) == (found == "lost"), findings
    assert bool(findings.twice) == (found == "twice"), findings
    assert bool(findings.wrong) == invalid, findings


def test_the_checks_see_other_results_and_attempts_that_are_not_listed(finished: Ledger) -> None:
    reference = finished.form.results(finished.place)
    reference["inference"]["episodes"][0] = (0, 1, "0x0.0p+0", 2)
    ledger = Ledger(finished.place, finished.form, attempts={"inference": {(1, "2026-01-01T00:00:00+00:00")}})
    findings = Findings()
    kill_checks.check_results(ledger, {**reference, "train": {}}, findings, may_fail=False)
    assert len(findings.wrong) == 1
    assert "0x0.0p+0" in findings.wrong[0]
    assert findings.lost == ["train: no bundle", "inference: attempt of process 1 at 2026-01-01T00:00:00+00:00"]


def test_the_checks_see_what_is_left_over(finished: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kill_checks.leftovers(finished) == []
    monkeypatch.setattr(remains, "PATIENCE_S", 0.0)
    place = finished.place
    files = [place / "tmp" / "home", place / "root" / "inference" / ".half.tmp", place / "root" / "pipe"]
    for path in files[:2]:
        path.touch()
    os.mkfifo(files[2])
    code = (
        "import fcntl, sys; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print(flush=True); sys.stdin.read()"
    )
    holder = Child([sys.executable, "-c", code, str(place / "toy.gin")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        found = kill_checks.leftovers(finished)
    finally:
        holder.communicate(timeout=300)
        for path in files:
            path.unlink()
    starts = sorted(line.split(":")[0].removesuffix(f" {holder.pid}") for line in found)
    assert starts == [
        "half-written root/inference/.half.tmp",
        "lock on toy.gin",
        "process",
        "socket or pipe root/pipe",
        "temporary home",
    ]
    assert kill_checks.leftovers(finished) == []
    assert not psutil.pid_exists(holder.pid)
