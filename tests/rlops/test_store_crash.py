"""The store under processes that write, tag and read at the same time, and that are killed."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from a2perf.rlops.filters import RunQuery
from a2perf.rlops.store import Store
from a2perf.rlops.tags import TagJournal
from a2perf.runs.stores.store import read_curve
from tests.rlops.made_runs import METRIC, write_run
from tests.waiting import Child

REPOSITORY = Path(__file__).resolve().parents[2]

TAG = """
import sys
from pathlib import Path
from a2perf.rlops.tags import TagJournal
journal = TagJournal(Path(sys.argv[1]) / "tags.jsonl")
runs = [f"ppo/E/v/seed_{seed}" for seed in range(40)]
for number in range(int(sys.argv[3])):
    journal.change(f"{sys.argv[2]}-{number}", runs, action="add")
    print(number, flush=True)
"""
READ = """
import sys
from pathlib import Path
from a2perf.rlops.store import Store
from a2perf.runs.stores.store import read_curves
print("ready", flush=True)
while True:
    store = Store(Path(sys.argv[1]))
    runs = store.runs()
    assert all(run.record.experiment == "ppo" and run.state in ("queued", "finished") for run in runs), runs
    done = [run for run in runs if run.state == "finished"]
    curves = read_curves(done, "charts/episodic_return")
    assert len(curves) == len(done)
    assert all(len(curve.values) == 50 for curve in curves.values())
    print(len(runs), flush=True)
"""
WRITE = """
import sys
from pathlib import Path
from tests.rlops.made_runs import METRIC, write_run
for number in range(int(sys.argv[3])):
    seed = 1000 * int(sys.argv[2]) + number
    points = [(step, float(seed)) for step in range(50)]
    write_run(Path(sys.argv[1]), f"ppo/E/v/seed_{seed}", seed=seed, tags=["v"], curves={METRIC: points})
    print(seed, flush=True)
"""


@contextmanager
def process(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    child = Child(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate(timeout=300)


def lines_until(child: subprocess.Popen[str], wanted: int) -> list[str]:
    assert child.stdout is not None
    lines = []
    while len(lines) < wanted:
        line = child.stdout.readline()
        if not line:
            pytest.fail(f"the process ended: {child.stderr.read() if child.stderr else ''}")
        lines.append(line.strip())
    return lines


def kill(child: subprocess.Popen[str]) -> list[str]:
    """Kills a process and returns what it had still said."""
    child.send_signal(signal.SIGKILL)
    assert child.stdout is not None
    out = child.stdout.read()  # not communicate(), which leaves out what readline() had buffered
    child.wait(timeout=300)
    return [line for line in out.split("\n") if line]


def test_no_change_of_many_taggers_is_lost(tmp_path: Path) -> None:
    with (
        process(TAG, tmp_path, "a", 60) as a,
        process(TAG, tmp_path, "b", 60) as b,
        process(TAG, tmp_path, "c", 60) as c,
    ):
        for child in (a, b, c):
            _, errors = child.communicate(timeout=300)
            assert child.returncode == 0, errors
    changes = TagJournal(tmp_path / "tags.jsonl").changes()
    assert {change.tag for change in changes} == {f"{name}-{number}" for name in "abc" for number in range(60)}
    assert len(changes) == 180
    assert [change.time for change in changes] == sorted(change.time for change in changes)
    assert all(len(change.runs) == 40 for change in changes)


def test_change_of_a_killed_tagger_is_whole_or_not_there(tmp_path: Path) -> None:
    journal = TagJournal(tmp_path / "tags.jsonl")
    for round_ in range(4):
        with process(TAG, tmp_path, round_, 100_000) as child:
            said = lines_until(child, 20 + 13 * round_)
            said += kill(child)
        mine = [change for change in journal.changes() if change.tag.startswith(f"{round_}-")]
        # what was said is there; of what was not said, at most the change that the kill met
        assert len(said) <= len(mine) <= len(said) + 1
        assert all(len(change.runs) == 40 for change in mine)
    journal.change("after", ["x"], action="add")
    assert journal.changes()[-1].tag == "after"


def test_torn_line_is_passed_over_and_mended(tmp_path: Path) -> None:
    journal = TagJournal(tmp_path / "tags.jsonl")
    journal.change("one", ["x"], action="add")
    with journal.path.open("ab") as stream:
        stream.write(b'{"time":"2026-11-20T00:00:00+00:00","action":"add","tag":"torn","ru')
    assert [change.tag for change in journal.changes()] == ["one"]
    journal.change("two", ["x"], action="add")
    assert [change.tag for change in journal.changes()] == ["one", "two"]


def test_readers_see_whole_runs_while_writers_write_and_anyone_is_killed(tmp_path: Path) -> None:
    write_run(tmp_path, "ppo/E/v/seed_0", seed=0, tags=["v"], curves={METRIC: [(step, 0.0) for step in range(50)]})
    with (
        process(READ, tmp_path) as first,
        process(READ, tmp_path) as second,
        process(READ, tmp_path) as doomed,
        process(WRITE, tmp_path, 1, 40) as writer,
        process(WRITE, tmp_path, 2, 10_000) as victim,
    ):
        for reader in (first, second, doomed):
            lines_until(reader, 2)
        lines_until(victim, 15)
        kill(victim)
        kill(doomed)
        _, errors = writer.communicate(timeout=300)
        assert writer.returncode == 0, errors
        for reader in (first, second):
            _drain(reader)
            assert reader.poll() is None, reader.stderr.read() if reader.stderr else ""
            lines_until(reader, 2)
    store = Store(tmp_path)
    through_the_used_index = [(run.name, run.identity, run.record) for run in store.runs()]
    assert len(through_the_used_index) >= 1 + 40 + 15
    shutil.rmtree(store.index_folder)
    assert [(run.name, run.identity, run.record) for run in Store(tmp_path).runs()] == through_the_used_index
    finished = store.select(RunQuery(tags=("v",)))
    values = {run.record.seed: curve.values[0] for run in finished if (curve := read_curve(run, METRIC))}
    assert all(seed == value for seed, value in values.items())
    assert len(values) >= 56


def _drain(child: subprocess.Popen[str]) -> None:
    """Reads what a reader has said so far, so that the next lines are of readings that begin now."""
    assert child.stdout is not None
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and select.select([child.stdout], [], [], 0)[0]:
        if not os.read(child.stdout.fileno(), 1 << 16):
            return
