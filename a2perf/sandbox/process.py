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
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from a2perf.errors import InfrastructureError
from a2perf.sandbox import limits as control_groups
from a2perf.sandbox import orphans, seccomp, task_clock
from a2perf.sandbox.guard.collection import Collection
from a2perf.sandbox.guard.disk import INTERVAL_S
from a2perf.sandbox.guard.main import SAMPLE_INTERVAL_S
from a2perf.sandbox.guard.tree import kill_descendants
from a2perf.sandbox.interface import DEFAULT_ARTIFACT_ENTRIES, Confined, Ending, Limits, SandboxSpec
from a2perf.sandbox.limits import ControlGroup
from a2perf.sandbox.task_clock import TaskClock

START_TIMEOUT_S = 30.0
KILL_TIMEOUT_S = 10.0
GUARD_FOLDER = Path(__file__).parent
GUARD_CODE = "import sys; sys.path.append(sys.argv[1]); from guard.main import main; main(int(sys.argv[2]))"

LIFECYCLE = (
    "every process of the tree ends with the run, or with the evaluator, however that ends",
    "the environment holds only what was given",
    "stdout and stderr are captured, each up to a cap",
    "what it leaves behind becomes plain files of the evaluator: without devices, pipes, sockets, set-ID bits, access"
    " lists, and folders that nobody may open",
)
GUARANTEES_OF_LIMITS = (
    "a session of its own, no open descriptor but those given, no core dumps, no new privileges",
    "limits per process on CPU time, private memory and file size",
    f"limits on the disk space and the number of what it writes, also of files without a name, checked every"
    f" {INTERVAL_S:g} s and at its end",
)
_SAMPLED = f"limits per tree on wall time, memory and number of processes, checked every {SAMPLE_INTERVAL_S} s"
_PINNED = "it stays on the processors that the evaluator was given"
_SIGNALS = frozenset(int(number) for number in signal.Signals)
_AS_ROOT = "it runs as root, as the evaluator does: it can change everything on this host"
_OPEN = (
    "it reads and writes every file that the user can",
    "it reaches the network",
    "it can signal every process of the user, the guard and the evaluator too",
)


