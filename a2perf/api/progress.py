"""Shows the progress of a run from Python: a bar on a terminal or in a notebook, plain lines elsewhere.

The evaluator is another process. It sends events; ``RunProgress`` or one of the classes here shows them.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from markupsafe import Markup

from a2perf.plain_text import plain_text
from a2perf.submission.evaluator.progress import RunProgress

_UPDATE_S = 0.2


def progress_for(progress: bool | None, label: str) -> RunProgress:
    """Returns the display that fits the place.

    Args:
        progress: False shows nothing; None or True shows a bar on a terminal and in a notebook, and a line every few
            seconds elsewhere.
        label: names the run if several run at the same time, and in a notebook.
    """
    if progress is False or sys.stderr is None:
        return RunProgress(quiet=True)
    if _in_notebook():
        return NotebookProgress(label)
    if threading.current_thread() is threading.main_thread():
        return RunProgress()
    return RunProgress(prefix=f"{label}: ", live=False)


def _in_notebook() -> bool:
    """Returns whether this process is the kernel of a notebook; IPython on a terminal is not one."""
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookProgress(RunProgress):
    """Shows one output in a notebook: a bar that becomes a line of summary.

    Args:
        label: names the run.
    """

    def __init__(self, label: str) -> None:
        super().__init__(quiet=True)
        self._label = label
        self._note = "starts"
        self._texts: list[str] = []
        self._started = self._last_update = time.monotonic()
        self._ended = False
        self._bundle = ""
        self._handle: Any = None

    def say(self, text: str) -> None:
        """Keeps a text; the last one is the summary."""
        self._texts.append(plain_text(text))
        self._update()

    def phase(self, name: str, total: int | None = None) -> None:
        """Shows a phase, with a bar if its number of items is known."""
        super().phase(name, total)
        self._note = ""
        self._update(force=True)

    def advance(self, done: int, note: str = "") -> None:
        """Moves the bar."""
        super().advance(done, note)
        self._note = note
        self._update()

    def opened(self, bundle: Path) -> None:
        """Keeps the path of the bundle for the summary."""
        self._bundle = os.path.relpath(bundle)

    def failed(self, text: str) -> None:
        """Nothing: the exception shows the failure."""

    def close(self) -> None:
        """Replaces the bar by a line of summary."""
        self._ended = True
        self._update(force=True)

    def _update(self, *, force: bool = False) -> None:
        if not force and time.monotonic() - self._last_update < _UPDATE_S:
            return
        from IPython.display import display

        self._last_update = time.monotonic()
        text = self._text()
        html = Markup('<div style="font-variant-numeric:tabular-nums">{}{}</div>').format(self._bar_html(), text)
        shown = {"text/plain": text, "text/html": str(html)}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def _text(self) -> str:
        if self._ended:
            summary, bundle = self._texts[-1] if self._texts else "no result", plain_text(self._bundle)
            return f"{self._label}: {summary}" + (f"; {bundle}" if bundle and bundle not in summary else "")
        count = "" if self._total is None else f" {self._done}/{self._total}"
        parts = [plain_text(part) for part in (f"{self._phase}{count}".strip(), self._note) if part]
        return f"{self._label}: {', '.join(parts)} ({time.monotonic() - self._started:.0f} s)"

    def _bar_html(self) -> Markup:
        if self._ended or self._total is None:
            return Markup("")
        return Markup('<progress value="{}" max="{}" style="width:14em;vertical-align:middle"></progress> ').format(
            self._done, self._total
        )
