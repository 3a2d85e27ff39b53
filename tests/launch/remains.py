"""What a killed run may have left on the host: processes, mounts, temporary folders, half-written files."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from tests.waiting import until


def processes_of(folder: Path) -> list[psutil.Process]:
    """Every living process that has the folder in its command line or works in it."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = any(str(folder) in word for word in process.cmdline()) or str(folder) in process.cwd()
            if ours and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def assert_nothing_remains(folder: Path, temporary: Path) -> None:
    """Nothing of what ran in ``folder`` with ``TMPDIR=temporary`` is left but its results."""
    until(lambda: not processes_of(folder))
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()
    assert list(temporary.iterdir()) == []
    assert [path for path in folder.rglob(".*.tmp") if "attic" not in path.parts] == []
