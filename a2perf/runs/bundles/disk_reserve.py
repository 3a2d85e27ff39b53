"""Disk space of a bundle: a check before a run starts, and a reserve for the record of its end.

A participant may fill the disk. The evaluator frees the reserve before it writes the last record.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from a2perf.errors import InfrastructureError
from a2perf.runs.bundles.layout import RESERVE
from a2perf.system import reserve

RESERVE_BYTES = 2**20

FULL_BYTES = 4 * 2**20
"""A file system with less free space counts as full: after a failed write of a few megabytes this much remains."""


def free_bytes(folder: Path) -> int:
    """Returns the space that this user may still use on the file system of a folder, in bytes."""
    return shutil.disk_usage(folder).free


def require_room(folder: Path) -> None:
    """Checks that a run does not start on a full disk.

    Raises:
        InfrastructureError: the disk is full.
    """
    if (free := free_bytes(folder)) <= FULL_BYTES:
        raise InfrastructureError(
            f"no space left to run in {folder}: {free:,} bytes are free, more than {FULL_BYTES:,} are needed",
            hint="free some space or choose another --root_dir",
        )


def keep_reserve(bundle: Path) -> None:
    """Reserves space to record the end of the run even if its participant fills the disk."""
    path = bundle / RESERVE
    try:
        with path.open("wb") as stream:
            # Not truncate: a sparse file would reserve no blocks.
            reserve(stream.fileno(), RESERVE_BYTES)
    except OSError:
        path.unlink(missing_ok=True)  # the disk is already full; the run itself reports that


def use_reserve(bundle: Path) -> None:
    """Frees the reserve."""
    (bundle / RESERVE).unlink(missing_ok=True)
