"""The progress display: a live table with a bar on a terminal, one line per event elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from a2perf.launch.queue_entry import QueueEntry, State
from a2perf.launch.scheduler import RunEvent
from a2perf.plain_text import terminal_line

_MAX_RUNS = 12
_WIDE = 100  # columns of a console with space for the long bar
_LOG_TAIL_BYTES = 2048
_REDRAW_S = 0.2
_TEXT = {State.RUNNING: "started", State.FINISHED: "finished", State.FAILED: "FAILED", State.LOST: "lost"}
_SETTLED = (State.FINISHED, State.FAILED)


class LiveView:
    """Shows the events of a drive; used as a context manager.

    Args:
        live: draw a table in place; otherwise every event is a line.
        clock: monotonic time in seconds.
    """

    def __init__(self, console: Console, *, live: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True) if live else None
        self._clock = clock
        self._started = clock()
        self._drawn = 0.0
        self._counts: dict[State, int] = {}
        self._settled = 0
        self._wall_s: list[float] = []
        self._running: dict[str, float] = {}
        self._workers = 1

    def __enter__(self) -> LiveView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, event: RunEvent) -> None:
        """Shows an event; beside the table, only failures are printed as lines."""
        if event.counts:
            self._counts = dict(event.counts)
            self._settled = sum(self._counts[state] for state in _SETTLED)
        if event.state in _SETTLED:
            # The counts of the queue come with the next tick, after the line of this event is printed.
            self._settled += 1
            if event.wall_s:
                self._wall_s.append(event.wall_s)
        if event.entry is None:
            self._running = {token: started for token, (_, started) in event.running.items()}
            self._workers = max(self._workers, len(self._running))
            if self._live is not None and self._clock() - self._drawn > _REDRAW_S:
                self._drawn = self._clock()
                self._live.update(self.table(event), refresh=True)
        elif self._live is None or event.entry.kind or event.state is State.LOST:
            # As Text: rich would read square brackets in names and logs as markup.
            self._console.print(Text(self._line(event)), soft_wrap=True)

    def remaining_s(self) -> float | None:
        """Estimates the time until every run has ended; ``None`` before the first one has.

        Assumes that every run takes as long as those that ended in this process did on average, and that as many
        execute at the same time as did so far.
        """
        unsettled = sum(self._counts.values()) - self._settled
        if not self._wall_s or not unsettled:
            return None
        mean = sum(self._wall_s) / len(self._wall_s)
        done = sum(min(mean, self._clock() - started) for started in self._running.values())
        return max(0.0, unsettled * mean - done) / min(self._workers, unsettled)

    def table(self, event: RunEvent) -> Group:
        """Returns the table of the running runs above the progress bar."""
        table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
        table.add_column("running", no_wrap=True)
        table.add_column("time", justify="right", no_wrap=True)
        table.add_column("latest log line", no_wrap=True, overflow="ellipsis", ratio=1)
        running = list(event.running.values())
        for entry, started in running[:_MAX_RUNS]:
            name, width = terminal_line(entry.command.name), self._console.width // 2
            name = name if len(name) <= width else f"…{name[1 - width :]}"  # runs of an experiment differ at the end
            table.add_row(Text(name), clock_time(self._clock() - started), Text(last_line(_log_of(entry))))
        if len(running) > _MAX_RUNS:
            table.add_row(f"and {len(running) - _MAX_RUNS} more", "", "")
        total = sum(self._counts.values())
        width = 24 if self._console.width >= _WIDE else 12
        bar = ProgressBar(total=max(1, total), completed=self._settled, width=width, complete_style="green")
        progress = Table.grid(padding=(0, 1))
        progress.add_row(bar, self._progress())
        return Group(table, progress)

    def _progress(self) -> Text:
        """Returns ``3 of 4 runs · 75 % · 12:04 elapsed · ~4 min left · 1 failed``."""
        total = sum(self._counts.values())
        parts = [f"{self._settled} of {total} runs", f"{100 * self._settled // max(1, total)} %"]
        parts.append(f"{clock_time(self._clock() - self._started)} elapsed")
        if (remaining := self.remaining_s()) is not None:
            parts.append(f"{rough_time(remaining)} left")
        if failed := self._counts.get(State.FAILED):
            parts.append(f"{failed} failed")
        return Text(" · ".join(parts))

    def _line(self, event: RunEvent) -> str:
        entry = event.entry
        assert entry is not None
        text = _TEXT.get(entry.state) or ("infrastructure failure, retrying" if entry.kind else "interrupted")
        total = sum(self._counts.values())
        place = f"[{self._settled}/{total}] " if total else ""
        after = f" after {event.wall_s:.1f} s" if event.wall_s else ""
        why = f": {entry.failure}" if entry.kind else ""
        log = _log_of(entry)
        if entry.state is State.FAILED and log is not None:
            why += f"; log: {log}"
        if entry.state is State.FINISHED and self._live is None and (remaining := self.remaining_s()) is not None:
            after += f", {rough_time(remaining)} left"
        return terminal_line(f"{place}{entry.command.name} {text}{after}{why}")


def clock_time(seconds: float) -> str:
    """Returns a duration as ``m:ss`` or ``h:mm:ss``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def rough_time(seconds: float) -> str:
    """Returns an estimated duration for people: ``< 1 min``, ``~4 min``, ``~2 h 10 min``."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return "< 1 min"
    if minutes < 60:
        return f"~{minutes} min"
    hours, minutes = divmod(5 * round(minutes / 5), 60)
    return f"~{hours} h {minutes} min" if minutes else f"~{hours} h"


def _log_of(entry: QueueEntry) -> Path | None:
    """Returns the log to show: that of the command that an evaluator started, or else the evaluator's."""
    return Path(str(entry.data["log"])) if "log" in entry.data else entry.command.log


def last_line(log: Path | None) -> str:
    """Returns the last line of a log that is not empty, as one line of text; ``""`` without such a line."""
    try:
        if log is None:
            return ""
        with log.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - _LOG_TAIL_BYTES))
            # A progress bar rewrites its line with carriage returns; its latest state counts.
            lines = stream.read().decode("utf-8", "replace").replace("\r", "\n").split("\n")
    except OSError:
        return ""
    return terminal_line(next((line.strip() for line in reversed(lines) if line.strip()), ""))
