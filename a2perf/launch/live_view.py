"""What a person sees while runs execute: a live table on a terminal, one line per event elsewhere."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from a2perf.launch.queue_entry import State
from a2perf.launch.scheduler import EventKind, RunEvent
from a2perf.plain_text import terminal_line

_SHOWN_RUNS = 16
_LOG_TAIL_BYTES = 2048
_REDRAW_S = 0.2
_TEXT = {
    EventKind.STARTED: "started",
    EventKind.FINISHED: "finished",
    EventKind.FAILED: "FAILED",
    EventKind.RETRY: "infrastructure failure, to be tried again",
    EventKind.LOST: "lost",
    EventKind.RELEASED: "interrupted",
}


class LiveView:
    """Shows the events of a drive; to be used as a context.

    Args:
        console: where it is shown.
        live: draw a table in place; otherwise every event is a line.
    """

    def __init__(self, console: Console, *, live: bool) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True) if live else None
        self._counts: dict[State, int] = {}
        self._settled = 0
        self._drawn = 0.0

    def __enter__(self) -> LiveView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, event: RunEvent) -> None:
        """Shows an event; with a table, only what went wrong is also a line."""
        if event.counts:
            self._counts = dict(event.counts)
            self._settled = self._counts[State.FINISHED] + self._counts[State.FAILED]
        if event.what in (EventKind.FINISHED, EventKind.FAILED):
            self._settled += 1
        if event.what is EventKind.TICK:
            if self._live is not None and time.monotonic() - self._drawn > _REDRAW_S:
                self._drawn = time.monotonic()
                self._live.update(self._table(event), refresh=True)
        elif self._live is None or event.what in (EventKind.FAILED, EventKind.RETRY, EventKind.LOST):
            self._console.print(Text(self._line(event)), soft_wrap=True)

    def _line(self, event: RunEvent) -> str:
        entry = event.entry
        assert entry is not None
        total = sum(self._counts.values())
        place = f"[{self._settled}/{total}] " if total else ""
        after = f" after {event.wall_s:.1f} s" if event.wall_s else ""
        why = f": {entry.kind}: {entry.reason}" if entry.kind else ""
        # a command started by an evaluator has a log of its own, which says more than the evaluator's
        log = Path(str(entry.data["log"])) if "log" in entry.data else entry.command.log
        if event.what is EventKind.FAILED and log is not None:
            why += f"; log: {log}"
            if end := last_line(log):
                why += f"; its last line: {end}"
        return terminal_line(f"{place}{entry.command.name} {_TEXT[event.what]}{after}{why}")

    def _table(self, event: RunEvent) -> Group:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("running")
        table.add_column("seconds", justify="right")
        table.add_column("last line of its log", no_wrap=True, overflow="ellipsis")
        now = time.monotonic()
        for entry, started in list(event.running.values())[:_SHOWN_RUNS]:
            table.add_row(terminal_line(entry.command.name), f"{now - started:.0f}", last_line(entry.command.log))
        counted = ", ".join(f"{count} {state.value}" for state, count in self._counts.items() if count)
        total = sum(self._counts.values())
        return Group(table, Text(counted), ProgressBar(total=max(1, total), completed=self._settled))


def last_line(log: Path | None) -> str:
    """Returns the last line of a log that is not empty, as text of one line; empty where there is none."""
    try:
        if log is None:
            return ""
        with log.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - _LOG_TAIL_BYTES))
            lines = stream.read().decode("utf-8", "replace").replace("\r", "\n").split("\n")
    except OSError:
        return ""
    return terminal_line(next((line.strip() for line in reversed(lines) if line.strip()), ""))
