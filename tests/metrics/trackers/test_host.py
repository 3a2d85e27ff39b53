"""The host: its description, and the verdict on how quiet it was."""

from __future__ import annotations

import os

import msgspec
import psutil
import pytest

from a2perf.metrics.trackers import host, procfs
from a2perf.metrics.trackers.host import HostTracker, describe_host
from a2perf.metrics.trackers.procfs import MachineCpu
from a2perf.metrics.trackers.tick import Tick


def test_description_agrees_with_psutil():
    described = describe_host()
    assert described.cpu_count == psutil.cpu_count()
    assert described.cpu_usable == len(os.sched_getaffinity(0))
    assert described.memory_bytes == pytest.approx(psutil.virtual_memory().total, rel=0.01)
    assert described.cpu_model
    assert msgspec.to_builtins(described)["kernel"] == os.uname().release


def test_machine_time_agrees_with_psutil():
    ours, theirs = procfs.read_machine_cpu(), psutil.cpu_times()
    assert ours.busy_s == pytest.approx(
        theirs.user + theirs.nice + theirs.system + theirs.irq + theirs.softirq, abs=5.0
    )
    assert ours.idle_s == pytest.approx(theirs.idle + theirs.iowait, abs=5.0)


@pytest.mark.parametrize(
    ("busy", "steal", "tree", "own", "mhz", "reasons"),
    [
        (12.0, 0.0, 10.0, 1.0, (2600, 2600), []),
        (19.0, 0.0, 10.0, 1.0, (2600, 2600), ["other processes used 40 % of the processors"]),
        (10.0, 1.0, 10.0, 0.0, (2600, 2600), ["the hypervisor took 5.0 % of the processor time"]),
        (10.0, 0.0, 10.0, 0.0, (3000, 1500), ["the clock went down to 1500 of 3000 MHz"]),
        (20.0, 0.0, 20.0, 0.0, (None, None), []),
    ],
)
def test_a_noisy_host_is_flagged_with_its_reasons(monkeypatch, busy, steal, tree, own, mhz, reasons):
    # Two processors for ten seconds.
    states = iter(
        [MachineCpu(100, 100, 0), MachineCpu(100, 100, 0), *[MachineCpu(100 + busy, 120 - busy - steal, steal)] * 2]
    )
    clocks = iter(mhz)
    own_times = iter([5.0, 5.0 + own, 5.0 + own])
    monkeypatch.setattr(procfs, "read_machine_cpu", lambda: next(states))
    monkeypatch.setattr(host, "read_clock_mhz", lambda: next(clocks))
    monkeypatch.setattr(host.time, "process_time", lambda: next(own_times))
    tracker = HostTracker()
    tracker.start()
    tracker.attach()
    first = Tick(0.0, 0.0, "", cpu_seconds=tree)
    tracker.sample(first)
    tracker.sample(Tick(10.0, 10.0, "", cpu_seconds=tree))
    conditions = tracker.conditions()
    assert conditions.reasons == reasons
    assert conditions.noisy == bool(reasons)
    assert conditions.steal_percent == pytest.approx(100 * steal / 20)
    assert first.machine_busy_s == pytest.approx(busy)
    assert ("cpu_mhz" in first.values) == (mhz[0] is not None)


def test_a_moment_is_not_judged():
    tracker = HostTracker()
    tracker.start()
    tracker.attach()
    tracker.sample(Tick(0.01, 0.01, ""))
    assert not [reason for reason in tracker.conditions().reasons if "processor" in reason]


def test_utilisation_of_the_idle_baseline_leaves_the_tree_out(monkeypatch):
    states = iter([MachineCpu(100, 100, 0), MachineCpu(100, 100, 0), MachineCpu(101.5, 102.5, 0)])
    clock = iter([0.0, 0.01, 2.0])
    monkeypatch.setattr(procfs, "read_machine_cpu", lambda: next(states))
    monkeypatch.setattr(host.time, "perf_counter", lambda: next(clock))
    tracker = HostTracker()
    tracker.start()
    tracker.attach()
    tracker.sample(Tick(2.0, 2.0, "", cpu_seconds=1.0))
    window, percent, taken = tracker.baseline
    assert (window, taken) == (2.0, "while the participant process started up")
    assert percent == pytest.approx(100 * 0.5 / 4)
