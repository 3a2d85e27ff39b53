"""The levels 'none' and 'process': one child under a guard process, without namespaces.

Both start the program through ``guard.py``, so at both nothing outlives the evaluator and output is captured under a
cap. 'process' adds resource limits, a clean descriptor table and no-new-privileges; 'none' enforces no limit at all.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

from a2perf.errors import InfrastructureError
from a2perf.sandbox import limits as control_groups
from a2perf.sandbox import seccomp, task_clock
from a2perf.sandbox.guard.disk import INTERVAL_S
from a2perf.sandbox.guard.main import SAMPLE_INTERVAL_S
from a2perf.sandbox.guarded import ChildKeeper, GuardedProcess, guard_document
from a2perf.sandbox.interface import Confined, Limits, SandboxSpec
from a2perf.sandbox.limits import ControlGroup
from a2perf.sandbox.task_clock import TaskClock

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
