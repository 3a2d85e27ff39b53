"""How much processor time of a tree may be missing where no account of the kernel covers all of it.

The kernel gives the time of a child to nobody when its parent ignores SIGCHLD, and its inherited clock stops at a
program that the user may not read. What the whole machine was busy, less the tree's own account and what every other
process shows for itself, is what such children can have used at most. Processes that were started during the run and
now belong to the host's first process may have left the tree (double fork, ``setsid``) before a sample saw them: they
are not taken for others, and their time is part of the bound.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from a2perf.metrics.trackers import procfs
from a2perf.metrics.trackers.procfs import CLOCK_TICKS_PER_S, ProcessStat
from a2perf.runs.tracking_record import Account

ACCOUNTS = {
    "cgroup_v1": "control group",
    "cgroup_v2": "control group",
    "task_clock": "kernel task clock",
    "proc_stat": "process tree sampling",
    "psutil": "process tree sampling",
}
"""What a method of counting processor time is called in the records."""

# A smaller share, or less than this in all, is within what the ticks of a busy machine round.
_SHARE = 0.1
_SECONDS = 1.0


@dataclass(frozen=True)
class _Machine:
    """Processor time since boot: all of it, that of each process by pid and start, and how many were ever started."""

    busy_s: float
    started: int
    ticks: dict[tuple[int, int], int]
    parents: dict[int, int] = field(default_factory=dict)


class Unaccounted:
    """Bounds the time that may be missing in the account of one tree, from its start until ``account``.

    The root watches over the tree; what it and this process have inherited is the tree's.
    """

    def __init__(self, root: int) -> None:
        self._apart = {root, os.getpid()}
        self._tree: set[int] = set()
        self._adopters = _adopters(root)
        self._before = self._machine()

    def saw(self, pids: frozenset[int]) -> None:
        """Notes members of the tree."""
        self._tree |= pids

    def account(self, cpu_seconds: float, cpu_method: str) -> Account:
        """Returns how the time was counted, and the most that may be missing beside ``cpu_seconds`` of the tree."""
        before, now = self._before, self._machine()
        if before is None or now is None:
            return Account(cpu=ACCOUNTS.get(cpu_method, cpu_method))
        # New processes that an adopter of orphans has may have left the tree, and so may their descendants.
        # All processes count at once: what one had used before, another one inherits when it ends.
        new = {pid for pid, start in now.ticks if (pid, start) not in before.ticks and pid not in self._tree}
        left = {pid for pid in new if now.parents.get(pid) in self._adopters}
        while more := {pid for pid in new - left if now.parents.get(pid) in left}:
            left |= more
        others = max(0, self._outside(now, left) - self._outside(before, left))
        missing_s = max(0.0, now.busy_s - before.busy_s - cpu_seconds - others / CLOCK_TICKS_PER_S)
        started = now.started - before.started
        warning = ""
        if missing_s > max(_SECONDS, _SHARE * cpu_seconds):
            warning = (
                f"up to {missing_s:.1f} s of processor time beside the {cpu_seconds:.1f} s counted may belong to"
                f" processes of the submission that ended unseen ({started} were started on this host in that time);"
                " a control group counts all of it: run as root, or under systemd-run --user --scope -p Delegate=yes"
            )
        return Account(
            cpu=ACCOUNTS.get(cpu_method, cpu_method),
            complete=False,
            cpu_not_accounted_max_s=missing_s,
            processes_started=started,
            processes_adopted=len(left),
            warning=warning,
        )

    def _outside(self, machine: _Machine, left: set[int]) -> int:
        return sum(ticks for (pid, _), ticks in machine.ticks.items() if pid not in self._tree and pid not in left)

    def _machine(self) -> _Machine | None:
        cpu, started = procfs.read_machine_cpu(), procfs.read_processes_started()
        if cpu is None or started is None:
            return None
        ticks, parents = {}, {}
        for pid, _ in procfs.list_processes():
            stat = procfs.read_stat(pid)
            if stat is not None:
                inherited = 0 if pid in self._apart else stat.reaped_ticks
                ticks[pid, stat.start_ticks] = stat.own_ticks + inherited
                parents[pid] = stat.ppid
        return _Machine(cpu.busy_s, started, ticks, parents)


def _adopters(root: int) -> set[int]:
    """Returns the processes to which orphans of a tree go: the host's first one, and the user's service manager.

    An ancestor that starts runs itself, such as the first process of a container, is not among them: its children are
    other runs.
    """
    chain: list[ProcessStat] = []
    pid = root
    while pid > 0 and (stat := procfs.read_stat(pid)) is not None and len(chain) < 64:
        chain.append(stat)
        pid = stat.ppid
    near = {os.getpid(), os.getppid()}
    managers = {stat.pid for stat in chain[1:] if procfs.read_name(stat.pid) == "systemd"}
    return ({1} | managers) - near
