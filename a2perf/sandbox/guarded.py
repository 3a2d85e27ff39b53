"""The evaluator's end of a guarded process tree: instructs the guard and reads its reports until the tree has ended."""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from a2perf.errors import InfrastructureError
from a2perf.sandbox import orphans
from a2perf.sandbox.guard.collection import Collection
from a2perf.sandbox.guard.tree import kill_descendants
from a2perf.sandbox.interface import DEFAULT_ARTIFACT_ENTRIES, Ending, SandboxSpec
from a2perf.sandbox.task_clock import TaskClock
from a2perf.system import LINUX

START_TIMEOUT_S = 30.0
KILL_TIMEOUT_S = 10.0
_SIGNALS = frozenset(int(number) for number in signal.Signals)


def guard_document(spec: SandboxSpec) -> dict[str, object]:
    """Returns the part of the guard's instructions that is the same at every level."""
    names = (
        "wall_s",
        "cpu_s",
        "memory_bytes",
        "processes",
        "file_size_bytes",
        "artifact_bytes",
        "artifact_entries",
    )
    values = {name: getattr(spec.limits, name) for name in names}
    if spec.limits.memory_shares is None:
        values["private_bytes"] = spec.limits.memory_bytes
    if spec.limits.artifact_bytes is not None:
        if spec.limits.file_size_bytes is None:
            # The kernel stops one huge file at the bound at once; the walks over the folder come about once per second.
            values["file_size_bytes"] = spec.limits.artifact_bytes
        if spec.limits.artifact_entries is None:
            values["artifact_entries"] = DEFAULT_ARTIFACT_ENTRIES
    return {
        "argv": [os.fspath(word) for word in spec.argv],
        "cwd": str(spec.cwd),
        "env": dict(spec.env),
        "fds": list(spec.fds),
        "folders": [],
        "links": [],
        "entry": None,
        "filter": b"",
        "collect": [str(path) for path in written(spec)],
        "stdout": str(spec.stdout) if spec.stdout else None,
        "stderr": str(spec.stderr) if spec.stderr else None,
        "temporary": [str(path) for path in spec.temporary],
        "written": [str(path) for path in written(spec)],
        "limits": {name: value for name, value in values.items() if value is not None},
        "output_bytes": spec.limits.output_bytes,
    }


def written(spec: SandboxSpec) -> list[Path]:
    """Returns the writable folders that outlive the tree."""
    return [path for path in spec.writable if path not in spec.temporary]


class Keeper(Protocol):
    """Handle of the guard: a child of this process, or a container."""

    @property
    def pid(self) -> int:
        """The guard's process id on this host."""

    def wait(self, timeout_s: float) -> bool:
        """Waits for the guard and reaps it; returns whether it has ended."""

    def kill(self) -> None:
        """Kills the guard."""

    def sweep(self, pid: int) -> None:
        """Kills what a killed guard may have left of its child ``pid``."""


class ChildKeeper:
    """A guard that is a child of this process."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    def wait(self, timeout_s: float) -> bool:
        """Reaps it."""
        try:
            self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """Kills it."""
        self._popen.kill()

    def sweep(self, pid: int) -> None:
        """Kills its child's session."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


