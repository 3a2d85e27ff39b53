"""How an experiment is shown: a live table on a terminal, plain lines elsewhere, a summary at the end, or JSON.

The conducting itself is ``a2perf.experiments.experiment``; nothing here decides anything.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from a2perf import terminal
from a2perf.experiments.experiment import Conducted, as_json, blocked, conduct, mean_return
from a2perf.experiments.plan import Experiment
from a2perf.launch.entry import Entry, State
from a2perf.launch.interface import Launcher, heeded_signals
from a2perf.launch.scheduler import Event, Happening
from a2perf.plain_text import terminal_line

_SHOWN_RUNS = 16
_LOG_TAIL_BYTES = 2048
_FILE_WIDTH = 160
_WORDS = {
    Happening.STARTED: "started",
    Happening.FINISHED: "finished",
    Happening.FAILED: "FAILED",
    Happening.RETRY: "infrastructure failure, to be tried again",
    Happening.LOST: "lost",
    Happening.RELEASED: "interrupted",
}


def run_experiment(
    experiment: Experiment,
    launcher: Launcher,
    workers: int,
    *,
    force: bool,
    retry_failed: bool,
    retry_infrastructure: bool,
    json_output: bool,
) -> int:
    """Conducts an experiment, shows its progress on stderr and its result on stdout.

    Returns:
        The exit status: 0 all runs finished, 1 some failed, 3 the infrastructure failed one, 130 interrupted.
    """
    console = terminal.console(stderr=True)
    view = _LiveView(console) if console.is_terminal and not json_output else _Lines(console)
    try:
        with _stopping(console) as stop, view:
            conducted = conduct(
                experiment, launcher, workers,
                force=force, retry_failed=retry_failed, retry_infrastructure=retry_infrastructure,
                on_event=view.show, stop=stop.asked,
            )  # fmt: skip
    finally:
        launcher.close()
    if json_output:
        click.echo(json.dumps(as_json(conducted, experiment.root), indent=2))
    else:
        _print_summary(conducted, experiment.root)
    return conducted.summary.exit_code


def runs_table(entries: Sequence[Entry]) -> Table:
    """Returns one line per submission, task and mode: how its runs stand, and the mean return of the finished ones."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("submission", "task", "mode"):
        table.add_column(name, no_wrap=True)
    for name in ("runs", "finished", "failed", "waiting", "mean return"):
        table.add_column(name, justify="right")
    groups: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.data["submission"], entry.data["task"], entry.data["mode"]), []).append(entry)
    for words, members in groups.items():
        finished = [entry for entry in members if entry.state is State.FINISHED]
        failed = sum(entry.state is State.FAILED for entry in members)
        returns = [value for entry in finished if (value := mean_return(entry)) is not None]
        mean = f"{sum(returns) / len(returns):.4g}" if returns else ""
        waiting = len(members) - len(finished) - failed
        table.add_row(*map(terminal_line, words), *map(str, (len(members), len(finished), failed, waiting)), mean)
    return table


def print_failures(console: Console, entries: Sequence[Entry]) -> None:
    """Prints every failed run with its kind, its reason and its log, those that only lacked another one briefly."""
    failed = [entry for entry in entries if entry.state is State.FAILED]
    for entry in failed:
        if not blocked(entry):
            console.print(terminal_line(f"{entry.command.name}: {entry.kind}: {entry.reason}"))
            console.print(f"  log: {entry.command.log}")
    if count := sum(map(blocked, failed)):
        console.print(f"{count} more did not run, because what they need failed")


def plain_console() -> Console:
    """Returns a console for results: as wide as the terminal, or as wide as a table needs where there is none."""
    console = terminal.console()
    return console if console.is_terminal else terminal.console(width=_FILE_WIDTH)


def _print_summary(conducted: Conducted, root: Path) -> None:
    console = plain_console()
    console.print(runs_table(conducted.entries))
    print_failures(console, conducted.entries)
    done = conducted.summary.counts[State.FINISHED]
    console.print(
        f"{done} of {len(conducted.entries)} runs finished in {root} ({conducted.summary.wall_s:.1f} s)", markup=False
    )
    if conducted.summary.stopped:
        console.print("interrupted; the same command goes on")
    elif done:
        console.print(f"the report: a2perf report {root} --output {root}-report")


class _Lines:
    """One line per change."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._settled = 0
        self._total = 0

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def show(self, event: Event) -> None:
        """Prints an event."""
        if event.counts:
            self._settled = event.counts[State.FINISHED] + event.counts[State.FAILED]
            self._total = sum(event.counts.values())
        if event.entry is None:
            return
        if event.what in (Happening.FINISHED, Happening.FAILED):
            self._settled += 1
        after = f" after {event.wall_s:.1f} s" if event.wall_s else ""
        why = f": {event.entry.kind}: {event.entry.reason}" if event.entry.kind else ""
        place = f"[{self._settled}/{self._total}] " if self._total else ""
        self._console.print(terminal_line(f"{place}{event.entry.command.name} {_WORDS[event.what]}{after}{why}"))


class _LiveView(_Lines):
    """A table of what runs, redrawn in place, with the failures as lines above it."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._counts: dict[State, int] = {}
        self._drawn = 0.0

    def __enter__(self) -> _LiveView:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, event: Event) -> None:
        """Redraws the table; prints what is worth a line."""
        if event.counts:
            self._counts = dict(event.counts)
        if event.what in (Happening.FAILED, Happening.RETRY, Happening.LOST):
            super().show(event)
        if event.what is Happening.TICK and time.monotonic() - self._drawn > 0.2:
            self._drawn = time.monotonic()
            self._live.update(self._table(event))

    def _table(self, event: Event) -> Table:
        said = ", ".join(f"{count} {state.value}" for state, count in self._counts.items() if count)
        table = Table(box=None, pad_edge=False, title=said, title_justify="left", header_style="bold")
        table.add_column("running")
        table.add_column("seconds", justify="right")
        table.add_column("its last words", no_wrap=True, overflow="ellipsis")
        for entry, started in list(event.running.values())[:_SHOWN_RUNS]:
            table.add_row(
                terminal_line(entry.command.name), f"{time.monotonic() - started:.0f}", _last_line(entry.command.log)
            )
        return table


def _last_line(log: Path | None) -> str:
    try:
        if log is None:
            return ""
        with log.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - _LOG_TAIL_BYTES))
            lines = stream.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return terminal_line(next((line.strip() for line in reversed(lines) if line.strip()), ""))


class _Stop:
    """Whether a signal asked for the end; the second one ends at once."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._count = 0
        self._told = False

    def asked(self) -> bool:
        """Whether to stop; says so once. A handler must not print, it may have interrupted a print."""
        if self._count and not self._told:
            self._told = True
            self._console.print("stopping: the running runs are told to end; once more ends them at once")
        return self._count > 0

    def take(self, number: int, frame: FrameType | None) -> None:
        """The handler."""
        self._count += 1
        if self._count > 1:
            raise KeyboardInterrupt


@contextmanager
def _stopping(console: Console) -> Iterator[_Stop]:
    stop = _Stop(console)
    previous = {number: signal.signal(number, stop.take) for number in heeded_signals()}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        sys.stderr.flush()
