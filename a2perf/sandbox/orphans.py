"""What a guard that was killed itself left behind: processes without a guard, and the tree's temporary folders.

Members of the tree's control group are found whatever they did; where there is none, they are known by the temporary
home in their environment, which a process that was given another one by ``exec`` no longer has.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

PATIENCE_S = 5.0


def clear(cgroups: Iterable[Path], temporary: Sequence[Path]) -> None:
    """Kills every process of a tree whose guard is gone, and deletes its temporary folders.

    Args:
        cgroups: folders of the control group that holds the tree and nothing else.
        temporary: folders that were made for this tree alone.
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
    return found - {0, os.getpid()}


def _marked(temporary: Sequence[Path]) -> set[int]:
    marks = [f"HOME={folder}".encode() for folder in temporary]
    found: set[int] = set()
    for entry in os.listdir("/proc") if marks else ():
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            variables = Path("/proc", entry, "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended, or it is another user's
        if any(mark in variables for mark in marks):
            found.add(int(entry))
    return found
