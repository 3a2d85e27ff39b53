"""The progress display: bar, percentage, elapsed and remaining time, and the latest line of each log."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from a2perf.launch.live_view import LiveView, clock_time, rough_time
from a2perf.launch.queue_entry import QueueEntry, State
from a2perf.launch.run_spec import RunCommand
from a2perf.launch.scheduler import RunEvent


def counts(**numbers: int) -> dict[State, int]:
    return {state: numbers.get(state.value, 0) for state in State}


def entry(name: str, log: Path | None = None, state: State = State.RUNNING) -> QueueEntry:
    return QueueEntry(name, RunCommand(("true",), name=name, log=log), state=state)


def view(*, live: bool, width: int = 80) -> tuple[LiveView, io.StringIO, list[float]]:
    shown, now = io.StringIO(), [0.0]
    console = Console(file=shown, width=width, force_terminal=live, color_system=None)
    return LiveView(console, live=live, clock=lambda: now[0]), shown, now


def test_the_table_shows_progress_and_the_end_of_each_log(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("loading\nrollouts 2/10\x1b[2J\n")
    display, shown, now = view(live=True)
    name = "an_algorithm_with_a_long_name/A-Task-With-A-Long-Name-v0/seed_1/train"
    display.show(RunEvent(entry("first", state=State.FINISHED), wall_s=240))
    now[0] = 300
    running = {"token": (entry(name, log), 240.0)}
    tick = RunEvent(counts=counts(finished=1, failed=1, running=1, queued=1), running=running)
    display.show(tick)
    console = Console(file=shown, width=80, color_system=None)
    shown.truncate(0)
    console.print(display.table(tick))
    text = shown.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "/seed_1/train" in text
    assert "1:00  rollouts 2/10\\x1b[2J" in text
    # 2 runs of 4 minutes each are left, one at a time; the running one has had 1 minute
    assert "2 of 4 runs · 50 % · 5:00 elapsed · ~7 min left · 1 failed" in text


def test_lines_without_a_terminal_count_the_runs_and_estimate_the_rest() -> None:
    display, shown, _ = view(live=False, width=200)
    display.show(RunEvent(counts=counts(queued=3)))
    display.show(RunEvent(entry("a", state=State.RUNNING)))
    display.show(RunEvent(entry("a", state=State.FINISHED), wall_s=600))
    display.show(RunEvent(entry("b", state=State.FINISHED), wall_s=600))
    display.show(RunEvent(entry("c", state=State.FINISHED), wall_s=600))
    assert shown.getvalue().splitlines() == [
        "[0/3] a started",
        "[1/3] a finished after 600.0 s, ~20 min left",
        "[2/3] b finished after 600.0 s, ~10 min left",
        "[3/3] c finished after 600.0 s",
    ]


@pytest.mark.parametrize(
    ("seconds", "exact", "rough"), [(5, "0:05", "< 1 min"), (754, "12:34", "~13 min"), (7800, "2:10:00", "~2 h 10 min")]
)
def test_durations(seconds: float, exact: str, rough: str) -> None:
    assert (clock_time(seconds), rough_time(seconds)) == (exact, rough)
