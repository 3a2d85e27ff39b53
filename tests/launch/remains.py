"""What a killed run may have left on the host: processes, mounts, control groups, files, sockets, locks."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import psutil

PATIENCE_S = 300.0
"""How long what dies with its parent may take on a loaded machine, daemons that ignore SIGTERM included."""


def processes_of(folder: Path) -> list[psutil.Process]:
    """Returns the living processes that name a folder in command line, working directory or environment."""
    found = []
    for process in psutil.process_iter():
        for read in (process.cmdline, process.cwd, lambda one=process: list(one.environ().values())):
            try:
                if str(folder) in " ".join([given] if isinstance(given := read(), str) else given):
                    if process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                        found.append(process)
                    break
            except psutil.Error:
                continue
    return found


def leftovers(folder: Path, processes: Collection[psutil.Process] = (), pids: Collection[int] = ()) -> list[str]:
    """Returns what is left of commands in ``folder`` with ``TMPDIR=folder/tmp`` beside their results.

    Args:
        processes: processes that were seen.
        pids: ids of processes that may have had control groups.
    """
    deadline = time.monotonic() + PATIENCE_S
    while (found := list(_leftovers(folder, processes, pids))) and time.monotonic() < deadline:
        time.sleep(0.25)
    return found


def _is_probe(path: Path) -> bool:
    """Returns whether a file is the one by which Python's ``tempfile`` finds out whether it may write to a folder.

    It exists for some microseconds at the start of a process, which may be killed then.
    """
    try:
        return re.fullmatch("[a-z0-9_]{8}", path.name) is not None and path.read_bytes() in (b"", b"blat")
    except OSError:  # a folder, or gone
        return not path.exists()


def _leftovers(folder: Path, processes: Collection[psutil.Process], pids: Collection[int]) -> Iterator[str]:
    for process in {*processes_of(folder), *(one for one in processes if one.is_running())}:
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                yield f"process {process.pid}: {' '.join(process.cmdline())[:160]}"
        except psutil.Error:
            continue
    if str(folder) in Path("/proc/self/mountinfo").read_text():
        yield "a mount"
    for parent, names, _ in os.walk("/sys/fs/cgroup"):  # groups of other commands may vanish during the walk
        for name in names:
            if name.startswith("a2perf-run-") and int(name.split("-")[3]) in pids:
                yield f"control group {parent}/{name}"
    yield from (f"temporary {path.name}" for path in (folder / "tmp").iterdir() if not _is_probe(path))
    inodes = {}
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            inodes[path.lstat().st_ino] = path
            if path.suffix == ".tmp" and "attic" not in path.parts:
                yield f"half-written {path.relative_to(folder)}"
            if not path.is_file() and not path.is_symlink():
                yield f"socket or pipe {path.relative_to(folder)}"
    for line in Path("/proc/locks").read_text().splitlines():
        number = int(line.split()[-3].rpartition(":")[2])
        if number in inodes:
            yield f"lock on {inodes[number].relative_to(folder)}: {line}"
    if str(folder) in Path("/proc/net/unix").read_text():
        yield "a socket"
