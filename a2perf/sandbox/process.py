"""The levels 'none' and 'process': one child under a guard process, without namespaces.

Both start the program through the package ``guard``: no process outlives the evaluator, and captured output is capped.
'process' adds resource limits, a clean descriptor table and no-new-privileges; 'none' enforces no limit.
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
from a2perf.system import LINUX

GUARD_FOLDER = Path(__file__).parent
GUARD_CODE = "import sys; sys.path.append(sys.argv[1]); from guard.main import main; main(int(sys.argv[2]))"

_COLLECTED = (
    (
        "its files become plain files of the evaluator at the end: devices, pipes and sockets are deleted; set-ID bits,"
        " access lists and modes that lock out the owner are removed",
    )
    if LINUX
    else ()
)
_FOUND = "" if LINUX else " (those in a process group that the guard has seen)"
LIFECYCLE = (
    f"all its processes end with the run, or when the evaluator ends, even if the evaluator is killed{_FOUND}",
    "its environment variables are only those it was given",
    "its stdout and stderr are captured, each up to a cap",
    *_COLLECTED,
)
GUARANTEES_OF_LIMITS = (
    f"private session, only the given open descriptors, no core dumps{', no new privileges' if LINUX else ''}",
    "limits per process on CPU time, private memory and file size",
    f"limits on the size and number of files it writes{', deleted but open files included,' if LINUX else ','} checked"
    f" every {INTERVAL_S:g} s and at its end",
)
_SAMPLED = f"limits per tree on wall time, memory and number of processes, checked every {SAMPLE_INTERVAL_S} s"
_PINNED = "it stays on the processors that the evaluator may use"
_AS_ROOT = "any change to this host (it runs as root, like the evaluator)"
_OPEN = (
    "reading and writing all files of the user",
    "using the network",
    "signals to all processes of the user, guard and evaluator included",
)


class ProcessSandbox:
    """Starts a child under a guard.

    Args:
        confined: whether limits are enforced ('process') or not ('none').
        own_processes: processes of the tree that belong to the level, not to the participant.
        hides_signals: whether the child reports a program that a signal ended as exit status 128 + signal number.
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
        """Returns what the level enforces."""
        if not self._confined:
            return list(LIFECYCLE)
        return [*LIFECYCLE, *GUARANTEES_OF_LIMITS, *pinned_guarantee(), *self.grouped_guarantees()]

    def grouped_guarantees(self) -> list[str]:
        """Returns what the host's control groups add."""
        where = control_groups.place()
        names = {"memory_bytes": "memory", "processes": "processes and threads", "cpus": "processor time"}
        held = [label for name, label in names.items() if name in where.enforces]
        by_kernel = f"limits per tree on {', '.join(held)} by the kernel (control groups, version {where.version})"
        return [_SAMPLED, *([by_kernel] if held else ())]

    def uncounted(self) -> list[str]:
        """Returns which bounds on the whole tree do not hold here, and which costs are not counted."""
        where, lost = control_groups.place(), []
        if self._confined and "memory_bytes" not in where.enforces:
            lost.append(
                "hiding memory from a limit (no control group: the limit binds each process; for the tree it counts"
                " resident sets, private tmpfs, open memory files, pipes and sockets)"
            )
        counted = "cpuacct" in where.parents or (where.version == 2 and where.parents)
        if not (self._confined and counted):
            reason = task_clock.why_unavailable()
            lost.append(
                "uncounted processor time and energy of programs without read permission (no control group: kernel"
                " clock)"
                if reason is None
                else "uncounted processor time and energy of children that no process waits for (no control group and"
                f" no kernel clock: {reason}; {task_clock.HINT})"
            )
        if not LINUX:
            lost.append(
                "processes that outlive it after they have left their parent and every process group of its tree"
            )
        return lost

    def missing(self, *, network: bool = False) -> list[str]:
        """Returns what the level does not prevent."""
        root = (_AS_ROOT,) if os.geteuid() == 0 else ()
        free = () if self._confined else ("unlimited time, memory and number of processes",)
        return [*root, *_OPEN, *free, *self.uncounted()]

    def unenforceable(self, limits: Limits) -> list[str]:
        """Returns which limits this host cannot enforce at this level."""
        if not self._confined:
            names = ("wall_s", "cpu_s", "cpus", "memory_bytes", "file_size_bytes")
            return [f"{name} needs the level 'process'" for name in names if getattr(limits, name) is not None]
        enforced, lost = control_groups.place().enforces, []
        if limits.cpus is not None and "cpus" not in enforced:
            lost.append("cpus needs a writable control group with the controller 'cpu'")
        if limits.memory_bytes is not None and "memory_bytes" not in enforced:
            lost.append(
                "memory_bytes needs a writable control group with the controller 'memory' (without one it binds each"
                " process, and the tree only by sampling)"
            )
        return lost

    def start(self, spec: SandboxSpec, entry: dict[str, object] | None = None) -> Confined:
        """Starts the program and returns once its process id is known.

        Args:
            entry: argument of ``guard.entry.enter``, called before the program runs; ``None`` skips the call.

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
                # Ctrl-C and Ctrl-Z of a terminal go to its whole foreground group; the guard has to keep running.
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
            # The clock counts only processes started after it is opened, and the guard makes itself unreadable
            # (PR_SET_DUMPABLE) once it has its instructions: this is the only moment at which it can be opened.
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
        """Returns a new control group, or ``None`` if the host refuses one and no limit depends on it.

        Raises:
            InfrastructureError: the host refuses one, and ``limits.cpus`` needs it.
        """
        where = control_groups.place()
        if not self._confined or not where.parents:
            return None
        try:
            return ControlGroup(where, limits)
        except OSError as error:
            if limits.cpus is not None:
                raise InfrastructureError(
                    f"no control group for the limit cpus={limits.cpus:g}: {error}",
                    hint="remove Submission.cpu_limit, or run under systemd-run --user --scope -p Delegate=yes",
                ) from error
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
    """Returns the guarantee on processors if the evaluator may use only some of them and a filter can enforce that."""
    return (_PINNED,) if seccomp.supported() and seccomp.processors_are_restricted() else ()
