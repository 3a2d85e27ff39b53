"""The records of a queue: entries with their states, leases, and the outcomes that workers report."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from a2perf.launch.run_spec import RunSpec

INFRASTRUCTURE = "infrastructure"
_MOST_REASON = 200
PREREQUISITE = "prerequisite"
"""Kind of an entry that could not run because the one it waits for failed."""


class State(enum.Enum):
    """State of an entry. A ``lost`` entry was leased by a process that died; it may be leased again."""

    QUEUED = "queued"
    LEASED = "leased"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    LOST = "lost"


@dataclass(frozen=True)
class QueueEntry(RunSpec):
    """A run in the queue: its specification and its state.

    Attributes:
        reason: one sentence about the last change of state.
        exit_code: of a finished or failed entry, the status of its command.
        final: of a failed entry, whether only an option of the user starts it again.
        retries: number of leases that were retries after a failure of the infrastructure.
        worker: identity of the process that holds it, as text.
        started: start of the last attempt, Unix time in seconds.
    """

    state: State = State.QUEUED
    kind: str | None = None
    reason: str = ""
    exit_code: int | None = None
    final: bool = False
    attempts: int = 0
    retries: int = 0
    worker: str | None = None
    heartbeat: float | None = None
    job: str | None = None
    started: float | None = None
    ended: float | None = None

    @property
    def failure(self) -> str:
        """Kind and reason of a failed entry, as one line; the bundle and the log hold the whole reason."""
        reason = " ".join(self.reason.replace("\n  Hint:", ". Hint:").split()).rstrip(": ") or "no reason was recorded"
        return f"{self.kind}: {reason if len(reason) <= _MOST_REASON else f'{reason[: _MOST_REASON - 3]}...'}"

    @property
    def blocked(self) -> bool:
        """Whether it never ran, because the run that it needs failed."""
        return self.kind == PREREQUISITE

    def as_json(self) -> dict[str, Any]:
        """Returns the run as a JSON object."""
        log = self.command.log
        return {
            **self.data,
            "state": self.state.value,
            "kind": self.kind,
            "reason": self.reason,
            "exit_code": self.exit_code,
            "attempts": self.attempts,
            "wall_s": None if self.started is None or self.ended is None else self.ended - self.started,
            "log": None if log is None else str(log),
        }


@dataclass(frozen=True)
class Lease:
    """The right to run an entry and to report how it ended.

    Attributes:
        entry: the entry; its ``job`` is one that a lost lease had started, for ``Launcher.adopt``.
        lost: the entry as that lease left it.
    """

    entry: QueueEntry
    token: str
    lost: QueueEntry | None = None


@dataclass(frozen=True)
class AttemptOutcome:
    """How an attempt ended.

    Attributes:
        finished: whether the run is done, with success.
        kind: of a failure, its kind; ``"infrastructure"`` is tried again if it is ``repeatable``.
        repeatable: whether the code of the run cannot have caused the end.
    """

    finished: bool
    kind: str | None = None
    reason: str = ""
    exit_code: int | None = None
    repeatable: bool = True
