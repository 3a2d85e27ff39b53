"""The scheduling loop: leases runs from a queue, starts them with a launcher, and reports how they ended.

It runs in the caller's thread and waits on the launcher, so its cost depends on the running runs and not on the queued
ones. It may die at any instruction: the next process that reaps the queue finds every lease that was not settled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from a2perf.errors import InfrastructureError, UserError
from a2perf.fault_point import fault_point
from a2perf.launch.interface import Job, Launcher
from a2perf.launch.outcomes import classify, recorded
from a2perf.launch.queue import Queue
from a2perf.launch.queue_entry import INFRASTRUCTURE, AttemptOutcome, Lease, QueueEntry, State
from a2perf.launch.run_spec import RunCommand
from a2perf.runs.bundles.attempts import REASON_VARIABLE
from a2perf.sandbox.limits import PARALLEL_RUNS_VARIABLE

HEARTBEAT_S = 10.0
"""Period of the heartbeat of this process's leases, and of the search for lost ones."""

WAIT_S = 0.5
"""Longest time between two checks of the queue and of ``stop``, in seconds."""

STOP_GRACE_S = 30.0
"""How long cancelled jobs may take to end before the launcher kills them, in seconds."""


@dataclass(frozen=True)
class RunEvent:
    """A change of a run's state, or a turn of the loop.

    Attributes:
        entry: the entry as it was leased, with ``state``, ``kind``, ``reason`` and ``exit_code`` of the event: running,
            finished, failed, lost, or queued again, with a kind after a failure; ``None`` for a turn of the loop.
        counts: how many entries are in each state; only for a turn of the loop after a change.
        running: the entries that this process executes, with the monotonic clock at their start.
    """

    entry: QueueEntry | None = None
    counts: Mapping[State, int] = field(default_factory=dict)
    running: Mapping[str, tuple[QueueEntry, float]] = field(default_factory=dict)
    wall_s: float = 0.0

    @property
    def state(self) -> State | None:
        """The new state of the entry."""
        return None if self.entry is None else self.entry.state


@dataclass(frozen=True)
class ExperimentResult:
    """The result of a list of runs.

    Attributes:
        failed: how many entries failed, by kind.
        stopped: whether the caller stopped it before every entry was settled.
        entries: the runs at the end; ``Conductor.run`` adds them.
    """

    counts: Mapping[State, int]
    failed: Mapping[str, int]
    wall_s: float
    attempts: int
    stopped: bool
    entries: Sequence[QueueEntry] = ()

    @property
    def exit_code(self) -> int:
        """0 all finished, 1 some run failed, 3 the infrastructure failed one, 130 stopped before the end."""
        if self.stopped:
            return 130
        if self.failed.get(INFRASTRUCTURE):
            return 3
        return 1 if self.failed else 0

    def as_json(self, root: Path) -> dict[str, Any]:
        """Returns the result as a JSON object; ``root`` is the experiment's folder."""
        return {
            "root": str(root),
            "exit_code": self.exit_code,
            "counts": {state.value: count for state, count in self.counts.items()},
            "failed": dict(self.failed),
            "wall_s": self.wall_s,
            "jobs_started": self.attempts,
            "runs": [entry.as_json() for entry in self.entries],
        }


@dataclass
class _Running:
    lease: Lease
    job: Job
    started: float


