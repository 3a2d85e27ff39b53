"""The one exception that carries a participant's failure to the run's record."""

from __future__ import annotations

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
