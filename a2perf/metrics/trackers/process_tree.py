"""Follows one process with all its descendants: memory, processor time, threads and storage I/O.

Processor time includes that of dead processes. If the tree has a control group, its counter is the account, and nothing
is added to it. Without one the time is an estimate: each process carries its own time and that of the children it has
waited for; the sum of both over the living tree therefore loses nothing when a child dies and is reaped inside the
tree, however short it lived. What a vanished process had used and no ancestor has taken over (nobody waited for it)
is carried on from its last sample. Children of a parent that ignores SIGCHLD are lost that way. The kernel's inherited
clock counts those too; ``Unaccounted`` bounds the loss. The guard's own time is in none of these accounts.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from a2perf.metrics.trackers import procfs
from a2perf.metrics.trackers.procfs import CLOCK_TICKS_PER_S, ProcessStat
from a2perf.system import LINUX, own_cpu_seconds

CGROUP_METHODS = ("cgroup_v1", "cgroup_v2")


@dataclass(frozen=True, slots=True)
class TreeSample:
    """The tree at one moment; counters run from the start of its processes.

    Attributes:
        cpu_seconds: processor time of all processes that are or were in the tree.
        cpu_method: ``"cgroup_v1"``, ``"cgroup_v2"`` (a control group's account), ``"task_clock"`` (the kernel's clock,
            inherited by every descendant), ``"proc_stat"`` or ``"psutil"`` (sampling of the process tree).
        rss_bytes: sum of resident set sizes; pages that processes share count once for each.
        pss_bytes: sum of proportional set sizes, ``None`` when not asked for or not readable.
        memory_peak_bytes: a lower bound of the tree's peak known from the kernel, ``None`` when not asked for.
        memory_method: ``"cgroup"`` where that peak is the control group's (with file cache, shared memory and
            buffers), else ``"resident sets"``, or ``"resident sets, at least"`` if an earlier peak may hide this one.
        io_read_bytes: fetched from storage (not from the page cache).
    """

    pids: frozenset[int]
    cpu_seconds: float
    cpu_method: str
    threads: int
    rss_bytes: int
    pss_bytes: int | None
    memory_peak_bytes: int | None
    io_read_bytes: int
    io_write_bytes: int
    memory_method: str = "resident sets"

    @property
    def processes(self) -> int:
        """Number of living processes."""
        return len(self.pids)


def open_tree(
    root: int,
    *,
    cgroup: Sequence[Path] = (),
    clock: Callable[[], float] | None = None,
    root_is_guard: bool = False,
    running: bool = False,
) -> Tree:
    """Returns the reader of a process tree that fits this system; arguments as for ``ProcTree``."""
    if not LINUX:
        return PsutilTree(root)
    return ProcTree(root, cgroup=cgroup, clock=clock, root_is_guard=root_is_guard, running=running)


def started_ago_s(pid: int) -> float:
    """Seconds since a process started; 0 where that is not known."""
    stat = procfs.read_stat(pid) if LINUX else None
    if stat is None:
        return 0.0
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - stat.start_ticks / CLOCK_TICKS_PER_S)


def lost_with(vanished: Mapping[int, tuple[int, float]], growth: Mapping[int, float], *, root: int) -> float:
    """Returns what vanished processes had used and no survivor has taken over, >= 0, in the unit of the totals.

    Args:
        vanished: for each process that is gone, its last known parent and its last known total.
        growth: for each survivor, by how much what it has inherited grew since then.
        root: where orphans of the tree are reaped (it is the sub-reaper) when it survives.
    """
    claims: dict[int, float] = {}
    unclaimed = orphaned = 0.0
    for pid, (parent, total) in vanished.items():
        reaper = parent
        while reaper in vanished and reaper != pid:
            reaper = vanished[reaper][0]
        if reaper not in growth:
            reaper = root
        if reaper not in growth:
            unclaimed += total
            continue
        claims[reaper] = claims.get(reaper, 0.0) + total
        if parent != reaper:
            orphaned += total
    shortfall = sum(max(0.0, claim - growth[reaper]) for reaper, claim in claims.items())
    # If a parent dies first, its child is adopted by the sub-reaper, not by the grandparent.
    surplus = max(0.0, growth.get(root, 0.0) - claims.get(root, 0.0))
    return unclaimed + shortfall - min(shortfall, orphaned, surplus)


_resets = threading.Lock()
_running: weakref.WeakSet[ProcTree] = weakref.WeakSet()
"""Trees that follow a process that had worked before; each begins with a reset of marks that others read."""


class ProcTree:
    """A process tree read from ``/proc``, one pass over it per sample.

    A process once in the tree stays in it when it is reparented; so does one that keeps the session of a root that
    leads one. Processes outside are remembered and not read again.

    Args:
        root: pid of the participant process or its guard, in this process's pid namespace.
        cgroup: folders of a control group that holds this tree and nothing else.
        clock: returns the tree's processor time in seconds as the kernel counts it; for a tree without such a group.
        root_is_guard: the root only watches over the tree, so its own memory, threads and time are not the tree's;
            what it has inherited from reaped orphans is.
        running: the tree has been working before; memory peaks from before the first sample are left out. The kernel's
            marks are reset for that, where it allows it.
    """

    def __init__(
        self,
        root: int,
        *,
        cgroup: Sequence[Path] = (),
        clock: Callable[[], float] | None = None,
        root_is_guard: bool = False,
        running: bool = False,
    ) -> None:
        self._root = root
        self._clock = clock
        self._earlier_peaks: dict[int, int] = {}
        self._peak_before_resets = 0  # of other trees of this process
        self._begun = not running
        self._guard = root if root_is_guard else None
        self._cgroup = tuple(cgroup)
        self._members: dict[int, ProcessStat] = {}
        self._entered = False
        self._io: dict[int, tuple[int, int]] = {}
        self._outside: set[tuple[int, int]] = set()
        self._carried_ticks = 0.0
        self._carried_io = [0.0, 0.0]
        self._cpu_seconds = 0.0
        self._method = "proc_stat"
        self._guard_s = 0.0
        # The group of a container holds the guard too, and counts what the engine used to start it.
        self._shared_with_guard = self._guard in procfs.read_group_members(self._cgroup)
        self._before_s = 0.0
        if self._shared_with_guard:
            usage_s = self.sample().cpu_seconds
            self._before_s = max(0.0, usage_s - self._estimate_s())
            self._cpu_seconds = 0.0

    def sample(self, *, thorough: bool = False) -> TreeSample:
        """Reads the tree; ``thorough`` adds what is dear to read (proportional set size, high-water marks)."""
        before, before_io = self._members, self._io
        self._members = self._find_members()
        living = [stat for stat in self._members.values() if stat.state not in "ZX" and stat.pid != self._guard]
        self._io = {
            pid: io for pid in self._members if pid != self._guard and (io := procfs.read_storage_io(pid)) is not None
        }
        self._carry_on(before, before_io)
        pids = frozenset(stat.pid for stat in living)
        rss = sum(stat.rss_bytes for stat in living)
        cpu_seconds, method, memory_peak = self._account()
        if not self._begun:
            self._begun = True
            self._reset_peaks(pids)
        memory_method = "cgroup" if memory_peak is not None else "resident sets"
        if memory_peak is None and not self._earlier_peaks.keys().isdisjoint(pids):
            memory_method += ", at least"
        if thorough:
            memory_peak = max(memory_peak or 0, self._high_water(pids), self._peak_before_resets, rss)
        return TreeSample(
            pids=pids,
            cpu_seconds=cpu_seconds,
            cpu_method=method,
            threads=sum(stat.threads for stat in living),
            rss_bytes=rss,
            pss_bytes=known_sum(procfs.read_pss(pid) for pid in pids) if thorough else None,
            memory_peak_bytes=memory_peak if thorough else None,
            io_read_bytes=int(sum(io[0] for io in self._io.values()) + self._carried_io[0]),
            io_write_bytes=int(sum(io[1] for io in self._io.values()) + self._carried_io[1]),
            memory_method=memory_method,
        )

    def _high_water(self, pids: Iterable[int]) -> int:
        """Returns the highest mark of a process; one that could not be reset counts if it has risen since."""
        peaks = ((procfs.read_rss_high_water(pid) or 0, self._earlier_peaks.get(pid, 0)) for pid in pids)
        return max((peak for peak, earlier in peaks if peak > earlier), default=0)

    def _reset_peaks(self, pids: frozenset[int]) -> None:
        """Makes the marks of the processes begin now, and tells the trees that began before."""
        with _resets:
            for other in _running:
                other._peak_before_resets = max(
                    other._peak_before_resets, other._high_water(pids & set(other._members))
                )
            marks = {pid: procfs.read_rss_high_water(pid) or 0 for pid in pids}
            self._earlier_peaks = {pid: mark for pid, mark in marks.items() if not procfs.reset_rss_high_water(pid)}
            _running.add(self)

    def _find_members(self) -> dict[int, ProcessStat]:
        members: dict[int, ProcessStat] = {}
        candidates: dict[int, tuple[ProcessStat, int]] = {}
        listed = set(procfs.list_processes())
        outside = self._outside & listed
        for pid, inode in listed - outside:
            stat = procfs.read_stat(pid)
            if stat is None:
                continue
            known = self._members.get(pid)
            # The root enters once; later its number may belong to a stranger.
            entering = pid == self._root and not self._entered
            if entering or (known is not None and known.start_ticks == stat.start_ticks):
                members[pid] = stat
            else:
                candidates[pid] = (stat, inode)
        root = members.get(self._root)
        session = root.session if root is not None and root.session == self._root else None
        for pid, (stat, inode) in candidates.items():
            if stat.session == session or _descends(stat, candidates, members, self._members):
                members[pid] = stat
            else:
                outside.add((pid, inode))
        self._outside = outside
        self._entered = self._entered or bool(members)
        return members

    def _carry_on(self, before: Mapping[int, ProcessStat], before_io: Mapping[int, tuple[int, int]]) -> None:
        now = self._members
        gone = {pid: stat for pid, stat in before.items() if pid not in now or now[pid].start_ticks != stat.start_ticks}
        if not gone:
            return
        stayed = [pid for pid in before if pid not in gone]
        self._carried_ticks += lost_with(
            {
                # what the guard used itself is not the tree's; what it has inherited is
                pid: (stat.ppid, (0 if pid == self._guard else stat.own_ticks) + stat.reaped_ticks)
                for pid, stat in gone.items()
            },
            {pid: now[pid].reaped_ticks - before[pid].reaped_ticks for pid in stayed},
            root=self._root,
        )
        for kind in (0, 1):
            # A parent's own counter takes over its reaped children's, so its whole growth may be theirs.
            known = [pid for pid in stayed if pid in self._io and pid in before_io]
            self._carried_io[kind] += lost_with(
                {pid: (gone[pid].ppid, before_io[pid][kind]) for pid in gone if pid in before_io},
                {pid: self._io[pid][kind] - before_io[pid][kind] for pid in known},
                root=self._root,
            )

    def _account(self) -> tuple[float, str, int | None]:
        usage = procfs.read_cgroup(self._cgroup)
        if usage.cpu_seconds is not None and usage.method is not None:
            if self._shared_with_guard and self._guard is not None:
                self._guard_s = own_cpu_seconds(self._guard) or self._guard_s
            seconds, self._method = usage.cpu_seconds - self._guard_s - self._before_s, usage.method
        elif self._method in CGROUP_METHODS:  # the group of a tree that has ended is gone
            seconds = self._cpu_seconds
        else:
            seconds = self._estimate_s()
            if self._clock is not None:
                # Both count the same processes, and each is a lower bound: the clock stops at a program that its user
                # may not read, and sampling misses children that no process waits for.
                seconds, self._method = max(seconds, self._clock()), "task_clock"
        self._cpu_seconds = max(self._cpu_seconds, seconds)  # rounding must not run a counter backwards
        return self._cpu_seconds, self._method, usage.memory_peak_bytes

    def _estimate_s(self) -> float:
        """Returns the time of the members, and of dead processes as far as ``/proc`` shows it."""
        ticks = sum(stat.reaped_ticks for stat in self._members.values()) + self._carried_ticks
        own_s = 0.0
        for stat in self._members.values():
            if stat.pid != self._guard:
                precise_s = own_cpu_seconds(stat.pid)
                own_s += precise_s if precise_s is not None else stat.own_ticks / CLOCK_TICKS_PER_S
        return own_s + ticks / CLOCK_TICKS_PER_S


def _descends(
    stat: ProcessStat,
    candidates: Mapping[int, tuple[ProcessStat, int]],
    members: Mapping[int, ProcessStat],
    earlier: Mapping[int, ProcessStat],
) -> bool:
    seen = set()
    parent = stat.ppid
    while parent not in seen:
        if parent in members or parent in earlier:
            return True
        seen.add(parent)
        if parent not in candidates:
            return False
        parent = candidates[parent][0].ppid
    return False


def known_sum(values: Iterable[int | None]) -> int | None:
    """Returns the sum of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


