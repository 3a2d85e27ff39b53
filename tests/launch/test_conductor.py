"""The conductor with real child processes: what it shows, how it stops, and what a run without a bundle came to."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from a2perf.launch import (
    QUEUE_FILE,
    Conductor,
    ExitStatus,
    Queue,
    QueueEntry,
    Restart,
    RunCommand,
    RunSpec,
    State,
    get_launcher,
)
from a2perf.launch.outcomes import classify
from tests.launch.entries import write_manifest
from tests.launch.remains import processes_of
from tests.waiting import Child, until

PROGRAM = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
from pathlib import Path
from a2perf.launch import local
from a2perf.launch import QUEUE_FILE, Conductor, RunCommand, RunSpec, get_launcher
from rich.console import Console

local.CANCEL_GRACE_S = 3600.0
folder = Path(sys.argv[1])
code = "import pathlib, signal, sys, time; {ignore}; pathlib.Path(sys.argv[1], sys.argv[2]).touch(); time.sleep(600)"
specs = [
    RunSpec(name, RunCommand((sys.executable, "-S", "-c", code, str(folder), name), name=name, log=folder / "log"))
    for name in ("a", "b")
]
with Conductor(get_launcher("local"), console=Console(stderr=True)) as conductor:
    result = conductor.run(specs, folder / QUEUE_FILE)
print("result", result.exit_code, conductor.interrupted)
"""


def test_a_run_of_this_host_knows_how_many_share_its_memory(tmp_path: Path) -> None:
    code = "import os, pathlib, sys; pathlib.Path(sys.argv[1], 'share').write_text(os.environ['A2PERF_PARALLEL_RUNS'])"
    command = RunCommand((sys.executable, "-S", "-c", code, str(tmp_path)), name="a", log=tmp_path / "a.log")
    with Conductor(get_launcher("local"), workers=3) as conductor:
        assert conductor.run([RunSpec("a", command)], tmp_path / QUEUE_FILE).exit_code == 0
    assert (tmp_path / "share").read_text() == "3"


@pytest.fixture
def spec(tmp_path: Path) -> Callable[..., RunSpec]:
    def make(key: str, code: str, after: str | None = None, **data: object) -> RunSpec:
        argv = (sys.executable, "-S", "-c", textwrap.dedent(code), str(tmp_path))
        return RunSpec(key, RunCommand(argv, name=key, log=tmp_path / f"{key}.log"), data, after)

    return make


def start(tmp_path: Path, ignore: str) -> subprocess.Popen[str]:
    process = Child(
        [sys.executable, "-c", PROGRAM.replace("{ignore}", ignore), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until((tmp_path / "a").exists)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_ends_what_runs_and_keeps_the_rest(number: signal.Signals, tmp_path: Path) -> None:
    process = start(tmp_path, "0")
    process.send_signal(number)
    output, errors = process.communicate(timeout=300)
    assert output == "result 130 True\n", errors
    assert "stopping: waiting for the running runs to end" in errors
    with Queue(tmp_path / QUEUE_FILE) as queue:
        assert [entry.state for entry in queue.entries()] == [State.QUEUED, State.QUEUED]
    assert not processes_of(tmp_path)


def test_the_second_signal_ends_everything_at_once(tmp_path: Path) -> None:
    process = start(tmp_path, "signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    next(line for line in process.stderr if "stopping" in line)
    assert process.poll() is None  # it waits for a run that does not obey
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert "KeyboardInterrupt" in errors
    until(lambda: not processes_of(tmp_path))


def test_every_event_is_a_line_and_a_failure_names_its_log(spec: Callable[..., RunSpec], tmp_path: Path) -> None:
    said = io.StringIO()
    specs = [spec("good", "pass"), spec("bad", "raise SystemExit(7)"), spec("more", "pass", after="bad")]
    with Conductor(get_launcher("local"), console=Console(file=said, width=300)) as conductor:
        result = conductor.run(specs, tmp_path / QUEUE_FILE)
    assert result.exit_code == 1
    lines = said.getvalue().splitlines()
    assert lines[0] == "[0/3] good started"
    assert lines[1].startswith("[1/3] good finished after ")
    log = tmp_path / "bad.log"
    assert lines[3].endswith(f": exit: its command ended with status 7; log: {log}")
    assert lines[3].startswith("[2/3] bad FAILED after ")


def test_the_table_is_drawn_and_taken_away_again(spec: Callable[..., RunSpec], tmp_path: Path) -> None:
    said = io.StringIO()
    terminal = Console(file=said, width=120, force_terminal=True)
    code = "import time; print('half way', flush=True); time.sleep(1.2)"
    with Conductor(get_launcher("local"), console=terminal) as conductor:
        conductor.run([spec("slow", code)], tmp_path / QUEUE_FILE)
    assert "latest log line" in said.getvalue()
    assert "half way" in said.getvalue()
    assert "0 of 1 runs · 0 %" in said.getvalue()


def test_everything_runs_again_only_for_who_asks_for_it(spec: Callable[..., RunSpec], tmp_path: Path) -> None:
    started = []
    for restart in (None, None, Restart(everything=True)):
        with Conductor(get_launcher("local")) as conductor:
            specs = [spec("good", "pass"), spec("bad", "raise SystemExit(1)")]
            started.append(conductor.run(specs, tmp_path / QUEUE_FILE, restart=restart).attempts)
    # a finished run without a bundle cannot be checked, so it runs again; a failed one stays failed
    assert started == [2, 1, 2]


def test_the_bundle_of_a_run_is_found_below_its_root(tmp_path: Path) -> None:
    failure = {"kind": "bad_output", "where": "infer_once", "message": "words"}
    attempts = [
        {"host": "elsewhere", "pid": 1, "boot_id": "b", "started_at": f"2026-01-01T00:0{number}:00+00:00"}
        for number in range(2)
    ]
    write_manifest(tmp_path / "train", state="finished", attempts=attempts[:1])
    write_manifest(tmp_path / "inference", state="failed", attempts=attempts[1:], failure=failure)
    entry = QueueEntry("k", RunCommand(("true",)), {"root": str(tmp_path)})
    outcome = classify(entry, ExitStatus(1))
    assert (outcome.kind, outcome.reason) == ("bad_output", "infer_once: words")
    empty = QueueEntry("k", RunCommand(("true",)), {"root": str(tmp_path / "empty")})
    assert classify(empty, ExitStatus(0)).finished
    assert classify(empty, ExitStatus(1)).kind == "exit"
