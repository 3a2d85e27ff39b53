"""Control groups, versions 1 and 2: bounds that a process tree cannot leave, and exact counters of it.

Version 1 has one folder tree per controller. Version 2 has a single tree, in which a group that holds processes cannot
have child groups with controllers. Both can be mounted at the same time. Source: the kernel's
``Documentation/admin-guide/cgroup-v1`` and ``cgroup-v2.rst``. On a host without writable control groups only resource
limits and sampling remain, see ``guard``.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from a2perf.runs.bundles.process_identity import left_behind, mark
from a2perf.sandbox import orphans
from a2perf.sandbox.interface import Limits
from a2perf.system import LINUX, memory_bytes

CONTROLLERS = ("memory", "pids", "cpu", "cpuacct")
PERIOD_US = 100_000

_EVALUATORS = "a2perf-evaluators"
_PARTICIPANTS = "a2perf-participants"
_SHARE = 0.75
"""Share of the host's memory for all participants together; evaluators and the system keep the rest."""

LEAST_SHARE_BYTES = 512 * 2**20
"""Smallest default limit of one participant, however many run at the same time: an interpreter has to fit."""

PARALLEL_RUNS_VARIABLE = "A2PERF_PARALLEL_RUNS"
"""Variable of an evaluator: how many runs share this host."""

_BOUNDS = {1: "memory.limit_in_bytes", 2: "memory.max"}
_PREFIX = "a2perf-run-"
_numbers = itertools.count()


@dataclass(frozen=True)
class GroupParent:
    """Where this process may create groups.

    Attributes:
        version: version of the control groups, 1 or 2.
        parents: by controller, the folder in which a group would be created. Version 2 has no ``cpuacct``: every group
            counts its processor time.
    """

    version: int
    parents: Mapping[str, Path]

    @property
    def enforces(self) -> frozenset[str]:
        """Names in ``Limits`` that a group created here enforces."""
        names = {"memory": "memory_bytes", "pids": "processes", "cpu": "cpus"}
        return frozenset(names[controller] for controller in self.parents if controller in names)


