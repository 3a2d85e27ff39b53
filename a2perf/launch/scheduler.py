"""The loop that keeps workers busy with a queue: lease, start, watch, say how it ended, again.

It runs in the caller's thread and waits on the launcher, so ten thousand queued runs cost nothing while few execute.
Dying at any instruction is allowed for: what is not yet said to the queue is found by the next process that reaps.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from a2perf.errors import InfrastructureError, UserError
from a2perf.fault_point import fault_point
from a2perf.launch.interface import ExitStatus, Job, Launcher
from a2perf.launch.outcomes import classify, recorded
from a2perf.launch.queue import Queue
from a2perf.launch.queue_entry import INFRASTRUCTURE, AttemptOutcome, Lease, QueueEntry, State

HEARTBEAT_S = 10.0
"""Period of the heartbeat of this process's leases, and of the search for lost ones."""

WAIT_S = 0.5
"""Longest time between two looks at the queue and at the caller's wish to stop."""

STOP_GRACE_S = 30.0
"""How long cancelled jobs may take to end before the launcher is closed over them."""


class EventKind(enum.Enum):
    """What happened to a run; ``TICK`` comes with every turn of the loop."""

    STARTED = "started"
    FINISHED = "finished"
    FAILED = "failed"
    RETRY = "retry"
    LOST = "lost"
    RELEASED = "released"
    TICK = "tick"


@dataclass(frozen=True)
class RunEvent:
    """Something that the caller may show.

    Attributes:
        what: the kind of event; ``TICK`` comes with every turn of the loop and has no entry.
        entry: the entry as it was leased, with ``state``, ``kind``, ``reason`` and ``exit_code`` of the event.
        counts: how many entries are in each state; filled for ``TICK`` only when something changed.
        running: the entries that this process executes, with the monotonic clock at their start.
        wall_s: how long the attempt took.
    """

    what: EventKind
    entry: QueueEntry | None = None
    counts: Mapping[State, int] = field(default_factory=dict)
    running: Mapping[str, tuple[QueueEntry, float]] = field(default_factory=dict)
    wall_s: float = 0.0


@dataclass(frozen=True)
class Summary:
    """What a drive came to.

    Attributes:
        counts: how many entries are in each state at the end.
        failed: how many entries failed, by kind.
        wall_s: wall time of the drive.
        attempts: how many jobs this drive started.
        stopped: the caller's wish ended it before everything was settled.
    """

    counts: Mapping[State, int]
    failed: Mapping[str, int]
    wall_s: float
    attempts: int
    stopped: bool

    @property
    def exit_code(self) -> int:
        """0 all finished, 1 some run failed, 3 the infrastructure failed one, 130 stopped before the end."""
        if self.stopped:
            return 130
        if self.failed.get(INFRASTRUCTURE):
            return 3
        return 1 if self.failed else 0


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
    heartbeat_s: float = HEARTBEAT_S,
) -> Summary:
    """Executes what is in the queue until every entry is settled.

    Args:
        queue: where the entries are; other processes may drive it at the same time.
        launcher: where they execute; closed when the drive ends early, else left open.
        workers: how many execute at the same time, at least 1.
        on_event: called with every event, in this thread.
        stop: asked at every turn; once true, jobs are cancelled, their entries released, and the drive returns.
        heartbeat_s: period of heartbeats.

    Returns:
        What it came to. Entries that another process holds are waited for.
    """
    loop = _Loop(queue, launcher, workers, on_event or (lambda event: None))
    started = time.monotonic()
    queue.reap()
    loop.tick()  # the counts, before anything starts
    due = started + heartbeat_s
    while not (stopped := stop()):
        loop.collect()
        if stopped := stop():  # what has just ended may have settled what the caller wants to know
            break
        loop.fill()
        if not loop.running and not queue.unsettled():
            break
        if time.monotonic() >= due:
            due = time.monotonic() + heartbeat_s
            loop.beat()
        loop.tick()
        pause = queue.next_try_s() if len(loop.running) < workers else None
        launcher.wait(min(WAIT_S, max(0.01, pause)) if pause is not None else WAIT_S)
    if stopped:
        loop.stop()
    loop.tick()
    counts = queue.counts()
    return Summary(
        counts=counts,
        failed=queue.failures(),
        wall_s=time.monotonic() - started,
        attempts=loop.attempts,
        stopped=stopped and counts[State.FINISHED] + counts[State.FAILED] < sum(counts.values()),
    )


