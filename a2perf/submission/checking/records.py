"""The messages between a caller and the process of a check."""

from __future__ import annotations

from typing import Any

import msgspec

from a2perf.errors import with_hint


class CheckFinding(msgspec.Struct, frozen=True):
    """One problem of a submission.

    Attributes:
        where: the file, or the function.
        message: the problem, with the participant's traceback if there is one.
    """

    where: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        return with_hint(f"{self.where}: {self.message}", self.hint)


class CheckRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to check.

    Attributes:
        folder: the submission, absolute.
        task: the fields of the ``RunTask`` of the trial; by default the one in the gin files, otherwise the first that
            works on this machine.
        train_limit_s: wall-clock limit of the trial training run, s.
        artifacts: folder to load instead of training, absolute.
    """

    folder: str
    task: tuple[str, str, str, dict[str, Any]] | None = None
    steps: int = 20
    train_limit_s: float = 30.0
    artifacts: str | None = None
    participant_args: dict[str, str] = {}
    options: dict[str, Any] = {}


class CheckReply(msgspec.Struct, frozen=True):
    """The result of a check.

    Attributes:
        sandbox: level of isolation of the trial.
        findings: the problems; empty if there are none.
        refusal: if the check could not start, the name of the exception in ``a2perf.errors``, its message and its hint.
    """

    env_id: str = ""
    sandbox: str = ""
    findings: tuple[CheckFinding, ...] = ()
    refusal: tuple[str, str, str | None] | None = None