@cache
def place() -> GroupParent:
    """Returns where this process may create groups; version 1 wins if both are mounted and it has controllers.

    They lie below one group that bounds the memory of all participants together. The first call creates a group and
    removes it again: a folder can be writable where the kernel refuses groups.
    """
    if not LINUX:
        return GroupParent(2, {})
    found = find_place(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    try:
        found = _shared_group(found)
        if found.parents:
            ControlGroup(found, Limits(memory_bytes=participants_bytes())).remove()
    except OSError:
        return GroupParent(found.version, {})
    return found


def participants_bytes() -> int:
    """Returns the memory that all participants on this host may use together, in bytes."""
    return int(_SHARE * _host_bytes())


@cache
def _host_bytes() -> int:
    """Returns the memory of this host, or of the control group that this process runs in, if that is less."""
    found = [memory_bytes()]
    if not LINUX:
        return found[0]
    own = _own_groups(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    for version, folders in own.items():
        group = folders.get("memory")
        # A bound on a group above this one holds too; above the mount point there is no such file.
        while group is not None and (group / "cgroup.procs").exists():
            with contextlib.suppress(OSError, ValueError):  # "max" is not a number; the root of version 2 has no file
                found.append(int((group / _BOUNDS[version]).read_text()))
            group = group.parent
    return min(found)


def oom_kills() -> int:
    """Returns how many processes of this process's own control group were killed because memory ran out.

    Where the group does not count them, those of the whole host since its boot.
    """
    if not LINUX:
        return 0
    own = _own_groups(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    # Not memory.events of version 2: it includes the groups below, and so every participant at its limit.
    files = [own[1].get("memory", Path()) / "memory.oom_control", own[2].get("memory", Path()) / "memory.events.local"]
    for path in (*files, Path("/proc/vmstat")):
        with contextlib.suppress(OSError):
            for line in path.read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0


def find_place(mountinfo: str, membership: str) -> GroupParent:
    """Finds writable control groups from the text of ``/proc/self/mountinfo`` and ``/proc/self/cgroup``.

    Changes nothing; folders that this user cannot write are left out.
    """
    own = _own_groups(mountinfo, membership)
    for version in (1, 2):
        writable = {name: folder for name, folder in own[version].items() if os.access(folder, os.W_OK)}
        if writable or version == 2:
            break
    return GroupParent(version, writable)


def _own_groups(mountinfo: str, membership: str) -> dict[int, dict[str, Path]]:
    """Returns the folders of this process's groups by version and controller, writable or not."""
    own = {}
    for line in membership.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            own[name] = path
    first: dict[str, Path] = {}
    second: dict[str, Path] = {}
    for kind, options, root, point in _mounts(mountinfo):
        if kind == "cgroup":
            for name in CONTROLLERS:
                if name in options and name in own:
                    first[name] = _below(point, root, own[name])
        elif kind == "cgroup2" and "" in own:
            base = _below(point, root, own[""])
            # _delegate may have moved this process into that child group; new groups belong beside it, not below it.
            base = base.parent if base.name == _EVALUATORS else base
            with contextlib.suppress(OSError):
                offered = (base / "cgroup.controllers").read_text().split()
                second = {name: base for name in CONTROLLERS if name in offered}
    return {1: first, 2: second}


def _mounts(mountinfo: str) -> Iterator[tuple[str, list[str], str, Path]]:
    """Yields type, super-block options, root and mount point of each mount."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if len(fields) >= 5 and len(tail) >= 3:
            yield tail[0], tail[2].split(","), fields[3], Path(fields[4])


def _below(point: Path, root: str, own: str) -> Path:
    """Returns a group's folder; ``root`` is the group that is mounted at ``point`` (not "/" in a container)."""
    relative = own[len(root) :] if root != "/" and own.startswith(root) else own
    return point / relative.lstrip("/")


class ControlGroup:
    """One group for one process tree.

    Args:
        limits: the bounds; those without a controller in ``where`` are not set.

    Raises:
        OSError: the host refused it; partly created folders are removed.
    """

    def __init__(self, where: GroupParent, limits: Limits) -> None:
        self.version = where.version
        self.folders: dict[str, Path] = {}
        if limits.cpus is None and int(os.environ.get(PARALLEL_RUNS_VARIABLE) or 1) == 1:
            where = _without_scheduling(where)
        name = f"{_PREFIX}{mark()}-{next(_numbers)}"
        if where.version == 2:
            _delegate(where)
        try:
            sweep(where)
            for controller, parent in where.parents.items():
                folder = parent / name
                folder.mkdir(exist_ok=True)  # version 1 can mount several controllers in one folder
                self.folders[controller] = folder
            self._set(limits)
        except OSError:
            self.remove()
            raise

    @property
    def paths(self) -> tuple[Path, ...]:
        """Its folders, each once."""
        return tuple(dict.fromkeys(self.folders.values()))

    @property
    def counts_cpu(self) -> bool:
        """Whether it counts the processor time of the tree."""
        return "cpu" in counters(self.version, self.folders)

    def document(self) -> dict[str, object]:
        """Returns the argument of ``guard.accounts.Accounts``."""
        return {
            "join": [str(folder / "cgroup.procs") for folder in self.paths],
            "remove": [str(folder) for folder in self.paths],
            "counters": counters(self.version, self.folders),
        }

    def remove(self) -> None:
        """Deletes the group; a folder that still holds a process stays."""
        for folder in self.paths:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _set(self, limits: Limits) -> None:
        values: dict[tuple[str, str], object] = {}
        first = self.version == 1
        if limits.memory_bytes is not None:
            swap = "memory.memsw.limit_in_bytes" if first else "memory.swap.max"
            # First: version 1 refuses a bound on memory with swap below the one on memory, which starts unlimited.
            values["memory", "memory.limit_in_bytes" if first else "memory.max"] = limits.memory_bytes
            # Version 1 bounds memory and swap together, so the same number means no swap; version 2 bounds swap alone.
            optional = {swap: limits.memory_bytes if first else 0}
            if first:  # version 2 counts the buffers of TCP with the rest
                optional["memory.kmem.tcp.limit_in_bytes"] = limits.memory_bytes
            for file, most in optional.items():
                if "memory" in self.folders and (self.folders["memory"] / file).exists():
                    values["memory", file] = most
        if limits.processes is not None:
            values["pids", "pids.max"] = most_tasks(limits.processes)
        if limits.cpus is not None:
            # The scheduler refuses quotas below one millisecond.
            quota = max(1000, int(limits.cpus * PERIOD_US))
            if first:
                values["cpu", "cpu.cfs_period_us"] = PERIOD_US
                values["cpu", "cpu.cfs_quota_us"] = quota
            else:
                values["cpu", "cpu.max"] = f"{quota} {PERIOD_US}"
        for (controller, file), value in values.items():
            if controller in self.folders:
                (self.folders[controller] / file).write_text(str(value))


def _shared_group(where: GroupParent) -> GroupParent:
    """Creates the group of all participants, which bounds their memory together; returns it in place of its parent.

    Raises:
        OSError: the host refused it.
    """
    base = where.parents.get("memory")
    if base is None:
        return where
    if where.version == 2:
        _delegate(where)
    group = base / _PARTICIPANTS
    group.mkdir(exist_ok=True)
    if where.version == 1:
        with contextlib.suppress(OSError):  # before Linux 5.11 version 1 does not count a group's children by default
            (group / "memory.use_hierarchy").write_text("1")
    bound = group / _BOUNDS[where.version]
    page = os.sysconf("SC_PAGE_SIZE")
    if bound.read_text().strip() != str(participants_bytes() // page * page):
        bound.write_text(str(participants_bytes()))
    return GroupParent(where.version, {name: group if at == base else at for name, at in where.parents.items()})


def _without_scheduling(where: GroupParent) -> GroupParent:
    """Returns ``where`` without the controller ``cpu`` and controllers mounted together with it.

    A separate group in the scheduler makes the wake-up of every step slower. A tree needs one for a limit, and beside
    other runs: groups have equal weights, so a run with many processes takes no processor time from the others.
    """
    scheduling = where.parents.get("cpu") if where.version == 1 else None
    kept = {name: path for name, path in where.parents.items() if name != "cpu" and path != scheduling}
    return GroupParent(where.version, kept)


def most_tasks(processes: int) -> int:
    """Returns the bound on processes and threads together, which the controller ``pids`` counts."""
    return 4 * processes + 64


def counters(version: int, folders: Mapping[str, Path]) -> dict[str, tuple[str, str]]:
    """Returns, by counter name, the file and the key of its line (empty: the file is one number)."""
    by_version: dict[int, dict[str, tuple[str, str, str]]] = {
        1: {
            "cpu": ("cpuacct", "cpuacct.usage", ""),
            "memory_peak": ("memory", "memory.max_usage_in_bytes", ""),
            "oom_kills": ("memory", "memory.oom_control", "oom_kill"),
        },
        2: {
            "cpu": (next(iter(folders), "cpu"), "cpu.stat", "usage_usec"),  # in every group, whatever its controllers
            "memory_peak": ("memory", "memory.peak", ""),
            "oom_kills": ("memory", "memory.events", "oom_kill"),
        },
    }
    both = {"tasks": ("pids", "pids.current", ""), "refused_forks": ("pids", "pids.events", "max")}
    return {
        name: (str(folders[controller] / file), key)
        for name, (controller, file, key) in {**by_version[version], **both}.items()
        if controller in folders
    }


def cpu_unit_s(version: int) -> float:
    """Returns the unit of the processor time that a group of this version counts, in seconds."""
    return 1e-9 if version == 1 else 1e-6


def _delegate(where: GroupParent) -> None:
    """Enables the controllers for child groups; processes of the group itself move into a child group if necessary."""
    for base in set(where.parents.values()):
        wanted = [name for name, parent in where.parents.items() if parent == base]
        enabled = (base / "cgroup.subtree_control").read_text().split()
        if set(wanted) <= set(enabled):
            continue
        text = " ".join(f"+{name}" for name in wanted)
        try:
            (base / "cgroup.subtree_control").write_text(text)
        except OSError:
            # Version 2: a group with processes cannot enable controllers for its children ("no internal processes").
            leaf = base / _EVALUATORS
            leaf.mkdir(exist_ok=True)
            for pid in (base / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    (leaf / "cgroup.procs").write_text(pid)
            (base / "cgroup.subtree_control").write_text(text)


def sweep(where: GroupParent) -> None:
    """Removes groups left by an evaluator that was killed together with its guard, and kills their processes."""
    for folder in _groups(where):
        if left_behind(folder.name.removeprefix(_PREFIX)):
            orphans.clear((folder,))
            with contextlib.suppress(OSError):
                folder.rmdir()


def _groups(where: GroupParent) -> list[Path]:
    found: list[Path] = []
    for parent in set(where.parents.values()):
        with contextlib.suppress(OSError):
            found += parent.glob(f"{_PREFIX}*")
    return found