class _Loop:
    """What one drive holds."""

    def __init__(
        self,
        queue: Queue,
        launcher: Launcher,
        workers: int,
        on_event: Callable[[RunEvent], None],
    ) -> None:
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
                job = self._launcher.adopt(lease.left_job) if lease.left_job else None
                if job is None and lease.lost is not None and (outcome := recorded(lease.lost)) is not None:
                    self._settle(lease, outcome, 0.0)
                    continue
                job = job or self._launcher.start(lease.entry.command)
            except InfrastructureError as error:
                self._settle(lease, AttemptOutcome(False, INFRASTRUCTURE, error.message), 0.0)
                continue
            except UserError as error:
                self._settle(lease, AttemptOutcome(False, "configuration", str(error), int(error.exit_code)), 0.0)
                continue
            fault_point("launcher: started")
            self.attempts += 1
            self.running[lease.token] = _Running(lease, job, time.monotonic())
            if self._queue.running(lease, job.identity):
                self._tell(EventKind.STARTED, lease.entry, State.RUNNING)
            else:
                job.cancel()
            fault_point("launcher: running")

    def collect(self) -> None:
        """Says to the queue what has ended."""
        for token, item in list(self.running.items()):
            ended = item.job.poll()
            if ended is not None:
                del self.running[token]
                fault_point("launcher: ended")
                outcome = classify(item.lease.entry, ended)
                self._settle(item.lease, outcome, time.monotonic() - item.started)
                fault_point("launcher: settled")

    def beat(self) -> None:
        """Sends the heartbeat, ends jobs whose lease was lost, and reaps what others lost."""
        held = self._queue.heartbeat()
        for token, item in self.running.items():
            if token not in held:
                item.job.cancel()
        self._changed |= bool(self._queue.reap())

    def tick(self) -> None:
        """Tells that the loop turns."""
        running = {token: (item.lease.entry, item.started) for token, item in self.running.items()}
        self._on_event(RunEvent(EventKind.TICK, counts=self._queue.counts() if self._changed else {}, running=running))
        self._changed = False

    def stop(self) -> None:
        """Cancels every job, waits for their ends, and gives back the entries that did not get to one."""
        for item in self.running.values():
            item.job.cancel()
        deadline = time.monotonic() + STOP_GRACE_S
        while self.running and time.monotonic() < deadline:
            for token, item in list(self.running.items()):
                ended = item.job.poll()
                if ended is not None:
                    del self.running[token]
                    self._settle_stopped(item, ended)
            self._launcher.wait(0.2)
            self.tick()
        self._launcher.close()
        for item in self.running.values():
            self._queue.release(item.lease)
        self.running.clear()

    def _settle_stopped(self, item: _Running, ended: ExitStatus) -> None:
        """A run that came to its end all the same counts; one that the stop cut off goes back."""
        outcome = classify(item.lease.entry, ended)
        if outcome.finished or (outcome.kind != INFRASTRUCTURE and ended.exit_code == 1):
            self._settle(item.lease, outcome, time.monotonic() - item.started)
        else:
            self._queue.release(item.lease)
            self._tell(EventKind.RELEASED, item.lease.entry, State.QUEUED, "interrupted")
        self._changed = True

    def _settle(self, lease: Lease, outcome: AttemptOutcome, wall_s: float) -> None:
        self._changed = True
        state = self._queue.finish(lease, outcome)
        what = {State.FINISHED: EventKind.FINISHED, State.FAILED: EventKind.FAILED, State.QUEUED: EventKind.RETRY}
        entry = replace(lease.entry, kind=outcome.kind, exit_code=outcome.exit_code)
        if state is None:
            self._tell(EventKind.LOST, entry, State.LOST, "another worker took it over", wall_s)
        else:
            self._tell(what[state], entry, state, outcome.reason, wall_s)

    def _tell(self, what: EventKind, entry: QueueEntry, state: State, reason: str = "", wall_s: float = 0.0) -> None:
        self._on_event(RunEvent(what, replace(entry, state=state, reason=reason), wall_s=wall_s))
