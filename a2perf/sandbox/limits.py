"""Control groups of either version: bounds on a whole process tree that it cannot leave, and exact counters of it.

Version 1 keeps one tree of folders per controller, version 2 a single one in which a group with processes of its own
can have no groups with controllers below it; both can be mounted beside each other. Facts: the kernel's
``Documentation/admin-guide/cgroup-v1`` and ``cgroup-v2.rst``. A host where nothing of it can be written has resource
limits and sampling only, see ``guard``.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from a2perf.runs.process_identity import left_behind, mark
from a2perf.sandbox.interface import Limits

CONTROLLERS = ("memory", "pids", "cpu", "cpuacct")
PERIOD_US = 100_000
EMPTY_S = 5.0

_EVALUATORS = "a2perf-evaluators"
_PREFIX = "a2perf-run-"
_numbers = itertools.count()


@dataclass(frozen=True)
class GroupParent:
    """Where this process may make groups.

    Attributes:
        version: of the control groups, 1 or 2.
        parents: by controller, the folder in which a group would be made. Version 2 has no ``cpuacct``: every group
            counts its processor time.
    """

    version: int
    parents: Mapping[str, Path]

    @property
    def enforces(self) -> frozenset[str]:
        """Names in ``Limits`` that a group made here enforces."""
        names = {"memory": "memory_bytes", "pids": "processes", "cpu": "cpus"}
        return frozenset(names[controller] for controller in self.parents if controller in names)


@cache
def place() -> GroupParent:
    """Returns where this process may make groups; version 1 wins where both are mounted and it has the controllers."""
    return find_place(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())


def find_place(mountinfo: str, membership: str) -> GroupParent:
    """Reads the host's control groups from the text of ``/proc/self/mountinfo`` and ``/proc/self/cgroup``.

    Changes nothing; folders that this user cannot write are left out.
    """
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
            base = base.parent if base.name == _EVALUATORS else base
            with contextlib.suppress(OSError):
                offered = (base / "cgroup.controllers").read_text().split()
                second = {name: base for name in CONTROLLERS if name in offered}
    first = {name: folder for name, folder in first.items() if os.access(folder, os.W_OK)}
    if first:
        return GroupParent(1, first)
    return GroupParent(2, {name: folder for name, folder in second.items() if os.access(folder, os.W_OK)})


def _mounts(mountinfo: str) -> Iterator[tuple[str, list[str], str, Path]]:
    """Yields type, super-block options, root and mount point of each mount."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if len(fields) >= 5 and len(tail) >= 3:
            yield tail[0], tail[2].split(","), fields[3], Path(fields[4])


def _below(point: Path, root: str, own: str) -> Path:
    """Returns a group's folder: a container may see only the part of the tree from ``root`` on."""
    relative = own[len(root) :] if root != "/" and own.startswith(root) else own
    return point / relative.lstrip("/")


class ControlGroup:
    """One group for one process tree.

    Args:
        where: folders to make it in.
        limits: what it enforces, as far as ``where`` has the controllers.

    Raises:
        OSError: the host refused it; nothing of it is left then.
    """

    def __init__(self, where: GroupParent, limits: Limits) -> None:
        self.version = where.version
        self.folders: dict[str, Path] = {}
        if limits.cpus is None:
            where = _without_scheduling(where)
        name = f"{_PREFIX}{mark()}-{next(_numbers)}"
        if where.version == 2:
            _delegate(where)
        try:
            sweep(where)
            for controller, parent in where.parents.items():
                folder = parent / name
                folder.mkdir(exist_ok=True)  # controllers can be mounted together
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
        """Returns what ``guard.accounts`` needs."""
        return {
            "join": [str(folder / "cgroup.procs") for folder in self.paths],
            "remove": [str(folder) for folder in self.paths],
            "counters": counters(self.version, self.folders),
        }

    def remove(self) -> None:
        """Deletes it, where no process is left in it."""
        for folder in self.paths:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _set(self, limits: Limits) -> None:
        values: dict[tuple[str, str], object] = {}
        first = self.version == 1
        if limits.memory_bytes is not None:
            swap = "memory.memsw.limit_in_bytes" if first else "memory.swap.max"
            values["memory", "memory.limit_in_bytes" if first else "memory.max"] = limits.memory_bytes
            optional = {swap: limits.memory_bytes if first else 0}
            if first:  # version 2 counts the buffers of TCP with the rest
                optional["memory.kmem.tcp.limit_in_bytes"] = limits.memory_bytes
            for file, most in optional.items():
                if "memory" in self.folders and (self.folders["memory"] / file).exists():
                    values["memory", file] = most
        if limits.processes is not None:
            values["pids", "pids.max"] = most_tasks(limits.processes)
        if limits.cpus is not None:
            quota = max(1000, int(limits.cpus * PERIOD_US))
            if first:
                values["cpu", "cpu.cfs_period_us"] = PERIOD_US
                values["cpu", "cpu.cfs_quota_us"] = quota
            else:
                values["cpu", "cpu.max"] = f"{quota} {PERIOD_US}"
        for (controller, file), value in values.items():
            if controller in self.folders:
                (self.folders[controller] / file).write_text(str(value))


def _without_scheduling(where: GroupParent) -> GroupParent:
    """Leaves the controller ``cpu`` out, and what is mounted together with it.

    A group of its own in the scheduler makes the wake-ups of every step slower; a tree without a limit needs none.
    """
    scheduling = where.parents.get("cpu") if where.version == 1 else None
    kept = {name: path for name, path in where.parents.items() if name != "cpu" and path != scheduling}
    return GroupParent(where.version, kept)


def most_tasks(processes: int) -> int:
    """Returns the bound for a controller that counts threads too, of which a process may have several."""
    return 4 * processes + 64


def counters(version: int, folders: Mapping[str, Path]) -> dict[str, tuple[str, str]]:
    """Returns by name the file and the key of its line, for the counters that these folders hold."""
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
    """Hands the controllers on to groups below; processes of the group itself move into one of these first."""
    for base in set(where.parents.values()):
        wanted = [name for name, parent in where.parents.items() if parent == base]
        enabled = (base / "cgroup.subtree_control").read_text().split()
        if set(wanted) <= set(enabled):
            continue
        text = " ".join(f"+{name}" for name in wanted)
        try:
            (base / "cgroup.subtree_control").write_text(text)
        except OSError:
            leaf = base / _EVALUATORS
            leaf.mkdir(exist_ok=True)
            for pid in (base / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    (leaf / "cgroup.procs").write_text(pid)
            (base / "cgroup.subtree_control").write_text(text)


def empty(folders: tuple[Path, ...]) -> None:
    """Kills every process in a group whose guard was killed: some may not be bound to their parent's life yet."""
    deadline = time.monotonic() + EMPTY_S
    for folder in folders:
        while time.monotonic() < deadline:
            try:
                # 0 is a process of a namespace above, and would be this process's own group to kill(2)
                members = [int(pid) for pid in (folder / "cgroup.procs").read_text().split() if pid != "0"]
            except OSError:
                break
            if not members:
                break
            for pid in members:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)


def sweep(where: GroupParent) -> None:
    """Removes groups of evaluators and guards that were killed together, with what is left in them."""
    for folder in _groups(where):
        if left_behind(folder.name.removeprefix(_PREFIX)):
            empty((folder,))
            with contextlib.suppress(OSError):
                folder.rmdir()


def _groups(where: GroupParent) -> list[Path]:
    found: list[Path] = []
    for parent in set(where.parents.values()):
        with contextlib.suppress(OSError):
            found += parent.glob(f"{_PREFIX}*")
    return found
