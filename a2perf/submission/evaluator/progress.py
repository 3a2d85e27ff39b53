"""Progress of a run: a live bar on a terminal, plain lines every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from a2perf.plain_text import terminal_line
from a2perf.terminal import console

_PLAIN_INTERVAL_S = 5.0


class RunProgress:
    """Shows phases with their counts on standard error.

    Args:
        quiet: show nothing (the caller prints JSON, or runs many tasks at once).
        prefix: put before every line, the task of a parallel run.
    """

    def __init__(self, *, quiet: bool = False, prefix: str = "") -> None:
        self._quiet = quiet
        self._prefix = prefix
        self._console = console(stderr=True)
        self._bar: Progress | None = None
        self._phase = ""
        self._total: int | None = None
        self._done = 0
        self._last_line = 0.0

    def say(self, text: str) -> None:
        """Prints one line; further lines of a text are indented, which tells them from lines of ours."""
        if not self._quiet:
            self._console.print(f"{self._prefix}{text}".replace("\n", "\n    "))

    def phase(self, name: str, total: int | None = None) -> None:
        """Starts a phase of ``total`` items; None when its length is not known."""
        self._end_bar()
        self._phase, self._total, self._done, self._last_line = name, total, 0, time.monotonic()
        if self._quiet:
            return
        if self._console.is_terminal and total is not None:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._bar.start()
            self._bar.add_task(terminal_line(f"{self._prefix}{name}"), total=total)
        else:
            self.say(name if total is None else f"{name}: {total} to do")

    def advance(self, done: int, note: str = "") -> None:
        """Says that ``done`` items of the phase are done."""
        self._done = done
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done)
            return
        if time.monotonic() - self._last_line >= _PLAIN_INTERVAL_S:
            self._last_line = time.monotonic()
            self.say(f"{self._phase}: {done}/{self._total} {note}".rstrip())

    def close(self) -> None:
        """Ends a live bar."""
        self._end_bar()
        sys.stderr.flush()

    def __enter__(self) -> RunProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _end_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
