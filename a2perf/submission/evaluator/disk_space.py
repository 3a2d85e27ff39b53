"""Decides who is responsible for a full disk: the participant that filled it, or the host.

The participant's claim is checked against the file system of its artifacts. The failure counts as the host's only if
the disk is really full and the participant wrote less than half of the space that was free before. Deleted but open
files are not counted, so the run is not restarted automatically in either case. Some space is reserved at the start
for the record of a run that fills the disk.
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
    """The disk space of a participant before it started.

    Attributes:
        folder: folder that it may write to.
    """

    folder: Path
    free_bytes: int
    held_bytes: int

    @classmethod
    def before(cls, folder: Path) -> DiskSpace:
        """Measures a folder."""
        return cls(folder, free_bytes(folder), _size(folder))

    def judge(self, failure: Failure) -> Failure:
        """Returns a failure of kind ``disk`` with the measured sizes, or of kind ``infrastructure``."""
        written = max(0, _size(self.folder) - self.held_bytes)
        if free_bytes(self.folder) > FULL_BYTES:
            cause = "it filled its temporary space"
        elif written >= self.free_bytes / 2:
            cause = f"it wrote {written:,} bytes and filled the disk"
        else:
            cause = f"the disk of the run is full; the participant wrote {written:,} bytes"
            return msgspec.structs.replace(
                failure, kind=FailureKind.INFRASTRUCTURE, message=f"{cause}: {failure.message}"
            )
        return msgspec.structs.replace(failure, message=f"{cause}: {failure.message}")


def _size(folder: Path) -> int:
    """Returns the disk space of the readable files in a folder, in bytes."""
    total = 0
    with contextlib.suppress(StrangerFileError):
        for entry in walk(folder, on_error=lambda error: None):
            total += entry.status.st_blocks * 512 if entry.kind is Kind.FILE else 0
    return total
