"""What the account of a tree can miss: bounded where the kernel does not count all of it, nothing where it does."""

from __future__ import annotations

import pytest

from a2perf.metrics.trackers import process_tree, procfs, unaccounted
from a2perf.metrics.trackers.sampler import Sampler

# Children that burn three seconds together and of which nobody hears.
UNHEARD = """
import os, signal, sys, time
sys.stdin.readline()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(60):
    if os.fork() == 0:
        while time.process_time() < 0.05: pass
        os._exit(0)
    try: os.wait()
    except ChildProcessError: pass
print("done", flush=True)
sys.stdin.readline()
"""


def tracked(spawn, code: str, **attached):
    process = spawn(code)
    sampler = Sampler(mode="train", with_codecarbon=False, interval_s=60.0)
    sampler.attach(process.pid, **attached)
    process.stdin.write(b"\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"done\n"
    return sampler.stop()


def test_time_that_sampling_does_not_see_is_bounded_and_the_record_says_so(spawn) -> None:
    report = tracked(spawn, UNHEARD)
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


def test_quiet_tree_gives_no_warning(spawn) -> None:
    report = tracked(spawn, "import sys; sys.stdin.readline(); print('done', flush=True); sys.stdin.readline()")
    assert report.account.cpu_not_accounted_max_s is not None
    assert report.cpu_seconds < 1


def test_kernel_clock_replaces_sampling(spawn) -> None:
    report = tracked(spawn, UNHEARD, clock=lambda: 3.25)
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
    report = tracked(spawn, UNHEARD, cgroup=tmp_path)
    assert report.account.complete
    assert (report.account.cpu, report.account.memory) == ("control group", "control group")
    assert report.account.cpu_not_accounted_max_s is None
    assert report.account.warning == ""
    assert report.rss_peak_bytes >= 123_456_789


def machine(busy_s: float, started: int, ticks: dict[tuple[int, int], int]):
    return unaccounted._Machine(busy_s, started, ticks)


@pytest.mark.parametrize(("busy_s", "missing_s", "warns"), [(30.0, 4.0, True), (26.5, 0.5, False), (20.0, 0.0, False)])
def test_bound_is_what_the_machine_did_less_what_everything_else_shows(monkeypatch, busy_s, missing_s, warns) -> None:
    per_s = procfs.CLOCK_TICKS_PER_S
    readings = iter(
        [
            machine(0.0, 100, {(5, 1): 2 * per_s, (7, 1): 0}),
            # the tree's own process 7 and a process that was started outside
            machine(busy_s, 400, {(5, 1): 12 * per_s, (7, 1): 6 * per_s, (9, 3): 6 * per_s}),
        ]
    )
    monkeypatch.setattr(unaccounted.Unaccounted, "_machine", lambda self: next(readings))
    bound = unaccounted.Unaccounted(1)
    bound.saw(frozenset({7}))
    account = bound.account(10.0, "proc_stat")
    assert account.cpu_not_accounted_max_s == pytest.approx(missing_s)
    assert account.processes_started == 300
    assert bool(account.warning) == warns
