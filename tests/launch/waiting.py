"""Waiting for jobs, one-line commands, and what every launcher of a cluster does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from a2perf.launch import ExitStatus, Job, Launcher, Resources, RunCommand
from tests.waiting import Child, until

SMALL = Resources(cpus=1, memory_bytes=2**28)


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


WRITES = 'echo "to stdout in $PWD"; echo "to stderr: $COLOUR" >&2; until test -e go; do sleep 0.05; done; exit 7'
STARTED = "echo started; until test -e go; do sleep 0.05; done; exit 5"
STARTER = """
import json, sys
from pathlib import Path
from a2perf.launch import get_launcher
from tests.launch.waiting import SMALL, STARTED, shell
launcher = get_launcher(sys.argv[1], **json.loads(sys.argv[2]))
print(launcher.start(shell(Path(sys.argv[3]), STARTED, resources=SMALL)).identity, flush=True)
sys.stdin.read()
"""


def check_log_and_status(launcher: Launcher, folder: Path) -> tuple[str, str]:
    """A job writes its log as it runs and its status comes back, twice; returns the identities of both jobs."""
    command, log = shell(folder, WRITES, resources=SMALL, COLOUR="blue"), folder / "job" / "run.log"
    lines = [f"to stdout in {folder}", "to stderr: blue"]
    job = launcher.start(command)
    until(lambda: "blue" in text_of(log))
    assert job.poll() is None
    (folder / "go").touch()
    assert end_of(job) == job.poll() == ExitStatus(7)
    assert log.read_text().splitlines() == lines
    again = launcher.start(command)
    assert end_of(again) == ExitStatus(7)
    assert log.read_text().splitlines() == lines * 2
    return job.identity, again.identity


def left_job(folder: Path, launcher: str, **options: str) -> tuple[RunCommand, str]:
    """Starts a job by a launcher that is killed then; returns its command and its identity."""
    argv = [sys.executable, "-c", STARTER, launcher, json.dumps(options), str(folder)]
    with Child(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as dying:
        assert dying.stdout is not None
        identity = dying.stdout.readline().strip()
        until(lambda: "started" in text_of(folder / "job" / "run.log"))
        dying.kill()
    return shell(folder, STARTED, resources=SMALL), identity
