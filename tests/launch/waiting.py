"""Waiting for jobs, and one-line commands, for the tests of launchers."""

from __future__ import annotations

from pathlib import Path

from a2perf.launch import ExitStatus, Job, Resources, RunCommand
from tests.waiting import until


def shell(folder: Path, script: str, name: str = "job", resources: Resources | None = None, **env: str) -> RunCommand:
    """A command that is a shell script; its log is ``folder/<name>/run.log``."""
    log = folder / name / "run.log"
    return RunCommand(("/bin/sh", "-c", script), name, folder, env, log, resources or Resources())


def end_of(job: Job) -> ExitStatus:
    """Waits for the end of a job."""
    return until(job.poll)


def text_of(path: Path) -> str:
    """The text of a file, empty when there is none yet."""
    return path.read_text() if path.exists() else ""
