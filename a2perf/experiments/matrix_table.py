"""What a person sees of a running matrix: a live table on a terminal, one line an event elsewhere."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from a2perf.launch import Event, Happening, State
from a2perf.plain_text import terminal_line

_TAIL_BYTES = 400
_MOST_ROWS = 24
_WORDS = {
    Happening.STARTED: "started",
    Happening.FINISHED: "finished",
    Happening.FAILED: "FAILED",
    Happening.RETRY: "to be tried again",
    Happening.LOST: "lost",
    Happening.RELEASED: "given back",
}
_REFRESH_S = 0.5


class MatrixTable:
    """Shows the events of a matrix; to be used as a context.

    Args:
        total: number of runs.
        kept: how many of them were finished before.
        console: where it is shown.
    """

    def __init__(self, total: int, kept: int, console: Console) -> None:
        self.total, self.done, self.failed = total, kept, 0
        self.console = console
        self.rows: dict[str, tuple[str, int, str, float]] = {}
        self._live: Live | None = None
        self._shown = 0.0

    def __enter__(self) -> MatrixTable:
        if self.console.is_terminal:
            self._live = Live(console=self.console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, event: Event) -> None:
        """Takes an event of the queue."""
        if event.what is Happening.TICK or event.entry is None:
            self._refresh()
            return
        entry, data = event.entry, event.entry.data
        env_id, seed, log = str(data["env_id"]), int(str(data["seed"])), str(data["log"])
        if event.what is Happening.STARTED:
            self.rows[entry.key] = (env_id, seed, log, time.monotonic())
        else:
            self.rows.pop(entry.key, None)
        self.done += event.what is Happening.FINISHED
        self.failed += event.what is Happening.FAILED
        took = f" after {event.wall_s:.1f} s" if event.wall_s else ""
        line = f"[{self.done + self.failed}/{self.total}] {_WORDS[event.what]}: {env_id} seed {seed}{took}"
        if event.what is Happening.STARTED:
            if self._live is not None:
                self._refresh()
                return
            line += f", log {log}"
        elif event.what is not Happening.FINISHED:
            line += f": {entry.reason}; log {log}"
            if event.what is Happening.FAILED and (last := _last_line(Path(log))):
                line += f"; last line of its log: {last}"
        style = "bold red" if entry.state is State.FAILED else ""
        self.console.print(Text(terminal_line(line), style=style), soft_wrap=True)
        self._refresh()

    def _refresh(self) -> None:
        if self._live is not None and time.monotonic() - self._shown >= _REFRESH_S:
            self._shown = time.monotonic()
            self._live.update(self.table(), refresh=True)

    def table(self) -> RenderableType:
        """Returns the runs that are executed now, each with the last line of its log."""
        table = Table(box=None, pad_edge=False, expand=True)
        table.add_column("environment", no_wrap=True)
        table.add_column("seed", justify="right")
        table.add_column("s", justify="right")
        table.add_column("last line of its log", no_wrap=True, overflow="ellipsis", ratio=1)
        now = time.monotonic()
        for env_id, seed, log, began in list(self.rows.values())[:_MOST_ROWS]:
            table.add_row(env_id, str(seed), f"{now - began:.0f}", Text(_last_line(Path(log)), style="dim"))
        counted = f"{self.done} of {self.total} finished, {self.failed} failed, {len(self.rows)} running"
        return Group(table, Text(counted), ProgressBar(total=max(1, self.total), completed=self.done + self.failed))


def _last_line(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = stream.read().decode("utf-8", "replace").replace("\r", "\n").split("\n")
    except OSError:
        return ""
    return terminal_line(next((line.strip() for line in reversed(lines) if line.strip()), ""))