class GuardedProcess:
    """A process tree behind a guard; see ``Confined``."""

    def __init__(
        self,
        keeper: Keeper,
        control: socket.socket,
        spec: SandboxSpec,
        cgroups: tuple[Path, ...] = (),
        clock: TaskClock | None = None,
        *,
        hides_signals: bool = False,
    ) -> None:
        self._clock = clock
        self._keeper = keeper
        self._cgroups = cgroups
        self._hides_signals = hides_signals
        self._control = control
        self._control.setblocking(False)
        self._spec = spec
        self._pid = 0
        self._buffer = b""
        self._start_error: str | None = None
        self._status: int | None = None
        self._limit: tuple[str, float] | None = None
        self._done: list[str] | None = None
        self._last_beat = 0.0
        self._collected: tuple[int, ...] = (0, 0, 0)
        self._wall_s: float | None = None
        self._closed = False
        self._killed = False

    @property
    def pid(self) -> int:
        """Process id of the program, or of the level's own program around it."""
        return self._pid

    @property
    def tree_root(self) -> int:
        """Process id of the guard."""
        return self._keeper.pid

    @property
    def cgroups(self) -> tuple[Path, ...]:
        """Folders of its control group."""
        return self._cgroups

    @property
    def cpu_clock(self) -> Callable[[], float] | None:
        """Reads the tree's task clock; ``None`` if a control group counts its time or there is no clock."""
        return self._clock.seconds if self._clock is not None else None

    def fileno(self) -> int:
        """The control socket; -1 after the end."""
        return self._control.fileno()

    def instruct(self, document: dict[str, object]) -> None:
        """Sends the guard its instructions."""
        data = marshal.dumps(document)
        self._control.setblocking(True)  # the document may exceed the socket buffer
        self._control.sendall(len(data).to_bytes(4, "little") + data)
        self._control.setblocking(False)

    def await_start(self) -> None:
        """Waits until the guard reports that the program runs.

        Raises:
            InfrastructureError: the program could not be started, or the guard does not answer.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._pid and self._start_error is None and not self._closed:
            if not self._await_news(deadline):
                raise InfrastructureError(f"the guard process did not answer for {START_TIMEOUT_S:.0f} s")
            self._read_news()
        if self._start_error is not None:
            raise InfrastructureError(
                f"{self._spec.argv[0]} could not be started in {self._spec.cwd}: {self._start_error}"
            )
        if not self._pid:
            raise InfrastructureError("the guard process ended before the program was started")

    def poll(self) -> Ending | None:
        """Returns how the program ended, or ``None`` while it runs."""
        self._read_news()
        if self._status is None and not self._closed:
            return None
        return self._ending()

    def wait(self, timeout_s: float | None = None) -> Ending | None:
        """Waits for the end of the whole tree."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._closed:
            if not self._await_news(deadline):
                return None
            self._read_news()
        self._bury()
        return self._ending()

    def kill_tree(self) -> Ending:
        """Asks the guard to kill the tree; kills both from here if it does not do so in time."""
        if not self._closed:
            # poll() reads the reports that have arrived: a program that has ended by itself was not killed from here.
            self._killed = self._status is None and self.poll() is None
            with contextlib.suppress(OSError):  # it may be ending already
                self._control.send(b"K", getattr(socket, "MSG_NOSIGNAL", 0))
            while self.wait(KILL_TIMEOUT_S) is None:
                # A guard that still collects a large folder sends a heartbeat; only a silent one is stuck.
                if time.monotonic() - self._last_beat > KILL_TIMEOUT_S:
                    # The tree before the guard: without the guard its processes get another parent and cannot be found.
                    kill_descendants(self._keeper.pid)
                    self._keeper.kill()
                    self._closed = True
                    break
        self._bury()
        return self._ending()

    def _await_news(self, deadline: float | None) -> bool:
        poll = select.poll()
        poll.register(self._control.fileno(), select.POLLIN)
        if deadline is None:
            return bool(poll.poll())
        return bool(poll.poll(max(0, (deadline - time.monotonic()) * 1000)))

    def _read_news(self) -> None:
        while not self._closed:
            try:
                data = self._control.recv(4096)
            except BlockingIOError:
                return
            except OSError:
                # A guard that died with an unread byte in its socket resets the connection instead of closing it.
                data = b""
            if not data:
                self._closed = True
                return
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            for line in lines:
                self._take(line.decode())

    def _take(self, line: str) -> None:
        word, *values = line.split()
        if word == "started":
            self._pid = int(values[0])
        elif word == "failed":
            self._start_error = f"{os.strerror(int(values[0]))} {' '.join(values[1:])}".rstrip()
        elif word == "limit":
            # The first limit is the cause; the guard's last look at the disk can report a second one.
            self._limit = self._limit or (values[0], float(values[1]))
        elif word == "exited":
            self._status = int(values[0])
        elif word == "ended":
            self._wall_s = float(values[0])
        elif word == "collecting":
            self._last_beat = time.monotonic()
        elif word == "collected":
            self._collected = tuple(map(int, values))
        elif word == "done":
            self._done = values

    def _bury(self) -> None:
        """Reaps the guard; if it was killed itself, kills and cleans up what it left."""
        if self._control.fileno() < 0:
            return
        # Before the guard is reaped: the clock reads the guard's time by its process id, which can be reused.
        if self._clock is not None:
            self._clock.close()
        if not self._keeper.wait(KILL_TIMEOUT_S):
            self._keeper.kill()
            self._keeper.wait(KILL_TIMEOUT_S)
        if self._done is None and self._pid:  # the guard did not report its end: it was killed, by us or by others
            self._keeper.sweep(self._pid)
            orphans.clear(self._cgroups, self._spec.temporary)
            if LINUX:
                left = Collection(os.geteuid(), os.getegid())
                left.collect(map(str, written(self._spec)))
                self._collected = (left.removed, left.changed, left.failed)
        for folder in self._cgroups:  # a no-op if the guard has removed them
            with contextlib.suppress(OSError):
                folder.rmdir()
        self._control.close()

    def _ending(self) -> Ending:
        exit_code = number = None
        if self._status is not None:
            if os.WIFSIGNALED(self._status):
                number = os.WTERMSIG(self._status)
            else:
                exit_code = os.WEXITSTATUS(self._status)
                if self._hides_signals and exit_code - 128 in _SIGNALS:
                    number, exit_code = exit_code - 128, None
        limit, value = self._limit or (None, None)
        if self._done is None:
            return Ending(exit_code, number, limit, value, self._killed, wall_s=self._wall_s)
        dropped = {"stdout": int(self._done[0]), "stderr": int(self._done[1])}
        peak, killed, refused_forks = map(int, self._done[4:7])
        oom_kills = None if killed < 0 else killed  # below 0: no group counts them
        return Ending(
            exit_code,
            number,
            limit,
            value,
            self._killed,
            wall_s=self._wall_s,
            cpu_s=max(float(self._done[2]), self._clock.seconds() if self._clock else 0.0),
            max_rss_bytes=int(self._done[3]) * 1024,
            peak_memory_bytes=peak or None,
            oom_kills=oom_kills,
            refused_forks=refused_forks,
            dropped_bytes=dropped,
            collected=self._collected,
        )
