"""Whose failure a full disk is: the participant's that filled it, or the host's that had no room to begin with.

The participant's word that the disk is full is checked against the file system of its artifacts: only if that is
full in truth, and the participant's files are little of what fills it, the failure is recorded as the host's. Files
without a name are not among them, so the run is not started again by itself either way. A little room is set aside
from the start, and the record of a run whose disk is full can still be written.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from a2perf.records import Failure, FailureKind
from a2perf.runs.disk_reserve import FULL_BYTES, free_bytes
from a2perf.stranger_files import Kind, StrangerFileError, walk


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
        return cls(folder, free_bytes(folder), _size(folder))

    def judge(self, failure: Failure) -> Failure:
        """Returns a failure of kind ``disk`` with what was measured, or as the infrastructure's where it is that."""
        written = max(0, _size(self.folder) - self.held_bytes)
        if free_bytes(self.folder) > FULL_BYTES:
            words = "it filled the temporary space that it was given"
        elif written >= self.free_bytes / 2:
            words = f"it wrote {written:,} bytes and filled the disk"
        else:
            words = f"the disk of the run is full; the participant wrote {written:,} bytes of it"
            return msgspec.structs.replace(
                failure, kind=FailureKind.INFRASTRUCTURE, message=f"{words}: {failure.message}"
            )
        return msgspec.structs.replace(failure, message=f"{words}: {failure.message}")


def _size(folder: Path) -> int:
    """Returns the bytes that the files of a folder take on disk, as far as it can be looked at."""
    total = 0
    with contextlib.suppress(StrangerFileError):
        for entry in walk(folder, on_error=lambda error: None):
            total += entry.status.st_blocks * 512 if entry.kind is Kind.FILE else 0
    return total
