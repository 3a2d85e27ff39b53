"""Reads single files of ``/proc``: one process, the whole machine, one cgroup. Linux only, standard library only.

Reading with ``os.read`` costs about 8 us per file; a general library reads the same files several times per process.
Every reader of a process returns ``None`` when the process is gone or may not be looked at. Layouts: ``proc(5)``,
``Documentation/admin-guide/cgroup-v1/cpuacct.rst`` and ``cgroup-v2.rst`` of the kernel.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from a2perf.system import POSIX

CLOCK_TICKS_PER_S: int = os.sysconf("SC_CLK_TCK") if POSIX else 100
PAGE_BYTES: int = mmap.PAGESIZE


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """One line of ``/proc/PID/stat``.

    Attributes:
        session: session id; a child keeps it unless it calls ``setsid``.
        start_ticks: start time since boot; with ``pid`` it names a process for good, since a pid alone is reused.
        own_ticks: user and system time of the process with all its threads, living and dead.
        reaped_ticks: the same of all children that it has waited for, and of theirs.
    """

    pid: int
    ppid: int
    session: int
    state: str
    start_ticks: int
    own_ticks: int
    reaped_ticks: int
    threads: int
    rss_bytes: int


@dataclass(frozen=True, slots=True)
class MachineCpu:
    """The first line of ``/proc/stat`` in seconds, summed over all processors since boot."""

    busy_s: float
    idle_s: float
    steal_s: float


@dataclass(frozen=True, slots=True)
class CgroupUsage:
    """What the kernel has accounted to one control group; ``None`` where its files do not say.

    ``method`` is ``"cgroup_v1"`` or ``"cgroup_v2"`` if processor time was found.
    """

    method: str | None
    cpu_seconds: float | None
    memory_peak_bytes: int | None


def _read(path: str | Path, size: int = 4096) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        return os.read(descriptor, size)
    except OSError:  # a process that ends after the open answers the read with ESRCH
        return None
    finally:
        os.close(descriptor)


def read_stat(pid: int) -> ProcessStat | None:
    """Reads ``/proc/PID/stat``; a zombie still has its times there."""
    line = _read(f"/proc/{pid}/stat")
    if not line:
        return None
    # The command name stands in parentheses and may itself hold spaces and parentheses.
    fields = line[line.rfind(b")") + 2 :].split()
    return ProcessStat(
        pid=pid,
        ppid=int(fields[1]),
        session=int(fields[3]),
        state=fields[0].decode(),
        start_ticks=int(fields[19]),
        own_ticks=int(fields[11]) + int(fields[12]),
        reaped_ticks=int(fields[13]) + int(fields[14]),
        threads=int(fields[17]),
        rss_bytes=int(fields[21]) * PAGE_BYTES,
    )


def read_name(pid: int) -> str:
    """Reads the command name of a process, at most 15 characters; ``""`` if it is gone."""
    return (_read(f"/proc/{pid}/comm", 64) or b"").decode(errors="replace").strip()


def read_storage_io(pid: int) -> tuple[int, int] | None:
    """Reads bytes fetched from and sent to storage by a process and its reaped children, ``(read, written)``."""
    text = _read(f"/proc/{pid}/io")
    if not text:
        return None
    fields = text.split()  # pairs of name and value; those to storage are the fifth and sixth
    return int(fields[9]), int(fields[11])


def read_pss(pid: int) -> int | None:
    """Reads the proportional set size in bytes (shared pages divided by the number of processes that share them).

    The kernel walks the page tables for it, which costs some 0.2 ms and more in large processes.
    """
    text = _read(f"/proc/{pid}/smaps_rollup")
    if not text:
        return None
    at = text.find(b"\nPss:")
    return int(text[at + 5 :].split(None, 1)[0]) * 1024 if at >= 0 else None


def read_rss_high_water(pid: int) -> int | None:
    """Reads the largest resident set size that a process has had, in bytes."""
    text = _read(f"/proc/{pid}/status")
    at = text.find(b"\nVmHWM:") if text else -1
    return int(text[at + 7 :].split(None, 1)[0]) * 1024 if text and at >= 0 else None


def reset_rss_high_water(pid: int) -> bool:
    """Sets a process's high-water mark of resident memory to its present size; returns whether the kernel allows it.

    ``ru_maxrss`` of the process starts again too.
    """
    try:
        descriptor = os.open(f"/proc/{pid}/clear_refs", os.O_WRONLY)
    except OSError:
        return False
    try:
        return os.write(descriptor, b"5") == 1
    except OSError:
        return False
    finally:
        os.close(descriptor)


def list_processes() -> list[tuple[int, int]]:
    """Lists ``(pid, inode of /proc/PID)``; a process that reuses a pid has another inode."""
    with os.scandir("/proc") as entries:
        return [(int(entry.name), entry.inode()) for entry in entries if entry.name[0] in "123456789"]


def read_machine_cpu() -> MachineCpu | None:
    """Reads the processor time of the whole machine. Guest time is part of user time and not counted twice."""
    # The total is the first line; lines for every processor and interrupt follow it.
    line = _read("/proc/stat", 512)
    if not line or not line.startswith(b"cpu "):
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = (
        int(field) / CLOCK_TICKS_PER_S for field in line.split(b"\n", 1)[0].split()[1:9]
    )
    return MachineCpu(busy_s=user + nice + system + irq + softirq, idle_s=idle + iowait, steal_s=steal)


def read_processes_started() -> int | None:
    """Reads how many processes and threads this host has started since boot."""
    text = _read("/proc/stat", 1 << 20) or b""
    at = text.find(b"\nprocesses ")
    return int(text[at + 11 :].split(None, 1)[0]) if at >= 0 else None


def _first_int(path: Path) -> int | None:
    text = _read(path, 64)
    try:
        return int(text) if text else None
    except ValueError:  # "max"
        return None


def read_group_members(folders: Iterable[Path]) -> set[int]:
    """Reads the processes in a control group, in this process's pid namespace; those of subgroups are not listed."""
    return {int(pid) for folder in folders for pid in (_read(folder / "cgroup.procs", 1 << 16) or b"").split()}


def read_cgroup(folders: Iterable[Path]) -> CgroupUsage:
    """Reads what a dedicated control group has used, dead processes included, as far as its folders report it.

    They are the group's folder in the v2 tree, or those under the v1 controllers ``cpuacct`` and ``memory``.
    """
    method: str | None = None
    cpu_seconds: float | None = None
    peak: int | None = None
    for folder in folders:
        nanoseconds = _first_int(folder / "cpuacct.usage")
        if nanoseconds is not None:
            method, cpu_seconds = "cgroup_v1", nanoseconds / 1e9
        elif method is None and (text := _read(folder / "cpu.stat")) and (at := text.find(b"usage_usec ")) >= 0:
            method, cpu_seconds = "cgroup_v2", int(text[at + 11 :].split(None, 1)[0]) / 1e6
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            peak = peak if peak is not None else _first_int(folder / name)
    return CgroupUsage(method, cpu_seconds, peak)
