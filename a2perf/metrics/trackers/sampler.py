"""One thread, one loop: samples a participant's process tree and what it costs, from the evaluator's process.

``prepare`` opens counters and begins the idle baseline while nothing runs yet, ``attach`` names the process, ``mark``
names the phase of the run, ``stop`` takes a last sample and returns the report. None of them waits for a measurement:
counters are opened in the thread, the baseline runs while the caller continues.
The first samples are taken at short intervals: even a run of half a second then has a curve.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from a2perf.metrics.trackers import procfs
from a2perf.metrics.trackers.emissions import EmissionsSettings
from a2perf.metrics.trackers.power_domains import POWERCAP
from a2perf.metrics.trackers.process_tree import TreeSample, TreeSum, open_tree, started_ago_s
from a2perf.metrics.trackers.recorder import Recorder
from a2perf.metrics.trackers.tick import Tick, Tracker, installed_trackers
from a2perf.runs.tracking_record import TrackerFailure, TrackingReport

FIRST_SAMPLES_S = (0.02, 0.1, 0.25, 0.5)
FIRST_THOROUGH_S = 0.5
THOROUGH_INTERVAL_S = 10.0
# Reading the proportional set size may take at most this share of the time.
THOROUGH_SHARE = 0.002
STOP_TIMEOUT_S = 3.0
# A process older than this at ``attach`` has a past that does not belong to the run.
MAX_SPAWN_S = 1.0
FASTEST_S = 0.009
"""A little less than 10 ms: readings that come late must still be 100 per second."""
MOST_OF_A_CORE = 0.004
"""Share of one core that the readings of one source may take."""
_SLACK_S = 0.002
"""Sources that are due within this time are read together."""


class Sampler:
    """Samples one process tree.

    Args:
        directory: where ``<mode>_emissions.csv`` and ``system_trace.csv`` go; created. ``None`` writes no files.
        mode: ``"train"``, ``"inference"`` or ``"generalization"``; names the emissions file.
        interval_s: time between samples; shorter when ``settings.measure_power_secs`` is.
        settings: what the gin file says about emissions; ``None`` takes the defaults.
        with_codecarbon: whether codecarbon may give the outputs that the settings ask it for.
        own_process: whether the tree is that of this process, which has been working before: its past does not count,
            and its first moments are not taken for idle.
        idle: whether the time before ``attach`` may be taken for idle.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        mode: str = "train",
        interval_s: float = 1.0,
        settings: EmissionsSettings | None = None,
        trackers: Sequence[Tracker] = (),
        with_codecarbon: bool = True,
        own_process: bool = False,
        idle: bool = True,
        powercap: Path = POWERCAP,
    ) -> None:
        settings = settings if settings is not None else EmissionsSettings()
        self._tree: TreeSum | None = None
        self._report_interval_s = settings.measure_power_secs or interval_s
        self._interval_s = min(interval_s, self._report_interval_s)
        installed, self._failures = installed_trackers()
        self._recorder = Recorder(
            directory,
            mode=mode,
            settings=settings,
            with_codecarbon=with_codecarbon,
            columns=tuple(column for tracker in installed for column in tracker.columns),
            own_process=own_process,
            idle=idle,
            powercap=powercap,
        )
        self._own_process = own_process
        self._trackers: list[Tracker] = [*self._recorder.trackers, *installed, *trackers]
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._attached = threading.Event()
        self._opened = threading.Event()
        self._sampled = threading.Condition(self._lock)
        self._stopping = False
        self._abandoned = False
        self._thorough_now = False
        # append and popleft of a deque are atomic, so mark() never waits for the lock.
        self._marks: deque[tuple[float, str]] = deque()
        self._phase = ""
        self._readings = Readings()
        self._thread: threading.Thread | None = None
        self._began_s = 0.0
        self._own_s = 0.0
        self._report: TrackingReport | None = None

    def prepare(self) -> None:
        """Starts the thread, which opens the counters and begins the idle baseline. Returns at once."""
        if self._thread is None:
            # A daemon: a driver's call that hangs must not keep the evaluator from ending.
            self._thread = threading.Thread(target=self._run, name="a2perf-sampler", daemon=True)
            self._thread.start()

    def wait_opened(self, timeout_s: float) -> None:
        """Waits until the counters are open, at most ``timeout_s`` seconds; only a process that runs already waits."""
        self._opened.wait(timeout_s)

    def attach(
        self,
        pid: int,
        *,
        cgroup: Sequence[Path] = (),
        clock: Callable[[], float] | None = None,
        root_is_guard: bool = False,
    ) -> None:
        """Names a process to follow, as for ``ProcTree``.

        Time and energy count from the first one, and what ended ones used stays counted.
        """
        own = self._own_process
        tree = open_tree(pid, cgroup=cgroup, clock=clock, root_is_guard=root_is_guard, running=own)
        if self._tree is not None:
            self._tree.begin(pid, tree)
            return
        self.prepare()
        self._tree = TreeSum()
        self._tree.begin(pid, tree)
        if not own and procfs.read_cgroup(cgroup).cpu_seconds is None:
            self._recorder.bound_unaccounted(pid)
        started_s = started_ago_s(pid)
        if own or (started_s > MAX_SPAWN_S and not root_is_guard):
            # What a process did long before is not the run's.
            self._recorder.ignore(self._tree.sample())
        # Set before the event: the thread takes a start of 0 for a run that was never attached.
        self._began_s = time.perf_counter()
        self._attached.set()
        self._wake.set()

    def sample_now(self) -> None:
        """Takes a thorough sample, for a process that is about to end."""
        with self._sampled:
            self._thorough_now = True
            self._sample_again()

    def _sample_again(self, oldest_s: float = 0.0) -> None:
        """Waits at most half a second for a sample that is taken from now on, if the last one is older than that."""
        asked_s = time.perf_counter() - self._began_s
        if asked_s - self._recorder.elapsed_s > oldest_s and self._thread is not None and self._thread.is_alive():
            self._wake.set()
            self._sampled.wait_for(lambda: self._recorder.elapsed_s >= asked_s, 0.5)

    def detach(self, pid: int, *, cpu_s: float = 0.0, memory_peak_bytes: int | None = None) -> None:
        """Removes a process that has ended, as for ``TreeSum.end``; the others of the run continue."""
        if self._tree is not None:
            self._tree.end(pid, cpu_s=cpu_s, memory_peak_bytes=memory_peak_bytes)

    def mark(self, phase: str) -> None:
        """Says that a new phase begins now, ``"load"``, ``"rollouts"``; costs of later samples are the phase's."""
        self._marks.append((time.perf_counter(), phase))
        self._wake.set()

    def stop(self) -> TrackingReport:
        """Takes the last sample, closes everything and returns the report; a second call returns the same.

        Best called before the root process is waited for: its last moments are then still to be read.
        """
        if self._report is not None:
            return self._report
        # The flag comes before the event: a thread that woke up without it would sleep for another interval.
        self._stopping = True
        self._wake.set()
        # The thread of a run that was never attached still waits for this.
        self._attached.set()
        if self._thread is not None:
            self._thread.join(STOP_TIMEOUT_S)
            if self._thread.is_alive():
                self._abandoned = True
                self._failures.append(TrackerFailure(tracker="sampler", error=f"no answer within {STOP_TIMEOUT_S:g} s"))
        wall = time.perf_counter() - self._began_s if self._began_s else 0.0
        # The thread may hang inside a driver's call; what it has recorded so far is whole.
        with_lock = self._lock.acquire(timeout=0.1)
        try:
            report = self._recorder.report(wall_s=self._recorder.elapsed_s or wall, interval_s=self._interval_s)
        finally:
            if with_lock:
                self._lock.release()
        report.failures = self.failures
        report.own_cpu_seconds = self._own_s
        report.own_cpu_percent = 100 * self._own_s / report.wall_s if report.wall_s > 0 else 0.0
        self._report = report
        return report

    @property
    def net_kwh(self) -> float:
        """Energy of the tree above idle so far, as of the last sample, kWh."""
        with self._lock:
            return self._recorder.net_kwh

    @property
    def failures(self) -> list[TrackerFailure]:
        """Trackers that have been switched off so far."""
        return [*self._failures, *self._recorder.failures]

    def so_far(self) -> TrackingReport:
        """Returns the report as of now, at most a tenth of a second old, while the sampling continues."""
        if self._report is not None:
            return self._report
        with self._sampled:
            self._sample_again(oldest_s=0.1)
            return self._recorder.copy(wall_s=self._recorder.elapsed_s, interval_s=self._interval_s)

    def _run(self) -> None:
        began = time.thread_time()
        try:
            self._each("start")
            self._opened.set()
            self._attached.wait()
            if self._began_s:
                self._each("attach")
                self._loop(began)
            self._each("stop")
            if self._began_s and not self._abandoned:
                with self._lock:
                    self._recorder.finish()
        except Exception as error:
            self._failures.append(_failure("sampler", error))
        finally:
            self._opened.set()
            self._own_s = time.thread_time() - began

    def _loop(self, began: float) -> None:
        assert self._tree is not None
        reported = 0
        thorough_due_s = FIRST_THOROUGH_S
        self._wake.clear()
        while not self._abandoned:
            # Read once and before the sample: a stop in the middle of one is still followed by a last one.
            last = self._stopping
            now_s = time.perf_counter() - self._began_s
            thorough = now_s >= thorough_due_s or self._thorough_now
            self._thorough_now = False
            before = time.perf_counter()
            sample = self._read_tree(self._tree, thorough=thorough or last)
            if thorough:
                took = time.perf_counter() - before
                # Soon again at first, while the participant still loads.
                thorough_due_s = now_s + max(min(THOROUGH_INTERVAL_S, 4 * now_s), took / THOROUGH_SHARE)
            due = int(now_s / self._report_interval_s)
            self._take(sample, now_s, reporting=due > reported, last=last)
            reported = due
            # Kept up to date here, since a thread that hangs never reaches the end of _run.
            self._own_s = time.thread_time() - began
            if last:
                return
            due_s = self._next_due_s(now_s)
            polled = self._recorder.polled
            if len(polled) > len(self._readings.counts):  # a driver may come up late
                self._readings = Readings(polled)
            self._readings.wait(self._wake, due_s - (time.perf_counter() - self._began_s))
            self._wake.clear()

    def _next_due_s(self, now_s: float) -> float:
        for due in FIRST_SAMPLES_S:
            if now_s < due < self._interval_s:
                return due
        # On the grid of the interval: a slow sample must not shift the later ones.
        return (int(now_s / self._interval_s) + 1) * self._interval_s

    def _read_tree(self, tree: TreeSum, *, thorough: bool) -> TreeSample | None:
        if any(failure.tracker == "process_tree" for failure in self._failures):
            return None
        try:
            return tree.sample(thorough=thorough)
        except Exception as error:
            self._failures.append(_failure("process_tree", error))
            return None

    def _take(self, sample: TreeSample | None, now_s: float, *, reporting: bool, last: bool) -> None:
        tick = self._recorder.tick(sample, now_s, self._phase)
        # A copy of the list: _guard removes a tracker that fails.
        for tracker in list(self._trackers):
            self._guard(tracker, "sample", tick)
        shares, self._phase = self._split(now_s, tick.interval_s)
        # After stop() has given up waiting, a late sample must not change the report.
        if not self._abandoned:
            with self._lock:
                self._recorder.record(
                    tick,
                    shares,
                    timestamp=datetime.now().isoformat(timespec="milliseconds"),
                    reporting=reporting and not last,
                )
                self._sampled.notify_all()

    def _split(self, now_s: float, interval_s: float) -> tuple[list[tuple[str, float]], str]:
        """Divides the interval by the marks in it: ``(phase, seconds)`` in order, and the phase at its end."""
        at, phase, shares = now_s - interval_s, self._phase, []
        while self._marks and self._marks[0][0] - self._began_s <= now_s:
            when, following = self._marks.popleft()
            shares.append((phase, max(0.0, when - self._began_s - at)))
            at, phase = max(at, when - self._began_s), following
        shares.append((phase, max(0.0, now_s - at)))
        return shares, phase

    def _each(self, call: str) -> None:
        for tracker in list(self._trackers):
            self._guard(tracker, call)

    def _guard(self, tracker: Tracker, call: str, *arguments: Tick) -> None:
        try:
            getattr(tracker, call)(*arguments)
        except Exception as error:
            self._failures.append(_failure(tracker.name, error))
            self._trackers.remove(tracker)