class PsutilTree:
    """The same through psutil, for systems without ``/proc``; time of dead children as far as it reports it."""

    def __init__(self, root: int) -> None:
        import psutil

        self._psutil = psutil
        self._root = psutil.Process(root)
        self._totals: dict[int, tuple[int, float]] = {}
        self._reaped: dict[int, float] = {}
        self._carried_s = 0.0
        self._cpu_seconds = 0.0

    def sample(self, *, thorough: bool = False) -> TreeSample:
        """Reads the tree as it is now."""
        psutil = self._psutil
        totals: dict[int, tuple[int, float]] = {}
        reaped: dict[int, float] = {}
        living: set[int] = set()
        threads = rss = 0
        try:
            processes = [self._root, *self._root.children(recursive=True)]
        except psutil.Error:
            processes = []
        for process in processes:
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    reaped[process.pid] = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
                    totals[process.pid] = (process.ppid(), times.user + times.system + reaped[process.pid])
                    if process.status() != psutil.STATUS_ZOMBIE:
                        living.add(process.pid)
                        threads += process.num_threads()
                        rss += process.memory_info().rss
            except psutil.Error:
                continue
        gone = {pid: known for pid, known in self._totals.items() if pid not in totals}
        growth = {pid: reaped[pid] - self._reaped[pid] for pid in reaped if pid in self._reaped}
        self._carried_s += lost_with(gone, growth, root=self._root.pid)
        self._totals, self._reaped = totals, reaped
        self._cpu_seconds = max(self._cpu_seconds, sum(total for _, total in totals.values()) + self._carried_s)
        return replace(
            _NOTHING,
            pids=frozenset(living),
            cpu_seconds=self._cpu_seconds,
            cpu_method="psutil",
            threads=threads,
            rss_bytes=rss,
            memory_peak_bytes=rss if thorough else None,
        )


