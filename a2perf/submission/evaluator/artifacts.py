"""Counts what a participant left in its artifacts folder, within bounds, once its processes have ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from a2perf.records import Failure, FailureKind
from a2perf.stranger_files import BoundExceeded, Bounds, Kind, StrangerFileError, walk
from a2perf.submission.evaluator.failures import ParticipantFailure

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

    Args:
        where: call or phase to name in a failure.

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
        raise ParticipantFailure(
            Failure(kind=FailureKind.OUTPUT_LIMIT, where=where, message=f"in its artifacts, {error.message}")
        ) from error
    except StrangerFileError as error:
        message = f"its artifacts cannot be read: {error.message}"
        raise ParticipantFailure(Failure(kind=FailureKind.BAD_OUTPUT, where=where, message=message)) from error
    return Left(size, files)
