"""Shows the progress of a run: a live bar on a terminal, a plain line every few seconds elsewhere.

A process that shows the progress itself starts the evaluator with ``EVENTS_VARIABLE``, the path of a file.
``EventProgress`` then appends one JSON object per line to the file and nothing to standard error.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a2perf.errors import UserError
from a2perf.plain_text import terminal_line, terminal_text
from a2perf.terminal import console

if TYPE_CHECKING:
    from rich.progress import Progress

EVENTS_VARIABLE = "A2PERF_EVENTS"
"""Environment variable: the file to which the evaluator appends its events."""

_PLAIN_INTERVAL_S = 5.0
_EVENT_INTERVAL_S = 0.1
_MOST_TEXT = 100_000


class RunProgress:
    """Shows phases with their counts on standard error.

    Args:
        quiet: show nothing, for callers that print JSON or run many tasks at once.
        prefix: text before every line, such as the task of a parallel run.
        live: show a bar if standard error is a terminal. Several bars at once would overwrite each other.
    """

    def __init__(self, *, quiet: bool = False, prefix: str = "", live: bool = True, failures: bool = False) -> None:
        self._quiet, self._failures, self._prefix = quiet, failures, prefix
        self._live = live and not quiet and sys.stderr.isatty()
        self._bar: Progress | None = None
        self._phase = ""
        self._total: int | None = None
        self._done = 0
        self._last_line = 0.0

    def say(self, text: str) -> None:
        """Prints a text. Lines after the first are indented: a participant's text cannot imitate a line of a2perf."""
        self._print(text, not self._quiet)

    def _print(self, text: str, shown: bool) -> None:
        line = f"{self._prefix}{text}".replace("\n", "\n    ")
        if shown and self._bar is not None:
            self._bar.console.print(line)
        elif shown:
            print(terminal_text(line), file=sys.stderr, flush=True)

    def phase(self, name: str, total: int | None = None) -> None:
        """Starts a phase of ``total`` items; None if the number is unknown."""
        self._end_bar()
        self._phase, self._total, self._done, self._last_line = name, total, 0, time.monotonic()
        if self._quiet:
            return
        if self._live and total is not None:
            from rich import progress as rich

            columns = (rich.MofNCompleteColumn(), rich.TimeElapsedColumn(), rich.TimeRemainingColumn())
            self._bar = rich.Progress(
                rich.TextColumn("{task.description}"),
                rich.BarColumn(),
                *columns,
                console=console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._bar.add_task(terminal_line(f"{self._prefix}{name}"), total=total)
        else:
            self.say(name if total is None else f"{name}: 0/{total}")

    def advance(self, done: int, note: str = "") -> None:
        """Reports that ``done`` items of the phase are done."""
        self._done = done
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done)
            return
        if time.monotonic() - self._last_line >= _PLAIN_INTERVAL_S:
            self._last_line = time.monotonic()
            self.say(f"{self._phase}: {done}/{self._total} {note}".rstrip())

    def opened(self, bundle: Path) -> None:
        """Reports the bundle that the run writes."""

    def recorded(self, bundle: Path, reason: str) -> None:
        """Reports that nothing runs, since the bundle is finished."""
        self.say(f"{bundle} is already finished ({reason}); use --force to run it again")

    def failed(self, text: str) -> None:
        """Shows why the run failed."""
        self._print(text, self._failures or not self._quiet)

    def refused(self, error: UserError) -> None:
        """Shows an error of the caller's input."""
        print(f"a2perf: {error.text}", file=sys.stderr)

    def close(self) -> None:
        """Ends a live bar."""
        self._end_bar()
        sys.stderr.flush()

    def __enter__(self) -> RunProgress:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def _end_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class EventProgress(RunProgress):
    """Appends progress as JSON lines to a file; the process that reads it shows it."""

    def __init__(self, path: str) -> None:
        super().__init__(quiet=True)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        self._last_event = 0.0

    def say(self, text: str) -> None:
        """Sends a text."""
        self._send({"event": "say", "text": text[:_MOST_TEXT]})

    def phase(self, name: str, total: int | None = None) -> None:
        """Sends the start of a phase."""
        super().phase(name, total)
        self._last_event = 0.0
        self._send({"event": "phase", "name": name, "total": total})

    def advance(self, done: int, note: str = "") -> None:
        """Sends the number of items that are done, at most ten times per second."""
        super().advance(done, note)
        now = time.monotonic()
        if done == self._total or now - self._last_event >= _EVENT_INTERVAL_S:
            self._last_event = now
            self._send({"event": "advance", "done": done, "note": note})

    def opened(self, bundle: Path) -> None:
        """Sends the path of the bundle."""
        self._send({"event": "opened", "bundle": str(bundle)})

    def recorded(self, bundle: Path, reason: str) -> None:
        """Sends that nothing runs."""
        self._send({"event": "recorded", "reason": reason})

    def failed(self, text: str) -> None:
        """Sends the reason of a failure."""
        self._send({"event": "failed", "text": text[:_MOST_TEXT]})

    def refused(self, error: UserError) -> None:
        """Sends an error of the caller's input."""
        given = {"kind": type(error).__name__, "message": error.message, "hint": error.hint}
        self._send({"event": "refused", **given, "exit_code": int(error.exit_code)})

    def _send(self, event: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # a full disk must not end the run
            os.write(self._descriptor, json.dumps(event).encode() + b"\n")


def run_progress(*, quiet: bool = False) -> RunProgress:
    """Returns the progress of this evaluator process: events if its parent requested them, else a display."""
    given = os.environ.pop(EVENTS_VARIABLE, None)  # popped: the processes of tasks must not write to it
    return RunProgress(quiet=quiet, failures=True) if given is None else EventProgress(given)
