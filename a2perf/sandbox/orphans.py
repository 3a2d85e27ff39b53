"""Cleans up after a guard that was killed: processes of its tree, and the tree's temporary folders.

Members of the tree's control group are always found. Without a control group processes are recognised by the temporary
home in their environment; a process that changed ``HOME`` in ``exec`` is missed.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from a2perf.system import LINUX

PATIENCE_S = 5.0


def clear(cgroups: Iterable[Path], temporary: Sequence[Path] = ()) -> None:
    """Kills every process of a tree that has lost its guard, and deletes its temporary folders.

    A process that was between ``fork`` and the parent-death signal's set-up does not end with its guard.

    Args:
        cgroups: folders of the control group that holds exactly this tree.
    """
    folders = tuple(cgroups)
    deadline = time.monotonic() + PATIENCE_S
    while (found := _members(folders) | _marked(temporary)) and time.monotonic() < deadline:
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        time.sleep(0.005)
    for folder in temporary:
        shutil.rmtree(folder, ignore_errors=True)


def _members(cgroups: Iterable[Path]) -> set[int]:
    found: set[int] = set()
    for folder in cgroups:
        try:
            found.update(map(int, (folder / "cgroup.procs").read_text().split()))
        except OSError:
            continue
    # The kernel shows a process outside of this PID namespace as 0, and kill(0) would hit our own group.
    return found - {0, os.getpid()}


def _marked(temporary: Sequence[Path]) -> set[int]:
    marks = [f"HOME={folder}".encode() for folder in temporary]
    found: set[int] = set()
    for entry in os.listdir("/proc") if marks and LINUX else ():
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            variables = Path("/proc", entry, "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended, or it belongs to another user
        if any(mark in variables for mark in marks):
            found.add(int(entry))
    return found
