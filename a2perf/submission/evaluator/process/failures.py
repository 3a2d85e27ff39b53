"""The exception that carries a participant's failure to the run's record."""

from __future__ import annotations

import sys
import traceback
from typing import Self

from a2perf.records import Failure, FailureKind


class ParticipantFailure(Exception):
    """The participant, not a2perf and not the host, ended the run."""

    def __init__(self, failure: Failure | ParticipantFailure) -> None:
        self.failure: Failure = failure.failure if isinstance(failure, ParticipantFailure) else failure
        super().__init__(self.failure)

    @classmethod
    def of(cls, kind: FailureKind, where: str, message: str) -> Self:
        """Returns the failure of a call or a phase."""
        return cls(Failure(kind=kind, where=where, message=message))

    def __str__(self) -> str:
        return f"{self.failure.where}: {self.failure.message}"


class EnvironmentFailure(Exception):
    """The environment ended the run: nobody blames the participant."""

    @classmethod
    def of(cls, where: str, seed: int, error: Exception) -> EnvironmentFailure:
        """Returns the failure of an environment in ``"reset"`` or ``"step 17"`` of the episode with a seed."""
        text = f"{type(error).__name__}: {error}".rstrip(": ")
        return cls(f"in {where} of the episode with seed {seed}: {text}")


def unreadable(where: str, error: Exception) -> ParticipantFailure:
    """Returns the failure for an answer that raised an unexpected exception in the evaluator.

    It must not count as an infrastructure failure: those are repeated, and the participant could cause a second try.
    The traceback goes to the evaluator's log, because it shows a gap in a check.
    """
    traceback.print_exception(error, file=sys.stderr)
    return ParticipantFailure.of(FailureKind.BAD_OUTPUT, where, f"its answer cannot be read ({type(error).__name__})")
