"""Runs the evaluator as a child process of this one, shows its progress, and turns its end into a bundle or an error.

No signal handler is set and nothing of the run happens in this process, so it works in notebooks, threads and scripts
without a ``__main__`` guard.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from a2perf import errors
from a2perf.constants import ExitCode
from a2perf.errors import ConfigError, InfrastructureError, RunFailed, UserError
from a2perf.experiments.evaluator_run import SingleRun
from a2perf.launch.interface import ExitStatus
from a2perf.launch.local import LocalJob, LocalLauncher
from a2perf.plain_text import terminal_text
from a2perf.submission.evaluator.progress import EVENTS_VARIABLE, RunProgress
from a2perf.system import LINUX

_SHOWN = ("say", "phase", "advance")
_INTERRUPTED = 130
_POLL_MS = 1_000 if LINUX else 50  # elsewhere the end of the evaluator wakes nobody
_READ_BYTES = 1 << 16
_MOST_OUTPUT = 20_000


def run_to_bundle(single: SingleRun, progress: RunProgress, launcher: LocalLauncher) -> Path:
    """Runs the evaluator to its end.

    Args:
        single: the run.
        progress: shows what the evaluator reports.

    Returns:
        The bundle of the finished run.

    Raises:
        RunFailed: the run started and did not finish.
        UserError: the configuration or the submission is not valid; the error of the evaluator.
        KeyboardInterrupt: the caller interrupted it; the evaluator has ended, and the note names the bundle.
    """
    child = _Child(progress, Path(single.root), launcher)
    try:
        ended = child.run(single)
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
        progress: shows its reports.
        root: folder of the run.
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

    def run(self, single: SingleRun) -> ExitStatus:
        """Runs the evaluator; an interrupt is passed on to it, a second one kills it."""
        events, events_end = os.pipe()
        output, output_end = os.pipe()
        try:
            try:
                variables = {EVENTS_VARIABLE: str(events_end)}
                if os.environ.get("MPLBACKEND", "").startswith("module://"):
                    variables["MPLBACKEND"] = "Agg"  # that of a notebook would import all of IPython
                job = self.launcher.start(single.command(variables), output=output_end, pass_fds=(events_end,))
            finally:
                os.close(events_end)
                os.close(output_end)
            os.set_blocking(events, False)
            os.set_blocking(output, False)
            while True:
                try:
                    return self._follow(job, events, output)
                except KeyboardInterrupt:
                    job.signal(signal.SIGKILL if self.interrupted else signal.SIGINT)
                    self.interrupted = True
        finally:
            os.close(events)
            os.close(output)

    def _follow(self, job: LocalJob, events: int, output: int) -> ExitStatus:
        waiting = select.poll()
        for descriptor in (job.descriptor, events, output)[0 if LINUX else 1 :]:
            waiting.register(descriptor, select.POLLIN)
        while (ended := job.poll()) is None:
            for descriptor, state in waiting.poll(_POLL_MS):
                if descriptor != job.descriptor and not state & select.POLLIN:
                    waiting.unregister(descriptor)  # closed at the other end: it would be ready all the time
            self._read(events, output)
        self._read(events, output)
        return ended

    def _read(self, events: int, output: int) -> None:
        *lines, self._line = (self._line + _available(events)).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):  # an interrupt may have lost a part of a line
                self._take(json.loads(line))
        self.output = (self.output + _available(output))[-_MOST_OUTPUT:]

    def _take(self, event: dict[str, Any]) -> None:
        kind = event.pop("event")
        if kind == "opened":
            # only the name: below sandbox `bubblewrap`, a participant could write another path into the pipe
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
        """Returns the bundle of a finished run.

        Raises:
            UserError: the run did not finish.
        """
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
        printed = terminal_text(self.output.decode(errors="replace").strip())
        reason = ended.reason or f"the evaluator ended with status {ended.exit_code}"
        text = f"{reason}; its output:\n    " + printed.replace("\n", "\n    ") if printed else reason
        return RunFailed(text, hint=again, exit_code=ExitCode.INFRASTRUCTURE, bundle=self.bundle)


def _available(descriptor: int) -> bytes:
    parts = []
    with contextlib.suppress(BlockingIOError):
        while part := os.read(descriptor, _READ_BYTES):
            parts.append(part)
    return b"".join(parts)


def _error_of(refused: dict[str, Any]) -> UserError:
    kind = getattr(errors, refused["kind"], UserError)
    message, hint = terminal_text(refused["message"]), refused["hint"]
    hint = None if hint is None else terminal_text(hint)
    if isinstance(kind, type) and issubclass(kind, UserError) and not issubclass(kind, RunFailed):
        return kind(message, hint=hint)
    return InfrastructureError(message, hint=hint)
