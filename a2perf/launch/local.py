"""Runs on this machine: every command is a child that ends with the launcher and gets its signals.

Resources: requested processors are bound by CPU affinity, graphics processors by ``CUDA_VISIBLE_DEVICES``; this module
enforces the wall time. Memory is limited for the participant only (``Submission.memory_limit_bytes``), not for the
evaluator.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from a2perf.errors import InfrastructureError, UserError
from a2perf.launch import die_with_parent, fork_server
from a2perf.launch.foreground import run_to_end
from a2perf.launch.interface import Cause, ExitStatus, appended, run_environment
from a2perf.launch.run_spec import RunCommand
from a2perf.runs.bundles.process_identity import ProcessIdentity
from a2perf.sandbox.limits import oom_kills
from a2perf.submission.evaluator.process.failure_diagnosis import signal_name
from a2perf.system import ENDS_WITH_INPUT, KILL, LINUX, POSIX, usable_processors, wait_for_end

_Started = tuple[int, int, Callable[[], int]]
"""A process id, on Linux a pidfd (elsewhere -1), and a function that waits for the end and returns the status as
``Popen`` does."""

_INTERRUPTED = 130  # exit status of an evaluator that was interrupted
CANCEL_GRACE_S = 15.0
"""How long a command may take to end after SIGTERM; then it is killed."""


class GpuPool:
    """The graphics processors of this host, shared out among concurrent runs: no two get the same one."""

    def __init__(self) -> None:
        self._free: list[str] | None = None

    def take(self, command: RunCommand) -> list[str]:
        """Returns the indices of as many free ones as a command asks for.

        Raises:
            UserError: fewer are free.
        """
        count = command.resources.gpus
        if count and self._free is None:
            self._free = [str(index) for index in range(gpu_count())]
        free = self._free or []
        if len(free) < count:
            raise UserError(
                f"{command.name} asks for {count} graphics processors, {len(free)} are free here",
                hint="ask for fewer gpus or --workers; `a2perf doctor` lists what this host has",
            )
        self._free = self._free and free[count:]
        return free[:count]

    def give_back(self, taken: list[str]) -> None:
        """Returns graphics processors to the pool."""
        if self._free is not None:
            self._free = sorted([*self._free, *taken], key=int)


class LocalLauncher:
    """Runs commands as child processes of this one.

    Attributes:
        server: forks evaluators, once there is one; closed with the launcher.
        forks: whether an evaluator in the foreground is a fork of this process, which runs nothing else.
        expects_many: whether the first evaluator is forked from a server that has played an episode, like the others.
    """

    name = "local"
    forks = expects_many = False
    shares_host = True

    def __init__(self) -> None:
        self._jobs: list[LocalJob] = []
        self._cpus: list[int] | None = None
        self._gpus = GpuPool()
        self._evaluators = 0
        self.server: fork_server.ForkServer | None = None

    def start(self, command: RunCommand, *, output: int | None = None) -> LocalJob:
        """Starts a command; its output goes to its log, or to this process's own output.

        Args:
            output: a descriptor for its output, instead of this process's own.

        Raises:
            UserError: it asks for more processors or graphics processors than this host has.
            InfrastructureError: the host cannot start another process, or the log cannot be written.
        """
        cpus, gpus = self._take(command)
        environment = run_environment(command)
        if gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        try:
            with appended(command.log) as log:
                stream = output if log is None else log.fileno()
                if not POSIX:
                    self._jobs.append(ChildJob(self, command, environment, stream, gpus))
                    return self._jobs[-1]
                started = self._forked(command, cpus, environment, stream)
                if started is None:
                    started = _executed(command, cpus, environment, stream)
        except OSError as error:
            self._give_back(cpus, gpus)
            raise InfrastructureError(f"{command.name} could not be started: {error}") from error
        job = LocalJob(self, *started, command, cpus, gpus)
        self._jobs.append(job)
        return job

    def _forked(
        self,
        command: RunCommand,
        cpus: list[int],
        environment: dict[str, str],
        output: int | None,
    ) -> _Started | None:
        """Forks an evaluator from the server, started now at the second one; ``None`` if it has to be executed."""
        flags = command.evaluator_flags()
        request: dict[str, Any] = {"flags": flags, "cwd": str(command.cwd), "env": environment, "cpus": cpus}
        if self.forks and flags is not None and output is None and threading.active_count() == 1:
            return fork_server.fork(request)
        if flags is None or output is None or not LINUX:
            return None
        self._evaluators += 1
        request["warm"] = self._evaluators > 1 or self.expects_many
        if self.server is None:
            if not request["warm"]:
                return None
            self.server = fork_server.ForkServer(command.cwd, environment)
        try:
            return self.server.start(request, output)
        except OSError:  # it was killed
            return None

    def adopt(self, identity: str) -> None:
        """Waits for the end of a dead launcher's job, which got SIGTERM; kills it after the grace period."""
        # Nothing to take over: a child of the dead launcher cannot be waited for, and its output pipe is gone.
        owner = ProcessIdentity.parse(identity)
        deadline = time.monotonic() + CANCEL_GRACE_S
        while owner.alive():
            if time.monotonic() >= deadline:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    # The job led a session, so its process id is also that of its group.
                    (os.killpg if POSIX else os.kill)(owner.pid, KILL)
            time.sleep(0.02)

    def wait(self, timeout_s: float) -> None:
        """Waits until a job's process has ended, at most that long."""
        _wait_for_end(self._jobs, timeout_s)

    def run(self, command: RunCommand) -> int:
        """Executes one command to its end."""
        return run_to_end(self, command)

    def close(self) -> None:
        """Kills all running commands."""
        for job in list(self._jobs):
            job.kill()
        if self.server is not None:
            self.server.close()
            self.server = None

    def _take(self, command: RunCommand) -> tuple[list[int], list[str]]:
        if command.resources.cpus is None:
            return [], self._gpus.take(command)
        if not LINUX:
            raise UserError(
                f"{command.name} asks for {command.resources.cpus:g} processors, which needs Linux",
                hint="leave cpus out",
            )
        if self._cpus is None:
            self._cpus = sorted(os.sched_getaffinity(0))
        count = math.ceil(command.resources.cpus)
        if count > usable_processors():
            raise UserError(
                f"{command.name} asks for {count} processors, this host gives {usable_processors()}",
                hint="ask for fewer: --launcher local:cpus=N, or run elsewhere: --launcher slurm",
            )
        gpus = self._gpus.take(command)
        # more runs than processors: share them all, as without cpus
        cpus = self._cpus[:count] if len(self._cpus) >= count else []
        del self._cpus[: len(cpus)]
        return cpus, gpus

    def _give_back(self, cpus: list[int], gpus: list[str]) -> None:
        if self._cpus is not None:
            self._cpus = sorted([*self._cpus, *cpus])
        self._gpus.give_back(gpus)


