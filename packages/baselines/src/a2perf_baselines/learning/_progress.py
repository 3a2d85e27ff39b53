"""Progress of a training run: a live bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time

INTERVAL_S = 10.0


class Progress:
    """Shows the progress of a training run: a bar on standard error on a terminal, lines on standard output elsewhere.

    Args:
        total: environment steps of the whole training run; None without such a limit.
    """

    def __init__(self, total: int | None) -> None:
        from rich.console import Console

        self._console = Console(stderr=sys.stderr.isatty(), highlight=False, soft_wrap=True)
        self._total = total
        self._last = 0.0
        self._started: tuple[float, int] | None = None
        self._bar = None
        if self._console.is_terminal and total is not None:
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
            self._bar = Bar(*columns, TextColumn("{task.description}"), console=self._console, transient=True)
            self._bar.start()
            self._task = self._bar.add_task("", total=total)

    def say(self, text: str) -> None:
        """Prints one line immediately."""
        self._console.print(text, markup=False)

    def at(self, step: int, note: str) -> None:
        """Shows an environment step; lines are printed only every few seconds."""
        if self._bar is not None:
            self._bar.update(self._task, completed=step, description=note)
            return
        now = time.monotonic()
        if self._started is None:
            self._started = (now, step)
        if now - self._last < INTERVAL_S:
            return
        self._last = now
        since, first = self._started
        rate = f"  {(step - first) / (now - since):,.0f} steps/s" if now > since else ""
        of = f"/{self._total}" if self._total is not None else ""
        self.say(f"{step:>9}{of} steps{rate}  {note}".rstrip())

    def close(self) -> None:
        """Ends the live bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
