"""Runs on a Slurm cluster, one batch job per run, submitted through submitit.

All nodes share a file system with the submission folder, root directories, logs and this Python installation. A job
writes its run's log and records its end in a file beside it (``node_run``). One ``squeue`` call asks for all jobs; no
accounting database is needed. Jobs outlive the launcher: a later one finds them by the identity in the queue or by
their names. Slurm does not requeue these jobs, because the queue retries and counts. A job is therefore reported lost
if it is preempted or its node fails.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.errors import InfrastructureError, MissingDependency, install_hint
from a2perf.launch.foreground import ClusterLauncher
from a2perf.launch.interface import Cause, ExitStatus
from a2perf.launch.node_run import execute, for_node, read_end
from a2perf.launch.run_spec import RunCommand

_ACTIVE = {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"}
_OF_THE_CLUSTER = {"NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "REVOKED", "REQUEUED"}
_NO_MEMORY = "OUT_OF_MEMORY"
# Reasons in squeue for a job that no node of its partition can ever run.
_HOPELESS = {"BadConstraints", "PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit"}
_WALL_MARGIN_S = 120.0  # the node enforces the wall time itself; Slurm's limit is the fallback
_CLIENT_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class _Entry:
    """One line of ``squeue``."""

    job: str
    state: str
    name: str
    reason: str


class SlurmLauncher(ClusterLauncher):
    """Runs commands as batch jobs.

    Args:
        folder: shared folder for scripts and ends of jobs; by default ``.slurm`` beside a command's log.
        sbatch: further options of ``sbatch`` by name, ``{"nice": 10}``; as a text, ``constraint=a100;nice=10``.
        grace_s: how long the file of an ended job may take to appear on the shared file system, in seconds.

    Raises:
        MissingDependency: submitit or Slurm's programs are not installed.
    """

    name = "slurm"

    def __init__(
        self,
        *,
        folder: str | Path | None = None,
        partition: str | None = None,
        account: str | None = None,
        qos: str | None = None,
        sbatch: Mapping[str, Any] | str = "",
        poll_s: float | str = 3.0,
        grace_s: float | str = 20.0,
    ) -> None:
        try:
            import submitit  # noqa: F401
        except ImportError as error:
            raise MissingDependency("the slurm launcher needs submitit", hint=install_hint("slurm")) from error
        if missing := [program for program in ("sbatch", "squeue", "scancel") if shutil.which(program) is None]:
            raise MissingDependency(
                f"the slurm launcher needs {' and '.join(missing)} on PATH",
                hint="run a2perf on a login node of the cluster",
            )
        super().__init__(float(poll_s), None if folder is None else Path(folder).expanduser().absolute())
        chosen = {"partition": partition, "account": account, "qos": qos}
        self._parameters = {name: value for name, value in chosen.items() if value is not None}
        if isinstance(sbatch, str):
            pairs = [pair.partition("=") for pair in sbatch.split(";") if pair]
            sbatch = {name: value or True for name, _, value in pairs}
        self._sbatch = dict(sbatch)
        self.grace_s = float(grace_s)
        self._seen: dict[str, _Entry] = {}
        self._asked = -math.inf

    def start(self, command: RunCommand) -> SlurmJob:
        """Submits a command, or takes over its job if the cluster still has one.

        Raises:
            InfrastructureError: Slurm refused the job or does not answer.
        """
        folder = self._folder_of(command)
        log = command.log or folder / "runs.log"
        name = f"a2perf-{command.digest()}"
        status = folder / f"{name}.json"
        # Slurm may report a job as running for a moment after its end was collected.
        known = [entry for entry in self.entries(fresh=True).values() if entry.job not in self._collected]
        if active := [entry for entry in known if entry.name == name and entry.state in _ACTIVE]:
            job = active[0].job
        else:
            status.unlink(missing_ok=True)
            job = self._submit(command, name, folder, log, status)
            # Until the next squeue call the job would otherwise look as if it had left the cluster.
            self._seen[job] = _Entry(job, "PENDING", name, "None")
        return self._watch(SlurmJob(self, job, status))

    def adopt(self, identity: str) -> SlurmJob | None:
        """Takes over a job of an earlier launcher, even if it has ended and recorded its end."""
        job, status = json.loads(identity)
        found = SlurmJob(self, job, Path(status))
        end = read_end(Path(status))
        entry = self.entries(fresh=True).get(job)
        if (end is not None and end.job == job) or (entry is not None and entry.state in _ACTIVE):
            return self._watch(found)
        return None

    def close(self) -> None:
        """Cancels the jobs that are still in the cluster."""
        for job in self._jobs:
            if job.poll() is None:
                job.cancel()

    def entries(self, *, fresh: bool = False) -> Mapping[str, _Entry]:
        """Returns the lines of ``squeue`` by job, without those that Slurm does not know (any more).

        Raises:
            InfrastructureError: Slurm does not answer.
        """
        if fresh or time.monotonic() - self._asked >= self._poll_s:
            # All states: the controller keeps an ended job for a while, and its state tells why it ended.
            printed = _call(["squeue", "--noheader", "--me", "--states=all", "--format=%A|%T|%j|%r"])
            lines = [line.strip().split("|", 3) for line in printed.splitlines() if line.count("|") >= 3]
            self._seen = {entry[0]: _Entry(*entry) for entry in lines}
            self._asked = time.monotonic()
        return self._seen

    def _submit(self, command: RunCommand, name: str, folder: Path, log: Path, status: Path) -> str:
        import submitit

        executor = submitit.SlurmExecutor(folder=folder)
        wanted = command.resources
        requested: dict[str, Any] = {"time": 0}  # no limit of ours; submitit's default is five minutes
        if wanted.wall_s is not None:
            requested["time"] = math.ceil((wanted.wall_s + _WALL_MARGIN_S) / 60)
        if wanted.cpus is not None:
            requested["cpus_per_task"] = math.ceil(wanted.cpus)
        if wanted.memory_bytes is not None:
            requested["mem"] = f"{math.ceil(wanted.memory_bytes / 2**20)}M"
        if wanted.gpus:
            requested["gpus_per_node"] = wanted.gpus
        executor.update_parameters(
            job_name=name,
            **requested,
            **self._parameters,
            use_srun=False,
            stderr_to_stdout=True,
            additional_parameters={"no-requeue": True, "chdir": str(folder), **self._sbatch},
        )
        try:
            job = executor.submit(_execute_and_exit, for_node(command, log), str(status))
        except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError, OSError) as error:
            raise InfrastructureError(
                f"Slurm did not take {command.name}: {str(error).strip()}",
                hint="`sinfo` lists the partitions and nodes",
            ) from error
        script = folder / f"{job.job_id}_submission.sh"
        # submitit leaves a link from the temporary name of every script that it submits.
        for link in folder.glob(".submission_file_*"):
            if link.is_symlink() and link.readlink() == script:
                link.unlink()
        return str(job.job_id)


class SlurmJob:
    """A batch job of this launcher or of one before it."""

    def __init__(self, launcher: SlurmLauncher, job: str, status: Path) -> None:
        self.job = job
        self._launcher = launcher
        self._status = status
        self._cancelled = False
        self._gone_since: float | None = None
        self._ended: ExitStatus | None = None

    @property
    def identity(self) -> str:
        """The job's number and the file for its end."""
        return json.dumps([self.job, str(self._status)])

    @property
    def ended(self) -> bool:
        """Whether ``poll`` has returned an end."""
        return self._ended is not None

    def poll(self) -> ExitStatus | None:
        """Returns how the job ended; a job that left the cluster without an end is lost."""
        if self._ended is not None:
            return self._ended
        end = read_end(self._status)
        if end is not None and end.job == self.job:
            self._ended = end.verdict(cancelled=self._cancelled, engine=f"Slurm job {self.job}")
            self._launcher.collected(self.job)
            self._status.unlink(missing_ok=True)
            if not self._ended.lost:
                for path in self._status.parent.glob(f"{self.job}_*"):
                    path.unlink(missing_ok=True)
            return self._ended
        try:
            entry = self._launcher.entries().get(self.job)
        except InfrastructureError:
            return None  # the controller may be restarting, and the job still running
        hopeless = entry is not None and entry.state == "PENDING" and entry.reason in _HOPELESS
        if entry is not None and entry.state in _ACTIVE and not hopeless:
            self._gone_since = None
            return None
        now = time.monotonic()
        self._gone_since = self._gone_since or now
        # The file with the end may not be visible on this host yet: network file systems cache folder listings.
        if now - self._gone_since >= self._launcher.grace_s:
            if hopeless:
                # It is still queued, and could start after it was reported as lost.
                _call(["scancel", self.job], check=False)
            self._ended = self._without_end(entry)
        return self._ended

    def cancel(self) -> None:
        """Asks Slurm to end the job: SIGTERM, then SIGKILL after the cluster's ``KillWait``."""
        if self._ended is None:
            self._cancelled = True
            _call(["scancel", self.job], check=False)

    def _without_end(self, entry: _Entry | None) -> ExitStatus:
        status = f"Slurm job {self.job}: {'no longer known' if entry is None else f'{entry.state}, {entry.reason}'}"
        if entry is not None and entry.state == "PENDING":
            reason = f"no node of the partition can ever run it ({status})"
            return ExitStatus(None, lost=True, cause=Cause.OUTSIDE, reason=reason)
        if entry is not None and entry.state in ("TIMEOUT", "DEADLINE"):
            return ExitStatus(None, timed_out=True, reason=f"it ran longer than the cluster allows ({status})")
        state = "" if entry is None else entry.state
        cause = Cause.OUTSIDE if state in _OF_THE_CLUSTER else Cause.KILLED if state != _NO_MEMORY else Cause.OWN
        reason = f"it left the cluster without a result ({status})"
        return ExitStatus(None, lost=not self._cancelled, cause=cause, reason=reason)


def _execute_and_exit(command: RunCommand, status: str) -> None:
    execute(command, status, "SLURM_JOB_ID")
    # The end is recorded; submitit would still write a result, perhaps after the launcher has removed the job's files.
    os._exit(0)


def _call(command: Sequence[str], *, check: bool = True) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_CLIENT_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InfrastructureError(
            f"{command[0]} does not answer: {error}", hint="is this host in the cluster?"
        ) from error
    if check and done.returncode != 0:
        raise InfrastructureError(
            f"{command[0]} failed: {done.stderr.strip()}", hint="check the controller with `scontrol ping`"
        )
    return done.stdout
