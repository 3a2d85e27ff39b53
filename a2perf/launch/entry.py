"""What a queue holds: entries and their states, leases, and the outcomes that workers report."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from a2perf.launch.interface import RunCommand

INFRASTRUCTURE = "infrastructure"
PREREQUISITE = "prerequisite"
"""Kind of an entry that could not run because the one it waits for failed."""


class State(enum.Enum):
    """Where an entry stands. ``lost`` was leased by a process that died; it is handed out again."""

    QUEUED = "queued"
    LEASED = "leased"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    LOST = "lost"


@dataclass(frozen=True)
class Entry:
    """One run in the queue.

    Attributes:
        key: what it is; the same key never counts twice.
        command: what a launcher executes.
        data: what the caller wants back with it, fit for JSON.
        after: key of the entry that has to be finished first.
        state: where it stands.
        kind: of a failed entry, the kind of the failure.
        reason: one sentence about the last change of state.
        exit_code: of a finished or failed entry, the status of its command.
        final: of a failed entry, whether only an explicit wish starts it again.
        attempts: how often it was leased.
        retries: how many of these were repeats after a failure of the infrastructure.
        worker: the process that holds it, ``Owner`` as text.
        heartbeat: when that process last said that it lives, Unix time in seconds.
        job: identity of the launcher's job.
        started: begin of the last attempt, Unix time in seconds.
        ended: its end.
    """

    key: str
    command: RunCommand
    data: Mapping[str, Any] = field(default_factory=dict)
    after: str | None = None
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


@dataclass(frozen=True)
class Lease:
    """The right to run an entry and to say how it ended.

    Attributes:
        entry: the entry as it was handed out.
        token: proves the right.
        left_job: job that an earlier, lost lease had started, for ``Launcher.adopt``.
        lost: the entry as that lease left it.
    """

    entry: Entry
    token: str
    left_job: str | None = None
    lost: Entry | None = None


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended.

    Attributes:
        finished: whether the run is done, with success.
        kind: of a failure, its kind; ``"infrastructure"`` is tried again if it is ``repeatable``.
        reason: one sentence.
        exit_code: status of the command, where it has one.
        repeatable: whether nothing that the run executes can have brought the end about.
    """

    finished: bool
    kind: str | None = None
    reason: str = ""
    exit_code: int | None = None
    repeatable: bool = True