def drive(
    queue: Queue,
    launcher: Launcher,
    workers: int,
    *,
    on_event: Callable[[RunEvent], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> ExperimentResult:
    """Executes the entries of a queue until every one is settled.

    Args:
        queue: where the entries are; other processes may drive it at the same time.
        launcher: where they execute; closed if the drive is stopped, otherwise left open.
        workers: how many execute at the same time, at least 1.
        stop: checked in every turn; once true, jobs are cancelled, their entries released, and the drive returns.
    """
    loop = _Loop(queue, launcher, workers, on_event or (lambda event: None))
    started = time.monotonic()
    queue.reap()
    loop.tick()  # the counts, before anything starts
    due = started + HEARTBEAT_S
    while not (stopped := stop()):
        loop.collect()
        if stopped := stop():  # a run that has just ended may have answered the caller's question
            break
        loop.fill()
        if not loop.running and not queue.unsettled():
            break
        if time.monotonic() >= due:
            due = time.monotonic() + HEARTBEAT_S
            loop.beat()
        loop.tick()
        # With every worker busy an entry that is due could not start anyway.
        pause = queue.next_try_s() if len(loop.running) < workers else None
        # Never 0: an entry that is due at once must not make this loop spin.
        launcher.wait(min(WAIT_S, max(0.01, pause)) if pause is not None else WAIT_S)
    if stopped:
        loop.stop()
    loop.tick()
    counts = queue.counts()
    return ExperimentResult(
        counts=counts,
        failed=queue.failures(),
        wall_s=time.monotonic() - started,
        attempts=loop.attempts,
        # A stop after the last entry was settled has cut nothing short.
        stopped=stopped and counts[State.FINISHED] + counts[State.FAILED] < sum(counts.values()),
    )


class _Loop:
    """State of one drive."""

    def __init__(self, queue: Queue, launcher: Launcher, workers: int, on_event: Callable[[RunEvent], None]) -> None:
        self.running: dict[str, _Running] = {}
        self.attempts = 0
        self._queue = queue
        self._launcher = launcher
        self._workers = max(1, workers)
        self._on_event = on_event
        self._changed = True

    def fill(self) -> None:
        """Starts jobs until every worker is busy or nothing is ready."""
        while len(self.running) < self._workers and (lease := self._queue.lease()) is not None:
            self._changed = True
            fault_point("launcher: leased")
            try:
                # A dead worker's job may still run: take it over, or two jobs would write the same bundle.
                job = self._launcher.adopt(lease.entry.job) if lease.entry.job else None
                # It may also have ended with a recorded failure; running it again would discard that result.
                if job is None and lease.lost is not None and (outcome := recorded(lease.lost)) is not None:
                    self._settle(lease, outcome, 0.0)
                    continue
                job = job or self._launcher.start(self._informed(lease.entry.command))
            except InfrastructureError as error:
                self._settle(lease, AttemptOutcome(False, INFRASTRUCTURE, error.message), 0.0)
                continue
            except UserError as error:
                self._settle(lease, AttemptOutcome(False, "configuration", str(error), int(error.exit_code)), 0.0)
                continue
            fault_point("launcher: started")
            self.attempts += 1
            # Before the queue is asked: if the lease was lost, the cancelled job still has to be collected.
            self.running[lease.token] = _Running(lease, job, time.monotonic())
            if self._queue.running(lease, job.identity):
                self._tell(lease.entry, State.RUNNING)
            else:
                job.cancel()  # the lease was lost while the job started: another worker has the run
            fault_point("launcher: running")

    def _informed(self, command: RunCommand) -> RunCommand:
        """Tells a run that the queue decided about its start, and how many others share this host's memory."""
        known = {REASON_VARIABLE: "", **command.env}
        if getattr(self._launcher, "shares_host", False):
            known[PARALLEL_RUNS_VARIABLE] = str(self._workers)
        return replace(command, env=known)

    def collect(self) -> None:
        """Reports ended jobs to the queue."""
        for token, item in list(self.running.items()):
            ended = item.job.poll()
            if ended is not None:
                del self.running[token]
                fault_point("launcher: ended")
                outcome = classify(item.lease.entry, ended)
                self._settle(item.lease, outcome, time.monotonic() - item.started)
                fault_point("launcher: settled")

    def beat(self) -> None:
        """Sends the heartbeat, ends jobs that have lost their lease, and reaps the leases of dead processes."""
        held = self._queue.heartbeat()
        for token, item in self.running.items():
            if token not in held:
                item.job.cancel()
        self._changed |= bool(self._queue.reap())

    def tick(self) -> None:
        running = {token: (item.lease.entry, item.started) for token, item in self.running.items()}
        # The time for counting grows with the queue, so unchanged counts are not read again.
        self._on_event(RunEvent(counts=self._queue.counts() if self._changed else {}, running=running))
        self._changed = False

    def stop(self) -> None:
        """Cancels every job, waits for their ends, and releases the entries of interrupted runs."""
        for item in self.running.values():
            item.job.cancel()
        deadline = time.monotonic() + STOP_GRACE_S
        while self.running and time.monotonic() < deadline:
            for token, item in list(self.running.items()):
                ended = item.job.poll()
                if ended is not None:
                    del self.running[token]
                    outcome = classify(item.lease.entry, ended)
                    if outcome.finished or (outcome.kind != INFRASTRUCTURE and ended.exit_code == 1):
                        self._settle(item.lease, outcome, time.monotonic() - item.started)
                    else:
                        self._queue.release(item.lease)
                        self._tell(item.lease.entry, State.QUEUED, "interrupted")
                    self._changed = True
            self._launcher.wait(0.2)
            self.tick()
        self._launcher.close()  # before the release: a released run may start elsewhere at once
        for item in self.running.values():
            self._queue.release(item.lease)
        self.running.clear()

    def _settle(self, lease: Lease, outcome: AttemptOutcome, wall_s: float) -> None:
        self._changed = True
        state = self._queue.finish(lease, outcome)
        entry = replace(lease.entry, kind=outcome.kind, exit_code=outcome.exit_code)
        if state is None:
            self._tell(entry, State.LOST, "another worker took it over", wall_s)
        else:
            self._tell(entry, state, outcome.reason, wall_s)

    def _tell(self, entry: QueueEntry, state: State, reason: str = "", wall_s: float = 0.0) -> None:
        self._on_event(RunEvent(replace(entry, state=state, reason=reason), wall_s=wall_s))
