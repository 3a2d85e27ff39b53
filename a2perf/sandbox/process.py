"""The levels 'none' and 'process': one child under a guard process, without namespaces.

Both start the program through ``guard.py``, so at both nothing outlives the evaluator and output is captured under a
cap. 'process' adds resource limits, a clean descriptor table and no-new-privileges; 'none' enforces no limit at all.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from a2perf.errors import InfrastructureError
from a2perf.sandbox import guard
from a2perf.sandbox.interface import Confined, Ending, SandboxSpec

START_TIMEOUT_S = 30.0
KILL_TIMEOUT_S = 10.0

_LIFECYCLE = (
    "every process of the tree ends with the run, or with the evaluator, however that ends",
    "the environment holds only what was given",
    "stdout and stderr are captured, each up to a cap",
)
_CONFINED = (
    "a session of its own, no open descriptor but those given, no core dumps, no new privileges",
    "limits per process on CPU time, private memory and file size",
    f"limits per tree on wall time, memory and number of processes, checked every {guard.SAMPLE_INTERVAL_S} s",
)
_OPEN = (
    "it reads and writes every file that the user can",
    "it reaches the network",
    "it can signal every process of the user, the guard and the evaluator too",
)


class ProcessSandbox:
    """Starts a child under a guard.

    Args:
        confined: whether limits are enforced ('process') or not ('none').
    """

    def __init__(self, *, confined: bool) -> None:
        self._confined = confined

    @property
    def level(self) -> str:
        """``"process"`` or ``"none"``."""
        return "process" if self._confined else "none"

    def guarantees(self) -> list[str]:
        """Says what holds at this level."""
        return [*_LIFECYCLE, *(_CONFINED if self._confined else ())]

    def missing(self) -> list[str]:
        """Says what a participant can still do."""
        return [*_OPEN, *(() if self._confined else ("nothing limits its time, memory or number of processes",))]

    def start(self, spec: SandboxSpec) -> Confined:
        """Starts the program and returns once its process id is known.

        Raises:
            InfrastructureError: the program or its folder is missing, or the host refused a new process.
        """
        ours, theirs = socket.socketpair()
        try:
            popen = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, str(theirs.fileno())],
                env={},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *spec.fds),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise InfrastructureError(f"the guard process could not be started: {error}") from error
        finally:
            theirs.close()
        guarded = GuardedProcess(popen, ours, spec)
        try:
            document = marshal.dumps(self._document(spec))
            ours.sendall(len(document).to_bytes(4, "little") + document)
            guarded.await_start()
        except BaseException:
            guarded.kill_tree()
            raise
        return guarded

    def _document(self, spec: SandboxSpec) -> dict[str, object]:
        names = ("wall_s", "cpu_s", "memory_bytes", "processes", "file_size_bytes")
        limits = {name: getattr(spec.limits, name) for name in names}
        return {
            "argv": [os.fspath(word) for word in spec.argv],
            "cwd": str(spec.cwd),
            "env": dict(spec.env),
            "fds": list(spec.fds),
            "stdout": str(spec.stdout) if spec.stdout else None,
            "stderr": str(spec.stderr) if spec.stderr else None,
            "temporary": [str(path) for path in spec.temporary],
            "limits": {name: value for name, value in limits.items() if value is not None},
            "output_bytes": spec.limits.output_bytes,
            "confined": self._confined,
            "evaluator": os.getpid(),
        }


class GuardedProcess:
    """A process tree behind a guard; see ``Confined``."""

    def __init__(self, popen: subprocess.Popen[bytes], control: socket.socket, spec: SandboxSpec) -> None:
        self._popen = popen
        self._control = control
        self._control.setblocking(False)
        self._spec = spec
        self._pid = 0
        self._buffer = b""
        self._start_error: int | None = None
        self._status: int | None = None
        self._limit: tuple[str, float] | None = None
        self._done: list[str] | None = None
        self._closed = False
        self._killed = False
        self._streams_over_cap: set[str] = set()

    @property
    def pid(self) -> int:
        """Process id of the program."""
        return self._pid

    @property
    def tree_root(self) -> int:
        """Process id of the guard."""
        return self._popen.pid

    @property
    def cgroup(self) -> Path | None:
        """No control group at this level."""
        return None

    @property
    def streams_over_cap(self) -> frozenset[str]:
        """Names of the streams of which output was dropped so far."""
        return frozenset(self._streams_over_cap)

    def fileno(self) -> int:
        """The control socket; -1 after the end."""
        return self._control.fileno()

    def await_start(self) -> None:
        """Waits for the guard's word that the program runs.

        Raises:
            InfrastructureError: it does not.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._pid and self._start_error is None and not self._closed:
            if not self._await_news(deadline):
                raise InfrastructureError(f"the guard process said nothing for {START_TIMEOUT_S:.0f} s")
            self._read_news()
        if self._start_error is not None:
            reason = os.strerror(self._start_error)
            raise InfrastructureError(f"{self._spec.argv[0]} could not be started in {self._spec.cwd}: {reason}")
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
        """Asks the guard to kill the tree; where it does not obey in time, kills both from here."""
        if not self._closed:
            self._killed = self._status is None and self.poll() is None
            with contextlib.suppress(OSError):  # it may be on its way out already
                self._control.send(b"K", socket.MSG_NOSIGNAL)
            if self.wait(KILL_TIMEOUT_S) is None:
                guard.kill_descendants(self._popen.pid)
                self._popen.kill()
                self._closed = True
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
            self._start_error = int(values[0])
        elif word == "limit":
            self._limit = (values[0], float(values[1]))
        elif word == "output":
            self._streams_over_cap.add(values[0])
        elif word == "exited":
            self._status = int(values[0])
        elif word == "done":
            self._done = values

    def _bury(self) -> None:
        """Collects the guard; where it was killed itself, takes the program's session along."""
        if self._control.fileno() < 0:
            return
        try:
            self._popen.wait(KILL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        if self._done is None and self._pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
        self._control.close()

    def _ending(self) -> Ending:
        exit_code = number = None
        if self._status is not None:
            if os.WIFSIGNALED(self._status):
                number = os.WTERMSIG(self._status)
            else:
                exit_code = os.WEXITSTATUS(self._status)
        limit, value = self._limit or (None, None)
        if self._done is None:
            return Ending(exit_code, number, limit, value, self._killed)
        dropped = {"stdout": int(self._done[0]), "stderr": int(self._done[1])}
        rss = int(self._done[3]) * 1024
        return Ending(exit_code, number, limit, value, self._killed, float(self._done[2]), rss, dropped)