class LocalJob:
    """A child process that leads its own session.

    Attributes:
        descriptor: on Linux, refers to the process until ``poll`` returns its end, and becomes readable at its end;
            elsewhere -1.
    """

    def __init__(
        self,
        launcher: LocalLauncher,
        pid: int,
        descriptor: int,
        reap: Callable[[], int],
        command: RunCommand,
        cpus: list[int],
        gpus: list[str],
    ) -> None:
        self.cpus, self.gpus = cpus, gpus
        self.descriptor = descriptor  # signals through it cannot hit a process that reuses the id
        self._launcher = launcher
        self.pid, self._reap = pid, reap
        self._identity = str(ProcessIdentity.of(pid)) if _alive(pid) else ""
        self._wall_s = command.resources.wall_s
        self._started = time.monotonic()
        self._oom_kills = oom_kills()
        self._kill_at: float | None = None
        self._cancelled = self._signalled = False
        self._timed_out = False
        self._ended: ExitStatus | None = None

    @property
    def identity(self) -> str:
        """The process identity as text; empty if the process ended at once."""
        return self._identity

    def poll(self) -> ExitStatus | None:
        """Returns how the command ended; kills a cancelled one after the grace period."""
        if self._ended is not None:
            return self._ended
        now = time.monotonic()
        if self._wall_s is not None and not self._timed_out and now - self._started >= self._wall_s:
            self._timed_out = True
            self.cancel()
        if self._kill_at is not None and now >= self._kill_at:
            self.signal(KILL)
        if not _wait_for_end([self], 0):
            return None
        # Until it is reaped, its id, which is also the id of its process group, cannot be reused: kill what it left.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if POSIX:
                os.killpg(self.pid, KILL)
        status = self._reap()
        if LINUX:
            os.close(self.descriptor)
        self._launcher._jobs.remove(self)
        self._launcher._give_back(self.cpus, self.gpus)
        self._ended = self._verdict(status)
        return self._ended

    def cancel(self) -> None:
        """Sends SIGTERM; ``poll`` kills the command after the grace period."""
        if self._ended is None and self._kill_at is None:
            self._cancelled = True
            self._kill_at = time.monotonic() + CANCEL_GRACE_S
            self.signal(signal.SIGTERM)

    def signal(self, number: int) -> None:
        """Sends a signal. ``Popen.send_signal`` would reap a process that has ended; ``poll`` does that."""
        self._signalled = True
        if self._ended is None:
            with contextlib.suppress(ProcessLookupError):
                if LINUX:
                    signal.pidfd_send_signal(self.descriptor, number)
                else:
                    os.kill(self.pid, number)  # it has not been reaped, so its id is not another process's

    def kill(self) -> None:
        """Kills the command and waits for its end."""
        while self.poll() is None:
            self.signal(KILL)
            self._launcher.wait(0.1)

    def _verdict(self, status: int) -> ExitStatus:
        code = status if status >= 0 else None
        if self._timed_out:
            reason = f"it ran longer than the {self._wall_s:g} s that it was given"
            return ExitStatus(code, timed_out=True, reason=reason)
        if code is None:
            name = signal_name(-status)
            cause = Cause.of_signal(-status, oom_killed=oom_kills() > self._oom_kills)
            reason = f"its evaluator was ended by {name}"
            return ExitStatus(None, lost=not self._cancelled, cause=self._cause(cause), reason=reason)
        return ExitStatus(code, cause=self._cause() if code == _INTERRUPTED else Cause.OWN)

    def _cause(self, seen: Cause = Cause.OWN) -> Cause:
        return Cause.OUTSIDE if self._signalled else seen


