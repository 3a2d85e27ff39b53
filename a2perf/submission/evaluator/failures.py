"""The one exception that carries a participant's failure to the run's record."""

from __future__ import annotations

import sys
import traceback

from a2perf.records import Failure, FailureKind


class ParticipantFailure(Exception):
    """The participant, not a2perf and not the host, ended the run.

    Args:
        failure: what is written into the manifest.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure

    def __str__(self) -> str:
        return f"{self.failure.where}: {self.failure.message}"


def bad_output(where: str, message: str) -> ParticipantFailure:
    """Returns the failure for an answer that is not valid."""
    return ParticipantFailure(Failure(kind=FailureKind.BAD_OUTPUT, where=where, message=message))


def unreadable(where: str, error: Exception) -> ParticipantFailure:
    """Returns the failure for an answer on which reading it failed in a way that nobody foresaw.

    What a participant sends must never count as a fault of the infrastructure, which would be run again; the traceback
    goes to the evaluator's log, where it shows which check has a gap.
    """
    traceback.print_exception(error, file=sys.stderr)
    return bad_output(where, f"its answer cannot be read ({type(error).__name__})")