Tree = ProcTree | PsutilTree

_NOTHING = TreeSample(
    pids=frozenset(),
    cpu_seconds=0.0,
    cpu_method="",
    threads=0,
    rss_bytes=0,
    pss_bytes=None,
    memory_peak_bytes=None,
    io_read_bytes=0,
    io_write_bytes=0,
)


class TreeSum:
    """The process trees of a run as one: several at the same time or one after the other.

    What ended trees have used stays in the counters. The threads that sample it and that change it may differ.
    """

    def __init__(self) -> None:
        self._living: dict[int, Tree] = {}
        self._earlier = _NOTHING
        self._lock = threading.Lock()

    def begin(self, root: int, tree: Tree) -> None:
        """Adds a tree by the process id of its root."""
        with self._lock:
            self._living[root] = tree

    def end(self, root: int, *, cpu_s: float = 0.0, memory_peak_bytes: int | None = None) -> None:
        """Removes a tree that has ended; what it used stays in the sum.

        The last sample may be older than the processor time that its guard counted. The peak is its control group's.
        """
        with self._lock:
            tree = self._living.pop(root, None)
            if tree is not None:
                last = tree.sample()
                last = replace(
                    last,
                    cpu_seconds=max(last.cpu_seconds, cpu_s),
                    pids=frozenset(),
                    threads=0,
                    rss_bytes=0,
                    pss_bytes=None,
                    memory_peak_bytes=memory_peak_bytes,
                    memory_method=last.memory_method if memory_peak_bytes is None else "cgroup",
                )
                self._earlier = _sum([self._earlier, last])

    def sample(self, *, thorough: bool = False) -> TreeSample:
        """Reads the living trees; without one the counters stand still."""
        with self._lock:
            return _sum([self._earlier, *(tree.sample(thorough=thorough) for tree in self._living.values())])


def _sum(samples: list[TreeSample]) -> TreeSample:
    """Returns the sum of samples; of the last one what cannot be added."""
    last = samples[-1]
    rss = sum(sample.rss_bytes for sample in samples)
    peaks = [sample.memory_peak_bytes for sample in samples if sample.memory_peak_bytes is not None]
    return replace(
        last,
        pids=frozenset().union(*(sample.pids for sample in samples)),
        cpu_seconds=sum(sample.cpu_seconds for sample in samples),
        threads=sum(sample.threads for sample in samples),
        rss_bytes=rss,
        pss_bytes=known_sum(sample.pss_bytes for sample in samples),
        # Peaks of different moments do not add up: the largest one and the present sum are both lower bounds.
        memory_peak_bytes=max([*peaks, rss]) if peaks else None,
        io_read_bytes=sum(sample.io_read_bytes for sample in samples),
        io_write_bytes=sum(sample.io_write_bytes for sample in samples),
    )