class ChildJob(LocalJob):
    """A child process on a host without sessions and signals: the end of its standard input asks it to end."""

    def __init__(
        self,
        launcher: LocalLauncher,
        command: RunCommand,
        environment: dict[str, str],
        output: int | None,
        gpus: list[str],
    ) -> None:
        self._process = subprocess.Popen(
            command.argv,
            cwd=command.cwd,
            env=environment | {ENDS_WITH_INPUT: "1"},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            # Ctrl-C in a console goes to all processes of its group.
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        assert self._process.stdin is not None
        self._input = self._process.stdin
        self._killed = False
        super().__init__(launcher, self._process.pid, -1, self._status, command, [], gpus)

    def signal(self, number: int) -> None:
        """Asks it to end, or kills it."""
        self._signalled = True
        if number == KILL:
            self._killed = self._killed or self._process.poll() is None
            self._process.kill()
        else:
            self._input.close()

    def _status(self) -> int:
        self._input.close()
        status = self._process.wait()
        return -KILL if self._killed else status


def _wait_for_end(jobs: Sequence[LocalJob], timeout_s: float) -> bool:
    if not LINUX:
        return wait_for_end([job.pid for job in jobs], timeout_s)
    poll = select.poll()  # not wait_for_end: forked runs are not children, so their ids may be reused
    for job in jobs:
        poll.register(job.descriptor, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def _executed(command: RunCommand, cpus: list[int], environment: dict[str, str], output: int | None) -> _Started:
    bound = ",".join(map(str, cpus)) or "all"
    # -I and -S: no module beside the script, of PYTHONPATH or of site-packages can replace one that it imports.
    argv = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()), bound, *command.argv]
    # In a new session: Ctrl-C in the terminal reaches only this process, and killpg only the run.
    process = subprocess.Popen(
        argv,
        cwd=command.cwd,
        env=environment,
        start_new_session=True,
        stdin=None if output is None else subprocess.DEVNULL,
        stdout=output,
        stderr=output,
    )
    return process.pid, os.pidfd_open(process.pid) if LINUX else -1, process.wait


def _alive(pid: int) -> bool:
    try:
        ProcessIdentity.of(pid)
    except ProcessLookupError:
        return False
    return True


def gpu_count() -> int:
    """Returns the number of graphics processors of this machine; 0 without a driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
        return int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError:
        return 0
