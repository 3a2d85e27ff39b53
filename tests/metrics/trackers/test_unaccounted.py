"""What the account of a tree can miss: bounded where the kernel does not count all of it, nothing where it does."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from a2perf.metrics.trackers import process_tree, procfs, unaccounted
from a2perf.metrics.trackers.sampler import Sampler
from a2perf.sandbox import task_clock
from tests.waiting import until

# Children that burn 50 ms each and of which nobody hears.
UNHEARD = """
import os, signal, sys, time
sys.stdin.readline()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range({count}):
    if os.fork() == 0:
        while time.process_time() < 0.05: pass
        os._exit(0)
    try: os.wait()
    except ChildProcessError: pass
print("done", flush=True)
sys.stdin.readline()
"""


def followed(process, **attached):
    """Tracks a process from its first line of input to its next line of output, and returns that with the report."""
    sampler = Sampler(mode="train", with_codecarbon=False, interval_s=60.0)
    sampler.attach(process.pid, **attached)
    process.stdin.write(b"\n")
    process.stdin.flush()
    line = process.stdout.readline()
    return line.strip(), sampler.stop()


def tracked(spawn, code: str, **attached):
    line, report = followed(spawn(code), **attached)
    assert line == b"done"
    return report


def test_time_that_sampling_does_not_see_is_bounded_and_the_record_says_so(spawn) -> None:
    report = tracked(spawn, UNHEARD.format(count=60))
    assert report.cpu_method == "proc_stat"
    assert report.account.cpu == report.energy.cpu.account == "process tree sampling"
    assert report.account.memory == "resident sets, sampled"
    assert not report.account.complete
    assert report.account.processes_started is not None
    assert report.account.processes_started >= 60
    assert report.account.cpu_not_accounted_max_s is not None
    # the machine's own account counts by ticks, which short processes may dodge in part
    assert report.cpu_seconds + report.account.cpu_not_accounted_max_s > 1.5
    if report.cpu_seconds < 1:
        assert "ended unseen" in report.account.warning


def test_kernel_clock_replaces_sampling(spawn) -> None:
    report = tracked(spawn, UNHEARD.format(count=4), clock=lambda: 3.25)
    assert report.cpu_method == "task_clock"
    assert report.cpu_seconds == pytest.approx(3.25)
    assert report.account.cpu == report.energy.cpu.account == "kernel task clock"


def test_sampling_stays_the_lower_bound_of_the_kernel_clock(spawn) -> None:
    burning = "import sys, time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True); sys.stdin.read()"
    process = spawn(burning)
    assert process.stdout.readline() == b"done\n"
    sample = process_tree.open_tree(process.pid, clock=lambda: 0.0).sample()
    assert sample.cpu_seconds >= 0.29
    assert sample.cpu_method == "task_clock"


def test_account_of_a_control_group_misses_nothing(spawn, tmp_path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 5000000\n")
    (tmp_path / "memory.peak").write_text("123456789\n")
    report = tracked(spawn, UNHEARD.format(count=4), cgroup=[tmp_path])
    assert report.account.complete
    assert (report.account.cpu, report.account.memory) == ("control group", "control group")
    assert report.account.cpu_not_accounted_max_s is None
    assert report.account.warning == ""
    assert report.rss_peak_bytes >= 123_456_789


# Children of which nobody hears, then a daemon that leaves the tree, works and stays: 0.7 s together.
LEAVING = """
import os, signal, sys, time
def burn(seconds):
    while time.process_time() < seconds: pass
print("ready", flush=True)
sys.stdin.readline()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(10):
    if os.fork() == 0:
        burn(0.03)
        os._exit(0)
    try: os.wait()
    except ChildProcessError: pass
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        burn(0.4)
        os.write(write, str(os.getpid()).encode())
        time.sleep(600)
    os._exit(0)
