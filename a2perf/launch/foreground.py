"""Runs one command in the foreground; base class of the launchers of clusters."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from a2perf.constants import ExitCode
from a2perf.launch.interface import Cause, Launcher, handled_signals
from a2perf.launch.outcomes import classify_single
from a2perf.launch.run_spec import RunCommand

_POLL_S = 0.5
J = TypeVar("J")


class LogTail:
    """Copies what is appended to a file to this process's standard output."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Logs are appended to: the output of an earlier attempt is not shown again.
        self._offset = path.stat().st_size if path.exists() else 0

    def copy(self) -> None:
        """Copies the bytes that were appended since the last call."""
        try:
            with self._path.open("rb") as stream:
                if stream.seek(0, os.SEEK_END) < self._offset:  # the file was replaced
                    self._offset = 0
                stream.seek(self._offset)
                data = stream.read()
        except OSError:
            return
        self._offset += len(data)
        if data:
            sys.stdout.write(data.decode(errors="replace").replace("\r\n", "\n"))
            sys.stdout.flush()


class ClusterLauncher(Launcher):
    """Base class of the launchers of clusters: nodes share a file system, and jobs outlive their launcher.

    Args:
        poll_s: shortest time between two polls of the jobs, in seconds.
        folder: folder for the files of jobs; by default a hidden one beside a command's log.
    """

    def __init__(self, poll_s: float, folder: Path | None = None) -> None:
        self._poll_s, self._folder = poll_s, folder
        self._jobs: list[Any] = []
        self._collected: set[str] = set()

    def wait(self, timeout_s: float) -> None:
        """Sleeps; ``poll`` of the jobs asks the cluster."""
        time.sleep(min(timeout_s, self._poll_s))

    def run(self, command: RunCommand) -> int:
        """Executes one command to its end and streams its log."""
        if command.log is not None:
            return run_to_end(self, command)
        log = self._folder_of(command) / f"{command.digest()}.log"
        log.unlink(missing_ok=True)
        return run_to_end(self, replace(command, log=log), tail=LogTail(log))

    def collected(self, job: str) -> None:
        """Removes a job after its end has been reported."""
        self._collected.add(job)

    def _watch(self, job: J) -> J:
        self._jobs = [known for known in self._jobs if not known.ended]
        self._jobs.append(job)
        return job

    def _folder_of(self, command: RunCommand) -> Path:
        beside = command.cwd / "runs" if command.log is None else command.log.parent
        folder = (self._folder or beside.absolute() / f".{self.name}").absolute()
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def run_to_end(launcher: Launcher, command: RunCommand, *, tail: LogTail | None = None) -> int:
    """Executes one command and waits for its end; a signal is passed on to a child process, and cancels other jobs.

    Args:
        tail: copies its log to standard output, if the launcher's jobs cannot write there.

    Returns:
        Its exit status; 3 when it has none.
    """
    began, job, signals = time.time(), launcher.start(command), []

    def end(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        if (pass_on := getattr(job, "signal", None)) is not None:  # the evaluator ends its participant in order
            pass_on(number)
        else:
            job.cancel()

    with handled_signals(end):
        while (ended := job.poll()) is None:
            launcher.wait(_POLL_S)
            if tail is not None:
                tail.copy()
    # The job may have written after the last copy and before its end.
    if tail is not None:
        tail.copy()
    ended = classify_single(command, began, replace(ended, cause=Cause.OUTSIDE) if signals else ended)
    if ended.reason:
        print(f"a2perf: {command.name}: {ended.reason}", file=sys.stderr)
    return int(ExitCode.INFRASTRUCTURE) if ended.exit_code is None else ended.exit_code
