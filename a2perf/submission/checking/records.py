"""The messages between a caller and the process of a check."""

from __future__ import annotations

from typing import Any

import msgspec


class CheckFinding(msgspec.Struct, frozen=True):
    """One problem of a submission.

    Attributes:
        where: the file and line, or the function.
        message: the problem, with the participant's traceback if there is one.
        hint: how to fix it.
    """

    where: str
    message: str
    hint: str | None = None


class TrialTask(msgspec.Struct, frozen=True):
    """The task of a trial.

    Attributes:
        domain: name of the domain.
        name: name of the task.
        env_id: registered id.
        env_kwargs: arguments of the environment.
    """

    domain: str
    name: str
    env_id: str
    env_kwargs: dict[str, Any]


class CheckRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to check.

    Attributes:
        folder: the submission, absolute.
        task: task of the trial; by default the one in the gin files, otherwise the first that works on this machine.
        steps: environment steps of the trial.
        train_limit_s: wall-clock limit of the trial training run, s.
        artifacts: folder to load instead of training, absolute.
        participant_args: arguments of ``train()`` and ``load_policy()``.
        options: options of the run by name.
    """

    folder: str
    task: TrialTask | None = None
    steps: int = 20
    train_limit_s: float = 30.0
    artifacts: str | None = None
    participant_args: dict[str, str] = {}
    options: dict[str, Any] = {}


class CheckOutcome(msgspec.Struct, frozen=True):
    """The result of a check.

    Attributes:
        env_id: environment of the trial.
        sandbox: level of isolation of the trial.
        findings: the problems; empty if there are none.
    """

    env_id: str
    sandbox: str
    findings: list[CheckFinding]


class CheckReply(msgspec.Struct, frozen=True):
    """What the process of a check returns.

    Attributes:
        outcome: the result; None if the check could not start.
        refusal: then the name of the exception in ``a2perf.errors``, its message and its hint.
    """

    outcome: CheckOutcome | None = None
    refusal: tuple[str, str, str | None] | None = None
