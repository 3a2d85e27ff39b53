"""The latency timer: what it keeps and how it sums up."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

from a2perf.metrics.trackers.latency import ROUND_TRIP, LatencyTimer, summarize_latency


def test_summary_of_recorded_durations():
    timer = LatencyTimer(4, warmup=2, includes=ROUND_TRIP, clock="evaluator")
    values = [14_000_000, 900_000, *range(100_000, 1_100_000, 10_000)]
    for value in values:
        timer.record(value)
    seconds = np.array(values[2:]) / 1e9
    summary = timer.summary()
    assert (summary.count, summary.warmup_count, summary.includes, summary.clock) == (100, 2, "round trip", "evaluator")
    assert summary.first_s == pytest.approx(0.014)
    assert summary.mean_s == pytest.approx(seconds.mean())
    assert summary.std_s == pytest.approx(seconds.std(ddof=1))
    assert summary.median_s == pytest.approx(np.percentile(seconds, 50))
    assert summary.p90_s == pytest.approx(np.percentile(seconds, 90))
    assert summary.p99_s == pytest.approx(np.percentile(seconds, 99))
    assert (summary.min_s, summary.max_s) == (seconds.min(), seconds.max())
    assert summary.throughput_hz == pytest.approx(1 / seconds.mean())
    assert timer.values_s() == pytest.approx(seconds)


def test_time_passes_arguments_and_result_and_keeps_the_duration():
    timer = LatencyTimer(1)
    assert timer.time(lambda a, *, b: a - b, 5, b=2) == 3
    timer.time(time.sleep, 0.02)
    assert len(timer) == 2
    assert timer.values_s()[0] < 0.01 <= timer.values_s()[1]


def test_a_call_that_raises_leaves_no_duration():
    timer = LatencyTimer(1)
    with pytest.raises(ZeroDivisionError):
        timer.time(lambda: 1 / 0)
    assert len(timer) == 0
    assert timer.summary() is None


def test_only_warmup_is_no_summary_and_one_value_has_no_spread():
    timer = LatencyTimer(1, warmup=1)
    timer.record(5)
    assert timer.summary() is None
    timer.record(1000)
    summary = timer.summary()
    assert (summary.count, summary.std_s, summary.p99_s, summary.first_s) == (1, 0.0, 1e-6, 5e-9)
    assert summarize_latency([], first_s=0, warmup_count=0, includes="", clock="") is None


def test_the_timer_needs_nothing_but_the_standard_library():
    code = (
        "import sys; before = set(sys.modules)\n"
        "from a2perf.metrics.trackers.latency import LatencyTimer; LatencyTimer(1).time(int)\n"
        "print({name.split('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "{'a2perf'}\n"