def _failure(name: str, error: Exception) -> TrackerFailure:
    return TrackerFailure(tracker=name, error=f"{type(error).__name__}: {error}")


class Readings:
    """Reads sources, each by a call of its poll, while a thread waits for something else, and counts the readings.

    ``work_clock`` is the processor time of the calling thread in seconds.
    """

    def __init__(
        self,
        polls: Sequence[Callable[[], None]] = (),
        *,
        clock: Callable[[], float] = time.perf_counter,
        work_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._polls, self._clock, self._work_clock = polls, clock, work_clock
        self._due_s = [clock()] * len(polls)
        self.counts = [0] * len(polls)

    def wait(self, wake: threading.Event, seconds: float) -> None:
        """Waits for an event, at most ``seconds``; reads each source whenever it is due."""
        end_s = self._clock() + seconds
        while (now_s := self._clock()) < end_s:
            before = self._work_clock()
            if wake.wait(max(0.0, min([end_s, *self._due_s]) - now_s)):
                return
            self._read(self._clock(), before)

    def _read(self, now_s: float, work_before_s: float) -> None:
        due = [place for place, due_s in enumerate(self._due_s) if due_s <= now_s + _SLACK_S]
        for place in due:
            try:
                self._polls[place]()
            except Exception:  # the tracker meets the same error in its next sample, which reports it
                self._due_s[place] = math.inf
            self.counts[place] += 1
        for place in due:
            cost_s = (self._work_clock() - work_before_s) / len(due)
            # On a grid: a reading that comes late must not delay the following ones.
            self._due_s[place] = max(self._due_s[place] + max(FASTEST_S, cost_s / MOST_OF_A_CORE), now_s)