class ProcessSandbox:
    """Starts a child under a guard.

    Args:
        confined: whether limits are enforced ('process') or not ('none').
        own_processes: processes of the tree that are the level's and not the participant's.
        hides_signals: the child tells of a program that a signal ended by a status of 128 and its number.
    """

    def __init__(self, *, confined: bool, own_processes: int = 0, hides_signals: bool = False) -> None:
        self._confined = confined
        self._own_processes = own_processes
        self._hides_signals = hides_signals

    @property
    def level(self) -> str:
        """``"process"`` or ``"none"``."""
        return "process" if self._confined else "none"

    def guarantees(self, *, network: bool = False) -> list[str]:
        """Says what holds at this level."""
        if not self._confined:
            return list(LIFECYCLE)
        return [*LIFECYCLE, *GUARANTEES_OF_LIMITS, *pinned_guarantee(), *self.grouped_guarantees()]

    def grouped_guarantees(self) -> list[str]:
        """Says what the host's control groups add."""
        where = control_groups.place()
        names = {"memory_bytes": "memory", "processes": "processes and threads", "cpus": "processor time"}
        held = [words for name, words in names.items() if name in where.enforces]
        by_kernel = f"limits per tree on {', '.join(held)} by the kernel (control groups, version {where.version})"
        return [_SAMPLED, *([by_kernel] if held else ())]

    def uncounted(self) -> list[str]:
        """Says which bounds on the whole tree do not hold here, and what of its costs is not counted."""
        where, lost = control_groups.place(), []
        if self._confined and "memory_bytes" not in where.enforces:
            lost.append(
                "without a control group a limit on memory binds each process; of the tree it counts resident sets, its"
                " own tmpfs, open memory files, pipes and sockets, and not what is hidden in other ways"
            )
        counted = "cpuacct" in where.parents or (where.version == 2 and where.parents)
        if not (self._confined and counted):
            reason = task_clock.why_unavailable()
            lost.append(
                "processor time and energy miss programs that their user may not read (no control group: kernel clock)"
                if reason is None
                else "processor time and energy miss children that nobody waits for (no control group, and no kernel"
                f" clock: {reason}; {task_clock.HINT})"
            )
        return lost

    def missing(self, *, network: bool = False) -> list[str]:
        """Says what a participant can still do."""
        root = (_AS_ROOT,) if os.geteuid() == 0 else ()
        free = () if self._confined else ("nothing limits its time, memory or number of processes",)
        return [*root, *_OPEN, *free, *self.uncounted()]

    def unenforceable(self, limits: Limits) -> list[str]:
        """Says which limits this host cannot enforce at this level."""
        if not self._confined:
            names = ("wall_s", "cpu_s", "cpus", "memory_bytes", "file_size_bytes")
            return [f"{name} needs the level 'process'" for name in names if getattr(limits, name) is not None]
        enforced, lost = control_groups.place().enforces, []
        if limits.cpus is not None and "cpus" not in enforced:
            lost.append("cpus needs a control group with the controller 'cpu' that this user may write")
        if limits.memory_bytes is not None and "memory_bytes" not in enforced:
            lost.append(
                "memory_bytes needs a control group with the controller 'memory' that this user may write: without one"
                " it binds each process, and the tree only as far as its memory shows"
            )
        return lost

    def start(self, spec: SandboxSpec, entry: dict[str, object] | None = None) -> Confined:
        """Starts the program and returns once its process id is known.

        Args:
            spec: the program and its bounds.
            entry: what ``guard.entry.enter`` does before the program runs; ``None``: nothing.

        Raises:
            InfrastructureError: the program or its folder is missing, or the host refused a new process.
        """
        group = self._group(spec.limits)
        ours, theirs = socket.socketpair()
        try:
            popen = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", GUARD_CODE, str(GUARD_FOLDER), str(theirs.fileno())],
                env={},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *spec.fds),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            if group is not None:
                group.remove()
            raise InfrastructureError(f"the guard process could not be started: {error}") from error
        finally:
            theirs.close()
        clock = None
        if group is None or not group.counts_cpu:
            # Only now: it counts what the guard starts later, and the guard may not be looked into once it has begun.
            with contextlib.suppress(OSError):
                clock = TaskClock(popen.pid)
        guarded = GuardedProcess(
            ChildKeeper(popen), ours, spec, group.paths if group else (), clock, hides_signals=self._hides_signals
        )
        try:
            guarded.instruct({**self._document(spec, group), "entry": entry})
            guarded.await_start()
        except BaseException:
            guarded.kill_tree()
            raise
        return guarded

    def _group(self, limits: Limits) -> ControlGroup | None:
        """Returns a new control group; where the host refuses one after all, what needs it fails and the rest does not.

        Raises:
            InfrastructureError: a limit that only a group can enforce was asked for.
        """
        where = control_groups.place()
        if not self._confined or not where.parents:
            return None
        try:
            return ControlGroup(where, limits)
        except OSError as error:
            if limits.cpus is not None:
                raise InfrastructureError(f"the control group could not be made: {error}") from error
            return None

    def _document(self, spec: SandboxSpec, group: ControlGroup | None) -> dict[str, object]:
        grouped = control_groups.place().enforces if group is not None else frozenset()
        return {
            **guard_document(spec),
            "confined": self._confined,
            "evaluator": os.getpid(),
            "own_processes": self._own_processes,
            "grouped": sorted(grouped),
            "cgroup": group.document() if group is not None else {},
            "cpu_unit_s": control_groups.cpu_unit_s(group.version) if group is not None else 0.0,
            "filter": seccomp.affinity_program() if self._confined and pinned_guarantee() else b"",
        }


def pinned_guarantee() -> tuple[str, ...]:
    """Returns the sentence on processors where the evaluator may use some of them only, and a filter can keep that."""
    return (_PINNED,) if seccomp.supported() and seccomp.processors_are_restricted() else ()


