"""The published results of a competition: outcomes by run, results by entrant, ranks."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from a2perf.launch.queue_entry import QueueEntry
from a2perf.records import Record
from a2perf.stranger_files import printable


class OutcomeRecord(Record, kw_only=True):
    """The outcome of one run, as the organizer recorded it.

    Attributes:
        entrant: folder of the entrant's runs.
        bundle: path below that folder.
        state: ``"finished"`` or ``"failed"``.
    """

    entrant: str
    task: str
    seed: int
    mode: str
    bundle: str
    state: str
    kind: str | None = None
    reason: str = ""
    attempts: int = 0


class TaskStanding(Record, kw_only=True):
    """The results of an entrant on one task.

    Attributes:
        returns: mean episode return of each finished run, in the order of the seeds.
        failures: kind and reason of each failed run, including the training run.
        not_run: number of runs that did not start because their training run failed.
    """

    task: str
    held_out: bool
    returns: list[float] = msgspec.field(default_factory=list)
    failures: list[list[str]] = msgspec.field(default_factory=list)
    not_run: int = 0

    @property
    def mean(self) -> float | None:
        """Mean over the finished runs."""
        return sum(self.returns) / len(self.returns) if self.returns else None


class EntrantStanding(Record, kw_only=True):
    """The results of one entrant.

    Attributes:
        rank: rank among the entrants that finished every run on the secret tasks; None for the others.
        mean: mean over the secret tasks of the mean return; without secret tasks, that of the public one.
    """

    number: int
    name: str
    place: str
    sha256: str
    rank: int | None = None
    mean: float | None = None
    attempts: int = 0
    tasks: list[TaskStanding] = msgspec.field(default_factory=list)

    @property
    def outcome(self) -> str:
        """``"finished"``, or the kinds of its failures."""
        kinds = dict.fromkeys(kind for task in self.tasks for kind, _ in task.failures)
        return ", ".join(kinds) or "finished"


class Standing(Record, kw_only=True):
    """``results.json``: the entrants, best first."""

    schema: int = 1
    entrants: list[EntrantStanding] = msgspec.field(default_factory=list)


def ranked(entrants: Sequence[EntrantStanding]) -> list[EntrantStanding]:
    """Fills in means and ranks and returns the entrants by rank; equal means share a rank."""
    for entrant in entrants:
        decisive = [task for task in entrant.tasks if task.held_out] or entrant.tasks
        if decisive and all(task.returns and not task.failures and not task.not_run for task in decisive):
            entrant.mean = sum(sum(task.returns) / len(task.returns) for task in decisive) / len(decisive)
    means = [entrant.mean for entrant in entrants if entrant.mean is not None]
    for entrant in entrants:
        if entrant.mean is not None:
            entrant.rank = 1 + sum(other > entrant.mean for other in means)
    return sorted(entrants, key=lambda one: (one.rank is None, one.rank or 0, one.number))


def outcome_of(entry: QueueEntry) -> OutcomeRecord:
    """Returns the outcome of a run in the queue."""
    root, mode = str(entry.data["root"]), str(entry.data["mode"])
    return OutcomeRecord(
        entrant=str(entry.data["submission"]),
        task=str(entry.data["task"]),
        seed=int(entry.data["seed"]),
        mode=mode,
        bundle="/".join([*root.split("/")[-2:], mode]),
        state=entry.state.value,
        kind=entry.kind,
        reason=printable(entry.reason),
        attempts=entry.attempts,
    )
