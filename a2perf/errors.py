"""Errors that a person can fix, told apart from bugs.

A ``UserError`` is shown without a traceback, as what was given, what is valid and how to fix it. Anything else that
escapes is a bug and keeps its traceback. Standard library only.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from a2perf.constants import ExitCode


class UserError(Exception):
    """Something the caller gave is wrong and the caller can fix it.

    Args:
        message: what was given and why it is not valid.
        hint: the command, setting or value that mends it.
    """

    exit_code: ExitCode = ExitCode.USAGE

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  hint: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.hint))


class ConfigError(UserError):
    """A configuration file or flag is missing, misspelt or mistyped."""


class MissingDependency(UserError):
    """An optional package or program is not installed; ``hint`` is the command that installs it."""


class AssetUnavailable(UserError):
    """A data file is neither in the data folder nor in the cache and could not be fetched."""


class SubmissionError(UserError):
    """A submission folder does not keep the contract (a file or function is missing, a signature is wrong)."""

    exit_code = ExitCode.PARTICIPANT_FAILED


class InfrastructureError(UserError):
    """The host failed the run (disk full, process could not be started), not the participant."""

    exit_code = ExitCode.INFRASTRUCTURE


def _rebuild(kind: type[UserError], message: str, hint: str | None) -> UserError:
    return kind(message, hint=hint)


def did_you_mean(given: str, valid: Iterable[str]) -> str:
    """Returns ``"; did you mean 'x'?"`` for the nearest valid name, or an empty string when none is near."""
    near = difflib.get_close_matches(given, list(valid), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
