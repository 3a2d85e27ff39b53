"""Readings between two samples: often where they are cheap, rarely where they are not."""

from __future__ import annotations

import threading

from a2perf.metrics.trackers.sampler import MOST_OF_A_CORE, Readings


class Simulated:
    """A clock that only waiting moves, and a thread whose readings cost what the test says."""

    def __init__(self, cost_s: float) -> None:
        self.now_s = self.work_s = 0.0
        self.cost_s = cost_s

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> bool:
        self.now_s += max(seconds, 1e-6)
        return False

    def poll(self) -> None:
        self.work_s += self.cost_s


def read_for(simulated: Simulated, seconds: float) -> int:
    readings = Readings([simulated.poll], clock=lambda: simulated.now_s, work_clock=lambda: simulated.work_s)
    readings.wait(simulated, seconds)  # type: ignore[arg-type]
    return readings.counts[0]


def test_cheap_counters_are_read_a_hundred_times_per_second() -> None:
    simulated = Simulated(cost_s=30e-6)
    assert 100 < read_for(simulated, 10.0) / 10.0 < 120
    assert simulated.work_s / 10.0 < MOST_OF_A_CORE


def test_dear_counters_are_read_as_often_as_their_cost_allows() -> None:
    simulated = Simulated(cost_s=2e-3)
    read_for(simulated, 60.0)
    assert 0.8 * MOST_OF_A_CORE < simulated.work_s / 60.0 <= 1.1 * MOST_OF_A_CORE


def test_event_ends_the_wait_and_a_failing_source_is_left_alone() -> None:
    calls = []

    def fail() -> None:
        calls.append(1)
        raise OSError("gone")

    readings = Readings([fail])
    readings.wait(threading.Event(), 0.05)
    assert len(calls) == 1
    wake = threading.Event()
    wake.set()
    readings.wait(wake, 1e6)
