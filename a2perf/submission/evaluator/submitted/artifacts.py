"""What a participant wrote: its artifacts, counted within bounds after its end, and who is responsible for a full disk.

The participant's claim of a full disk is checked against the file system of its artifacts. The failure counts as the
host's only if the disk is really full and the participant wrote less than half of the space that was free before.
Deleted but open files are not counted, so the run is not restarted automatically in either case. Some space is reserved
at the start for the record of a run that fills the disk.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from a2perf.records import Failure, FailureKind
from a2perf.runs.bundles.disk_reserve import FULL_BYTES, free_bytes
from a2perf.stranger_files import BoundExceeded, Bounds, Kind, StrangerFileError, walk
from a2perf.submission.evaluator.process.failures import ParticipantFailure

MOST_NAMES = 100_000
MOST_DEPTH = 100
MOST_BYTES = 2**40
"""Largest apparent size without ``artifact_limit_bytes``: every byte is hashed, even the holes of a sparse file."""


@dataclass(frozen=True)
class Left:
    """The regular files of an artifacts folder."""

    size_bytes: int
    files: int


def count(folder: Path, where: str, limit_bytes: int | None) -> Left:
    """Counts the regular files in an artifacts folder; links are not followed.

    Raises:
        ParticipantFailure: of kind ``output_limit`` if a bound is exceeded, ``bad_output`` if the folder cannot be
            read.
    """
    size = files = 0
    try:
        for entry in walk(folder, Bounds(MOST_NAMES, MOST_DEPTH, MOST_BYTES if limit_bytes is None else limit_bytes)):
            if entry.kind is Kind.FILE:
                size, files = size + entry.status.st_size, files + 1
    except BoundExceeded as error:
        raise ParticipantFailure.of(FailureKind.OUTPUT_LIMIT, where, f"in its artifacts, {error.message}") from error
    except StrangerFileError as error:
        message = f"its artifacts cannot be read: {error.message}"
        raise ParticipantFailure.of(FailureKind.BAD_OUTPUT, where, message) from error
    return Left(size, files)


@dataclass(frozen=True)
class DiskSpace:
    """The disk space of a participant before it started."""

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
