"""Whose failure a full disk is: the participant's that filled it, or the host's that had no room to begin with.

The participant's word that the disk is full is checked against the file system of its artifacts: only if that is
full in truth, and the participant's files are little of what fills it, the failure is recorded as the host's. Files
without a name are not among them, so the run is not started again by itself either way. A little room is set aside
from the start, and the record of a run whose disk is full can still be written.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from a2perf.errors import InfrastructureError
from a2perf.records import Failure, FailureKind
from a2perf.stranger_files import Kind, StrangerFileError, walk

RESERVE_BYTES = 2**20
_RESERVE = ".reserve"

FULL_BYTES = 4 * 2**20
"""A file system with less room than this is full: a failed write of a few megabytes leaves as much."""


@dataclass(frozen=True)
class DiskSpace:
    """The room there was for a participant before it started.

    Attributes:
        folder: where it may write.
        free_bytes: room on that file system then.
        held_bytes: what lay in the folder already.
    """

    folder: Path
    free_bytes: int
    held_bytes: int

    @classmethod
    def before(cls, folder: Path) -> DiskSpace:
        """Measures a folder."""
        return cls(folder, _free(folder), _size(folder))

    def judge(self, failure: Failure) -> Failure:
        """Returns a failure of kind ``disk`` with what was measured, or as the infrastructure's where it is that."""
        written = max(0, _size(self.folder) - self.held_bytes)
        if _free(self.folder) > FULL_BYTES:
            words = "it filled the temporary space that it was given"
        elif written >= self.free_bytes / 2:
            words = f"it wrote {written:,} bytes and filled the disk"
        else:
            words = f"the disk of the run is full; the participant wrote {written:,} bytes of it"
            return msgspec.structs.replace(
                failure, kind=FailureKind.INFRASTRUCTURE, message=f"{words}: {failure.message}"
            )
        return msgspec.structs.replace(failure, message=f"{words}: {failure.message}")


def require_room(folder: Path) -> None:
    """Sees to it that a run does not begin on a disk that is full already.

    Raises:
        InfrastructureError: it is.
    """
    if (free := _free(folder)) <= FULL_BYTES:
        raise InfrastructureError(
            f"no space left to run in {folder}: {free:,} bytes are free, more than {FULL_BYTES:,} are needed",
            hint="free some space or choose another --root_dir",
        )


def keep_reserve(bundle: Path) -> None:
    """Sets room aside in which the end of the run can be recorded when its participant has filled the disk."""
    path = bundle / _RESERVE
    try:
        with path.open("wb") as stream:
            os.posix_fallocate(stream.fileno(), 0, RESERVE_BYTES)
    except OSError:
        path.unlink(missing_ok=True)  # no room for it even now: then the run itself will say so


def use_reserve(bundle: Path) -> None:
    """Gives the room back."""
    (bundle / _RESERVE).unlink(missing_ok=True)


def _free(folder: Path) -> int:
    values = os.statvfs(folder)
    return values.f_bavail * values.f_frsize


def _size(folder: Path) -> int:
    """Returns the bytes that the files of a folder take on disk, as far as it can be looked at."""
    total = 0
    with contextlib.suppress(StrangerFileError):
        for entry in walk(folder, on_error=lambda error: None):
            total += entry.status.st_blocks * 512 if entry.kind is Kind.FILE else 0
    return total
