"""Room on the disk of a bundle: whether a run may start, and a reserve in which its end can be recorded.

A participant may fill the disk; the reserve is returned before the evaluator writes the last record.
"""

from __future__ import annotations

import os
from pathlib import Path

from a2perf.errors import InfrastructureError
from a2perf.runs.layout import RESERVE

RESERVE_BYTES = 2**20

FULL_BYTES = 4 * 2**20
"""A file system with less room than this is full: a failed write of a few megabytes leaves as much."""


def free_bytes(folder: Path) -> int:
    """Returns the room that this user has on the file system of a folder."""
    values = os.statvfs(folder)
    return values.f_bavail * values.f_frsize


def require_room(folder: Path) -> None:
    """Checks that a run does not begin on a disk that is full already.

    Raises:
        InfrastructureError: it is.
    """
    if (free := free_bytes(folder)) <= FULL_BYTES:
        raise InfrastructureError(
            f"no space left to run in {folder}: {free:,} bytes are free, more than {FULL_BYTES:,} are needed",
            hint="free some space or choose another --root_dir",
        )


def keep_reserve(bundle: Path) -> None:
    """Sets room aside in which the end of the run can be recorded when its participant has filled the disk."""
    path = bundle / RESERVE
    try:
        with path.open("wb") as stream:
            os.posix_fallocate(stream.fileno(), 0, RESERVE_BYTES)
    except OSError:
        path.unlink(missing_ok=True)  # no room for it even now: the run itself will report that


def use_reserve(bundle: Path) -> None:
    """Gives the room back."""
    (bundle / RESERVE).unlink(missing_ok=True)