def guard_document(spec: SandboxSpec) -> dict[str, object]:
    """Returns what a specification means to the guard, whatever the level."""
    names = (
        "wall_s", "cpu_s", "memory_bytes", "processes", "file_size_bytes", "artifact_bytes", "artifact_entries",
    )  # fmt: skip
    values = {name: getattr(spec.limits, name) for name in names}
    if spec.limits.artifact_bytes is not None:
        if spec.limits.file_size_bytes is None:
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
    """Returns the folders in which the tree leaves something behind."""
    return [path for path in spec.writable if path not in spec.temporary]


class Keeper(Protocol):
    """Whatever holds the guard: a child of this process, or a container."""

    @property
    def pid(self) -> int:
        """The guard's process id on this host."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Collects the guard; returns whether it has ended."""
        ...

    def kill(self) -> None:
        """Ends the guard at once."""
        ...

    def sweep(self, pid: int) -> None:
        """Ends what a guard that was killed may have left of its child ``pid``."""
        ...


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
        self._closed = False
        self._killed = False
        self._streams_over_cap: set[str] = set()

    @property
    def pid(self) -> int:
        """Process id of the program, or of what the level puts around it."""
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
        """Reads the kernel's clock of the tree, where it has no control group that counts its time."""
        return self._clock.seconds if self._clock is not None else None

    @property
    def streams_over_cap(self) -> frozenset[str]:
        """Names of the streams of which output was dropped so far."""
        return frozenset(self._streams_over_cap)

    def fileno(self) -> int:
        """The control socket; -1 after the end."""
        return self._control.fileno()

    def instruct(self, document: dict[str, object]) -> None:
        """Tells the guard what to start."""
        data = marshal.dumps(document)
        self._control.setblocking(True)
        self._control.sendall(len(data).to_bytes(4, "little") + data)
        self._control.setblocking(False)

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
        """Asks the guard to kill the tree; where it does not obey in time, kills both from here."""
        if not self._closed:
            self._killed = self._status is None and self.poll() is None
            with contextlib.suppress(OSError):  # it may be on its way out already
                self._control.send(b"K", socket.MSG_NOSIGNAL)
            while self.wait(KILL_TIMEOUT_S) is None:
                if time.monotonic() - self._last_beat > KILL_TIMEOUT_S:  # it collects no files either
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
            self._limit = self._limit or (values[0], float(values[1]))
        elif word == "output":
            self._streams_over_cap.add(values[0])
        elif word == "exited":
            self._status = int(values[0])
        elif word == "collecting":
            self._last_beat = time.monotonic()
        elif word == "collected":
            self._collected = tuple(map(int, values))
        elif word == "done":
            self._done = values

    def _bury(self) -> None:
        """Collects the guard; where it was killed itself, takes the program's session along."""
        if self._control.fileno() < 0:
            return
        if self._clock is not None:
            self._clock.close()
        if not self._keeper.wait(KILL_TIMEOUT_S):
            self._keeper.kill()
            self._keeper.wait(KILL_TIMEOUT_S)
        if self._done is None and self._pid:
            self._keeper.sweep(self._pid)
            control_groups.empty(self._cgroups)
            orphans.clear(self._cgroups, self._spec.temporary)
            left = Collection(os.geteuid(), os.getegid())
            left.collect(map(str, written(self._spec)))
            self._collected = (left.removed, left.changed, left.failed)
        for folder in self._cgroups:  # the guard does it, where it could
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
            return Ending(exit_code, number, limit, value, self._killed)
        dropped = {"stdout": int(self._done[0]), "stderr": int(self._done[1])}
        peak, oom_kills, refused_forks = map(int, self._done[4:7])
        return Ending(
            exit_code, number, limit, value, self._killed,
            cpu_s=max(float(self._done[2]), self._clock.seconds() if self._clock else 0.0),
            max_rss_bytes=int(self._done[3]) * 1024, peak_memory_bytes=peak or None,
            oom_kills=oom_kills, refused_forks=refused_forks, dropped_bytes=dropped, collected=self._collected,
        )  # fmt: skip
