"""Runs the evaluator as a child process of this one, shows its progress, and turns its end into a bundle or an error.

Progress is a bar on a terminal or in a notebook, and plain lines elsewhere. The evaluator sends the events.
No signal handler is set and nothing of the run happens in this process, so it works in notebooks, threads and scripts
without a ``__main__`` guard.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from markupsafe import Markup

from a2perf import errors
from a2perf.constants import ExitCode
from a2perf.errors import ConfigError, InfrastructureError, RunFailed, UserError
from a2perf.experiments.planning import PlannedRun
from a2perf.launch.interface import ExitStatus
from a2perf.launch.local import LocalJob, LocalLauncher
from a2perf.launch.outcomes import classify_single
from a2perf.plain_text import plain_text, terminal_text
from a2perf.submission.evaluator.progress import EVENTS_VARIABLE, RunProgress
from a2perf.system import KILL

_SHOWN = ("say", "phase", "advance")
_INTERRUPTED = 130
_LOOK_S = 0.1
_MOST_OUTPUT = 20_000
_UPDATE_S = 0.2


def run_to_bundle(run: PlannedRun, progress: RunProgress, launcher: LocalLauncher) -> Path:
    """Runs the evaluator to its end and returns the bundle of the finished run.

    Raises:
        RunFailed: the run started and did not finish.
        UserError: the configuration or the submission is not valid; the error of the evaluator.
        KeyboardInterrupt: the caller interrupted it; the evaluator has ended, and the note names the bundle.
    """
    child = _Child(progress, Path(run.root), launcher)
    try:
        ended = child.run(run)
    finally:
        progress.close()
    if child.interrupted:
        how = "killed" if ended.exit_code is None else "interrupted"
        saved = f"{how}; the results so far are in {child.bundle}. The same call resumes the run."
        interrupt = KeyboardInterrupt()
        interrupt.add_note(f"a2perf: {'the run had not started' if child.bundle is None else saved}")
        raise interrupt
    return child.outcome(ended)


@dataclass
class _Child:
    """The evaluator of one run.

    Attributes:
        launcher: starts it; closing it kills the evaluator if it still runs.
        bundle: the bundle that it opened.
        failures: why the run failed, as the command prints it.
        refused: the error of an input.
        output: the end of what it wrote to its standard streams.
        interrupted: whether the caller interrupted it.
    """

    progress: RunProgress
    root: Path
    launcher: LocalLauncher
    bundle: Path | None = None
    failures: list[str] = field(default_factory=list)
    refused: dict[str, Any] | None = None
    output: bytes = b""
    interrupted: bool = False
    _line: bytes = b""

    def run(self, run: PlannedRun) -> ExitStatus:
        """Runs the evaluator; an interrupt is passed on to it, a second one kills it."""
        with tempfile.TemporaryDirectory(prefix="a2perf-run-", ignore_cleanup_errors=True) as folder:
            events, output = Path(folder) / "events", Path(folder) / "output"
            events.touch()
            variables = {EVENTS_VARIABLE: str(events)}
            if os.environ.get("MPLBACKEND", "").startswith("module://"):
                variables["MPLBACKEND"] = "Agg"  # that of a notebook would import all of IPython
            with output.open("ab") as end:
                began, command = time.time(), run.command(env=variables)
                job = self.launcher.start(command, output=end.fileno())
            with events.open("rb") as coming, output.open("rb") as printed:
                passed_on: int | None = None
                while True:
                    try:
                        if passed_on is not None:  # in the block: a second interrupt may come at any time
                            job.signal(passed_on)
                            passed_on = None
                        importlib.import_module("a2perf.api.results")  # for the caller, while the evaluator loads
                        return classify_single(command, began, self._follow(job, coming, printed))
                    except KeyboardInterrupt:
                        passed_on, self.interrupted = KILL if self.interrupted else signal.SIGINT, True

    def _follow(self, job: LocalJob, events: BinaryIO, output: BinaryIO) -> ExitStatus:
        while (ended := job.poll()) is None:
            self.launcher.wait(_LOOK_S)
            self._read(events, output)
        self._read(events, output)
        return ended

    def _read(self, events: BinaryIO, output: BinaryIO) -> None:
        *lines, self._line = (self._line + events.read()).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):  # an interrupt may have lost a part of a line
                self._take(json.loads(line))
        self.output = (self.output + output.read())[-_MOST_OUTPUT:]

    def _take(self, event: dict[str, Any]) -> None:
        kind = event.pop("event")
        if kind == "opened":
            # only the name: below sandbox `bubblewrap`, a participant could write another path into the file
            self.bundle = self.root / Path(event["bundle"]).name
            self.progress.opened(self.bundle)
        elif kind == "recorded" and self.bundle is not None:
            shown = os.path.relpath(self.bundle)
            self.progress.say(f"{shown} is already finished ({event['reason']}); force=True runs it again")
        elif kind == "failed":
            self.failures.append(event["text"])
        elif kind == "refused":
            self.refused = event
        elif kind in _SHOWN:
            with contextlib.suppress(Exception):  # a display that fails must not end the run
                getattr(self.progress, kind)(**event)

    def outcome(self, ended: ExitStatus) -> Path:
        """Returns the bundle of a finished run, or raises the UserError of one that did not finish."""
        if self.refused is not None:
            raise _error_of(self.refused)
        if ended.exit_code == ExitCode.SUCCESS and self.bundle is not None:
            return self.bundle
        raise self._failure(ended)

    def _failure(self, ended: ExitStatus) -> UserError:
        again = "call it again to resume" if self.bundle is not None else None
        if ended.exit_code == _INTERRUPTED:
            text = "the run was interrupted from outside"
            return RunFailed(text, hint=again, exit_code=ExitCode.INFRASTRUCTURE, bundle=self.bundle)
        text = "\n".join(part.replace("\n", "\n    ") for part in self.failures)
        if text and ended.exit_code == ExitCode.USAGE:
            return ConfigError(terminal_text(text))
        if text:
            status = ExitCode.PARTICIPANT_FAILED if ended.exit_code == 1 else ExitCode.INFRASTRUCTURE
            return RunFailed(terminal_text(text), exit_code=status, bundle=self.bundle)
        printed = terminal_text(self.output.decode(errors="replace").replace("\r\n", "\n").strip())
        reason = ended.reason or f"the evaluator ended with status {ended.exit_code}"
        text = f"{reason}; its output:\n    " + printed.replace("\n", "\n    ") if printed else reason
        return RunFailed(text, hint=again, exit_code=ExitCode.INFRASTRUCTURE, bundle=self.bundle)


def _error_of(refused: dict[str, Any]) -> UserError:
    kind = getattr(errors, refused["kind"], UserError)
    message, hint = terminal_text(refused["message"]), refused["hint"]
    hint = None if hint is None else _as_arguments(terminal_text(hint))
    if isinstance(kind, type) and issubclass(kind, UserError) and not issubclass(kind, RunFailed):
        return kind(message, hint=hint)
    return InfrastructureError(message, hint=hint)


def _as_arguments(hint: str) -> str:
    """Returns a hint with the arguments of ``evaluate`` in the place of the options of the command."""
    if "a2perf " in hint:  # a command for the shell
        return hint
    return re.sub(r"--[a-z][a-z_-]*", lambda flag: flag[0][2:].replace("-", "_"), hint.replace("--force", "force=True"))


def progress_for(progress: bool | None, label: str) -> RunProgress:
    """Returns the display that fits the place: nothing for False, a bar on a terminal and in a notebook, else lines.

    The label names the run if several run at the same time, and in a notebook.
    """
    if progress is False or sys.stderr is None:
        return RunProgress(quiet=True)
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    if getattr(shell, "kernel", None) is not None:  # IPython on a terminal is not a notebook
        return _NotebookProgress(label)
    if threading.current_thread() is threading.main_thread():
        return RunProgress()
    return RunProgress(prefix=f"{label}: ", live=False)


class _NotebookProgress(RunProgress):
    """Shows one output in a notebook: a bar that becomes a line of summary."""

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
        super().advance(done, note)
        self._note = note
        self._update()

    def opened(self, bundle: Path) -> None:
        self._bundle = os.path.relpath(bundle)

    def failed(self, text: str) -> None:
        """Nothing: the exception shows the failure."""

    def close(self) -> None:
        self._ended = True
        self._update(force=True)

    def _update(self, *, force: bool = False) -> None:
        if not force and time.monotonic() - self._last_update < _UPDATE_S:
            return
        from IPython.display import display

        self._last_update = time.monotonic()
        text = self._text()
        bar = Markup("")
        if not self._ended and self._total is not None:
            bar = Markup('<progress value="{}" max="{}" style="width:14em;vertical-align:middle"></progress> ').format(
                self._done, self._total
            )
        html = Markup('<div style="font-variant-numeric:tabular-nums">{}{}</div>').format(bar, text)
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
