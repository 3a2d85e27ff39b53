"""Errors that a client of the server receives: a kind for programs, a message and a hint for people."""

from __future__ import annotations

from typing import Any, Final

from a2perf.errors import CarriedError

STATUS: Final = {
    "malformed": 400,
    "bad_request": 400,
    "unknown_type": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "unknown_task": 404,
    "unknown_session": 404,
    "method_not_allowed": 405,
    "busy": 409,
    "episode_over": 409,
    "session_expired": 410,
    "invalid_action": 422,
    "environment_failed": 500,
    "environment_crashed": 500,
    "internal": 500,
    "environment_unavailable": 503,
    "too_many_sessions": 503,
    "shutting_down": 503,
    "environment_timeout": 504,
}
"""Every kind of error with its HTTP status."""


class ServingError(CarriedError):
    """A request cannot be answered.

    Args:
        kind: a key of `STATUS`.
        message: what was given and why it is not valid.
        hint: how to fix it; "" for none.
    """

    def __init__(self, kind: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUS[self.kind]

    def record(self) -> dict[str, Any]:
        """Returns the fields that a client receives."""
        fields = {"kind": self.kind, "message": self.message}
        return {**fields, "hint": self.hint} if self.hint else fields