daemon = os.read(read, 20).decode()
print(daemon, flush=True)
sys.stdin.readline()
"""
V2 = "unified" if Path("/sys/fs/cgroup/unified").is_dir() else "."
PLACES = [("cpuacct", "cpuacct.usage"), (V2, "cpu.stat")]


@pytest.fixture
def leaving(spawn):
    """A process that runs ``LEAVING`` and has started up: its start is not part of what is tracked."""
    process = spawn(LEAVING)
    assert process.stdout.readline() == b"ready\n"
    return process


@pytest.fixture
def group(request) -> Iterator[Path]:
    """A control group that the kernel made for this test."""
    place, usage = request.param
    folder = Path("/sys/fs/cgroup") / place / f"a2perf-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be created: {error}")
    if not (folder / usage).exists():
        folder.rmdir()
        pytest.skip(f"control groups here have no {usage}")
    try:
        yield folder
    finally:
        for pid in (folder / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        until(lambda: not (folder / "cgroup.procs").read_text().strip())
        folder.rmdir()


def left(process, **attached):
    """Tracks a process that runs ``LEAVING`` until its daemon has worked."""
    daemon, report = followed(process, **attached)
    os.kill(int(daemon), signal.SIGKILL)
    return report


@pytest.mark.group("root")
@pytest.mark.parametrize("group", PLACES, indirect=True, ids=["v1", "v2"])
def test_kernels_group_counts_unheard_children_and_processes_that_left_the_tree(leaving, group) -> None:
    (group / "cgroup.procs").write_text(str(leaving.pid))
    report = left(leaving, cgroup=[group])
    truth = procfs.read_cgroup([group]).cpu_seconds
    assert truth is not None
    assert truth > 0.69
    assert report.cpu_seconds == pytest.approx(truth, abs=0.03)
    assert report.account.complete
    assert report.account.cpu_not_accounted_max_s is None


@pytest.mark.skipif(task_clock.why_unavailable() is not None, reason="the kernel offers no task clock here")
def test_kernels_clock_counts_them_without_a_group(leaving) -> None:
    clock = task_clock.TaskClock(leaving.pid)
    report = left(leaving, clock=clock.seconds, root_is_guard=True)
    clock.close()
    assert report.cpu_method == "task_clock"
    assert 0.69 < report.cpu_seconds < 1.3


def test_without_any_account_of_the_kernel_the_bound_contains_them(leaving) -> None:
    report = left(leaving)
    assert report.cpu_method == "proc_stat"
    assert not report.account.complete
    assert report.account.cpu_not_accounted_max_s is not None
    # ticks of 10 ms, which short processes may dodge in part
    assert report.cpu_seconds + report.account.cpu_not_accounted_max_s > 0.5
    # the model charges processor time: what may be missing is part of its uncertainty
    cpu = report.energy.cpu
    if cpu.method.startswith("tdp_model"):
        watts = cpu.gross_kwh * 3.6e6 / report.cpu_seconds
        missing_j = watts * report.account.cpu_not_accounted_max_s
        assert cpu.gross_uncertainty.attribution_kwh * 3.6e6 == pytest.approx(missing_j / 3**0.5, rel=0.02)


def test_processes_that_the_first_process_adopted_are_not_taken_for_others(monkeypatch) -> None:
    per_s = procfs.CLOCK_TICKS_PER_S
    before = unaccounted._Machine(0.0, 100, {(5, 1): 0})
    # an old daemon worked 3 s; a new one, adopted by process 1, worked 2 s, and its child 1 s
    ticks = {(5, 1): 3 * per_s, (8, 9): 2 * per_s, (9, 9): 1 * per_s, (12, 9): 4 * per_s}
    now = unaccounted._Machine(20.0, 110, ticks, {5: 1, 8: 1, 9: 8, 12: 77})
    readings = iter([before, now])
    monkeypatch.setattr(unaccounted.Unaccounted, "_machine", lambda self: next(readings))
    account = unaccounted.Unaccounted(1).account(10.0, "proc_stat")
    assert account.processes_adopted == 2
    assert account.cpu_not_accounted_max_s == pytest.approx(20.0 - 10.0 - 3.0 - 4.0)
    assert "may belong to processes of the submission" in account.warning


@pytest.mark.parametrize(("busy_s", "missing_s", "warns"), [(30.0, 4.0, True), (26.5, 0.5, False), (20.0, 0.0, False)])
def test_bound_is_what_the_machine_did_less_what_everything_else_shows(monkeypatch, busy_s, missing_s, warns) -> None:
    per_s = procfs.CLOCK_TICKS_PER_S
    before = unaccounted._Machine(0.0, 100, {(5, 1): 2 * per_s, (7, 1): 0})
    # the tree's own process 7 and a process that was started outside
    now = unaccounted._Machine(busy_s, 400, {(5, 1): 12 * per_s, (7, 1): 6 * per_s, (9, 3): 6 * per_s})
    readings = iter([before, now])
    monkeypatch.setattr(unaccounted.Unaccounted, "_machine", lambda self: next(readings))
    bound = unaccounted.Unaccounted(1)
    bound.saw(frozenset({7}))
    account = bound.account(10.0, "proc_stat")
    assert account.cpu_not_accounted_max_s == pytest.approx(missing_s)
    assert account.processes_started == 300
    assert bool(account.warning) == warns
