"""One command on a node of a cluster: executes it with a limit on wall time and records its end beside its log.

The end is a JSON file on the file system that the nodes share, written once and atomically. The launcher never
unpickles files of a job: a participant may have been able to write wherever the job could.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from a2perf.errors import UserError
from a2perf.launch import die_with_parent
from a2perf.launch.interface import Cause, ExitStatus, appended, run_environment
from a2perf.launch.run_spec import RunCommand
from a2perf.sandbox.limits import oom_kills
from a2perf.storage import read_json, write_json

INTERRUPTED = 130
"""Status of an evaluator that received SIGTERM; on a cluster only the cluster or the launcher sends it."""

END_GRACE_S = 20.0
"""How long a command may take to end after SIGTERM; then it is killed."""


def for_node(command: RunCommand, log: Path) -> RunCommand:
    """Returns a command as a node gets it; the node has the same interpreter and packages under the same paths."""
    # Nodes of a running cluster do not have the a2perf settings of the launcher's environment.
    settings = {name: value for name, value in os.environ.items() if name.startswith("A2PERF_")}
    return replace(command, env={**settings, **command.env}, log=log)


def start(command: RunCommand) -> subprocess.Popen[bytes]:
    """Starts a command on its node; it ends with the calling thread.

    Raises:
        OSError: the log cannot be written, or the working directory is missing.
    """
    with appended(command.log) as stream:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()), "all", *command.argv],
            cwd=command.cwd,
            env=run_environment(command),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        )


@dataclass(frozen=True)
class NodeEnd:
    """How a command ended on its node.

    Attributes:
        job: the engine's name of the job.
        exit_code: status of the command; ``None`` when a signal ended it or it never started.
        timed_out: it was ended because its wall time was over.
        reason: one sentence; empty when it ended by itself.
    """

    job: str
    host: str
    exit_code: int | None
    timed_out: bool = False
    reason: str = ""
    cause: str = Cause.OWN.value

    def verdict(self, *, cancelled: bool, engine: str) -> ExitStatus:
        """Returns the exit status of the job for the scheduler.

        Args:
            engine: the engine's description of the job, part of the reason.
        """
        if self.timed_out:
            return ExitStatus(self.exit_code, timed_out=True, reason=self.reason)
        if self.exit_code in (None, INTERRUPTED):
            reason = self.reason or "it was interrupted"
            cause = Cause.KILLED if self.exit_code == INTERRUPTED else Cause(self.cause)
            message = f"on {self.host} {reason} ({engine})"
            return ExitStatus(self.exit_code, lost=not cancelled, cause=cause, reason=message)
        return ExitStatus(self.exit_code)


def execute(command: RunCommand, status: str, job_variable: str) -> None:
    """Runs a command to its end and records the end; a batch job calls this function.

    Args:
        job_variable: environment variable in which the engine names the job.
    """
    job = os.environ.get(job_variable, "")
    try:
        end = wait_for_end(start(command), job, command.resources.wall_s)
    except OSError as error:
        end = not_started(job, error)
    write_json(Path(status), asdict(end))


def not_started(job: str, error: OSError) -> NodeEnd:
    """Returns the end of a command that its node could not start."""
    reason = f"it could not be started: {error}"
    return NodeEnd(job, socket.gethostname(), None, reason=reason, cause=Cause.OUTSIDE.value)


def wait_for_end(process: subprocess.Popen[bytes], job: str, wall_s: float | None) -> NodeEnd:
    """Waits for the end of a command; when its wall time is over, ends it with SIGTERM, then SIGKILL."""
    kills, timed_out, reason = oom_kills(), False, ""
    try:
        process.wait(wall_s)
    except subprocess.TimeoutExpired:
        timed_out, reason = True, f"it ran longer than the {wall_s:g} s that it was given"
        end_gracefully(process)
    status = process.returncode
    if status < 0 and not timed_out:
        reason = f"its evaluator was ended by signal {-status}"
    cause = Cause.of_signal(-status, oom_killed=oom_kills() > kills)
    return NodeEnd(job, socket.gethostname(), status if status >= 0 else None, timed_out, reason, cause.value)


def end_gracefully(process: subprocess.Popen[bytes]) -> None:
    """Sends SIGTERM, then SIGKILL after the grace period; returns when the process is gone."""
    process.terminate()
    try:
        process.wait(END_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def read_end(path: Path) -> NodeEnd | None:
    """Returns the end that a node recorded; ``None`` if the file is missing or invalid."""
    try:
        value: Any = read_json(path)
        return NodeEnd(**value)
    except (OSError, UserError, TypeError, ValueError):
        return None
