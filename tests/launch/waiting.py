"""Waiting for jobs, and one-line commands, for the tests of launchers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from a2perf.launch import ExitStatus, Job, Resources, RunCommand

T = TypeVar("T")


def shell(folder: Path, script: str, name: str = "job", resources: Resources | None = None, **env: str) -> RunCommand:
    """A command that is a shell script; its log is ``folder/<name>/run.log``."""
    log = folder / name / "run.log"
    return RunCommand(("/bin/sh", "-c", script), name, folder, env, log, resources or Resources())


def end_of(job: Job, within_s: float = 60.0) -> ExitStatus:
    """Waits for the end of a job."""
    return until(job.poll, within_s)


def until(question: Callable[[], T | None], within_s: float = 60.0) -> T:
    """Waits until a question has an answer that counts as true, and returns it."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if answer := question():
            return answer
        time.sleep(0.05)
    raise AssertionError(f"nothing happened within {within_s:g} s")


def text_of(path: Path) -> str:
    """The text of a file, empty when there is none yet."""
    return path.read_text() if path.exists() else ""
