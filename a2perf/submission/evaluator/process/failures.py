"""The exception that carries a participant's failure to the run's record."""

from __future__ import annotations

import errno
import sys
import traceback
from typing import Self

from a2perf.errors import UserError
from a2perf.records import Failure, FailureKind
from a2perf.system import UserInterrupt

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


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
    def of(cls, where: str, seed: int, error: BaseException) -> BaseException:
        """Returns the failure for what an environment raised, ``SystemExit`` and ``KeyboardInterrupt`` included.

        An interrupt by the user and errors that name their cause are returned as they are.

        Args:
            where: ``"reset"`` or ``"step 17"`` of the episode with the seed.
        """
        if isinstance(error, UserInterrupt | UserError | cls) or getattr(error, "errno", None) in DISK_FULL:
            return error
        failure = cls(f"in {where} of the episode with seed {seed}: {type(error).__name__}: {error}".rstrip(": "))
        failure.__cause__ = error
        return failure


def unreadable(where: str, error: Exception) -> ParticipantFailure:
    """Returns the failure for an answer that raised an unexpected exception in the evaluator.

    It must not count as an infrastructure failure: those are repeated, and the participant could cause a second try.
    The traceback goes to the evaluator's log, because it shows a gap in a check.
    """
    traceback.print_exception(error, file=sys.stderr)
    return ParticipantFailure.of(FailureKind.BAD_OUTPUT, where, f"its answer cannot be read ({type(error).__name__})")
