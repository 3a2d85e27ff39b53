"""Readings between two samples: often where they are cheap and new, rarely where they are not."""

from __future__ import annotations

import threading

import pytest

from a2perf.metrics.trackers.cadence import FASTEST_S, MOST_OF_A_CORE, SLOWEST_S, Readings


class Simulated:
    """A clock that only waiting moves, and a thread whose readings cost what the test says."""

    def __init__(self, cost_s: float) -> None:
        self.now_s = self.work_s = 0.0
        self.cost_s = cost_s
        self.updates_s = 0.001

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> bool:
        self.now_s += max(seconds, 1e-6)
        return False

    def poll(self) -> bool:
        before, self.work_s = self.work_s, self.work_s + self.cost_s
        seen, self.seen = getattr(self, "seen", -1), int(self.now_s / self.updates_s)
        return seen != self.seen and before >= 0


def read_for(simulated: Simulated, seconds: float) -> Readings:
    readings = Readings([simulated.poll], clock=lambda: simulated.now_s, work_clock=lambda: simulated.work_s)
    readings.wait(simulated, seconds)  # type: ignore[arg-type]
    return readings


def test_cheap_counters_are_read_a_hundred_times_per_second() -> None:
    simulated = Simulated(cost_s=30e-6)
    (source,) = read_for(simulated, 10.0).sources
    assert source.readings / 10.0 > 100
    assert source.period_s == FASTEST_S
    assert simulated.work_s / 10.0 < MOST_OF_A_CORE


def test_dear_counters_are_read_as_often_as_their_cost_allows() -> None:
    simulated = Simulated(cost_s=2e-3)
    (source,) = read_for(simulated, 60.0).sources
    assert 0.8 * MOST_OF_A_CORE < simulated.work_s / 60.0 <= 1.1 * MOST_OF_A_CORE
    assert source.period_s == pytest.approx(2e-3 / MOST_OF_A_CORE)


def test_source_that_repeats_its_value_is_read_less_often() -> None:
    simulated = Simulated(cost_s=30e-6)
    simulated.updates_s = 0.1
    (source,) = read_for(simulated, 60.0).sources
    assert 10 <= source.readings / 60.0 < 50
    standing = Simulated(cost_s=30e-6)
    standing.updates_s = 1e9
    assert read_for(standing, 60.0).sources[0].period_s == SLOWEST_S


def test_event_ends_the_wait_and_a_failing_source_is_left_alone() -> None:
    calls = []

    def fail() -> bool:
        calls.append(1)
        raise OSError("gone")

    readings = Readings([fail])
    readings.wait(threading.Event(), 0.05)
    assert len(calls) == 1
    wake = threading.Event()
    wake.set()
    readings.wait(wake, 1e6)
