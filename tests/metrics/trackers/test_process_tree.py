"""The process tree: what it counts, including what is dead by the time it looks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

from a2perf.metrics.trackers.process_tree import ProcTree, PsutilTree, lost_with, open_tree
from tests.waiting import Child

BURN = "import time\nwhile time.process_time() < {seconds}: pass\n"
WAITING = "print('done', flush=True); import sys; sys.stdin.read()"
# Children that burn one after the other and are dead before anybody looks; then the parent says so and waits.
SHORT_CHILDREN = """
import os, sys, time
for _ in range({count}):
    child = os.fork()
    if child == 0:
        start = time.process_time()
        while time.process_time() - start < {seconds}: pass
        os._exit(0)
    {reap}
print("done", flush=True)
sys.stdin.read()
"""


def wait_for(process, line=b"done\n"):
    assert process.stdout.readline() == line


def waiting(spawn):
    """Returns a process that has started up and waits."""
    process = spawn(WAITING)
    wait_for(process)
    return process


def usage_of(process):
    """Ends a process that waits for its input and returns what the kernel says that it and its children used."""
    process.stdin.close()
    return usage_of_zombie(process)


def usage_of_zombie(process):
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def test_time_of_children_that_died_between_two_samples_is_counted(spawn):
    parent = spawn(SHORT_CHILDREN.format(count=20, seconds=0.06, reap="os.waitpid(child, 0)"))
    tree = ProcTree(parent.pid)
    tree.sample()
    wait_for(parent)
    sample = tree.sample()
    truth = usage_of(parent)
    assert truth > 1.2
    assert sample.cpu_seconds == pytest.approx(truth, rel=0.03)
    assert sample.processes == 1
    assert sample.cpu_method == "proc_stat"


def test_time_is_kept_when_nobody_waits_for_a_child(spawn):
    ignore = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
    code = (
        ignore
        + "import subprocess, sys\n"
        + (
            "child = subprocess.Popen([sys.executable, '-S', '-c', "
            "'import time,sys\\nwhile time.process_time() < 0.5: pass\\n"
            'print("burnt", flush=True)\\nsys.stdin.read()\'],'
            " stdin=subprocess.PIPE)\n"
            "sys.stdin.readline(); child.stdin.close(); child.wait(); print('done', flush=True); sys.stdin.read()"
        )
    )
    parent = spawn(code)
    tree = ProcTree(parent.pid)
    wait_for(parent, b"burnt\n")
    with_child = tree.sample()
    parent.stdin.write(b"\n")
    parent.stdin.flush()
    wait_for(parent)
    after = tree.sample()
    assert with_child.processes == 2
    assert after.processes == 1
    # The kernel gives the time of an unwaited child to nobody, so only what was seen can be kept.
    assert after.cpu_seconds >= with_child.cpu_seconds >= 0.45


def test_the_total_survives_the_root(spawn):
    process = spawn(BURN.format(seconds=0.3) + "import sys\nprint('done', flush=True)\nsys.stdin.read()")
    tree = ProcTree(process.pid)
    wait_for(process)
    alive = tree.sample(thorough=True)
    process.kill()
    process.wait(300)
    dead = tree.sample(thorough=True)
    assert alive.processes == 1
    assert (dead.processes, dead.threads, dead.rss_bytes) == (0, 0, 0)
    assert dead.cpu_seconds == pytest.approx(alive.cpu_seconds, abs=0.02)
    assert dead.cpu_seconds >= 0.28


def test_a_zombie_root_still_shows_its_time_and_is_not_alive(spawn):
    process = spawn(BURN.format(seconds=0.3))
    tree = ProcTree(process.pid)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    sample = tree.sample()
    assert sample.processes == 0
    assert sample.cpu_seconds == pytest.approx(usage_of_zombie(process), abs=0.02)


def test_memory_threads_and_processes_of_the_whole_tree(spawn):
    child = (
        "import sys; block = bytearray(40_000_000); block[::4096] = b'x' * len(block[::4096])\n"
        "print('up', flush=True); sys.stdin.read()"
    )
    code = (
        "import subprocess, sys, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        f"child = subprocess.Popen([sys.executable, '-S', '-c', {child!r}],"
        " stdout=subprocess.PIPE, stdin=subprocess.PIPE)\n"
        "child.stdout.readline(); print('done', flush=True); sys.stdin.read(); child.stdin.close(); child.wait()"
    )
    parent = spawn(code)
    wait_for(parent)
    sample = ProcTree(parent.pid).sample(thorough=True)
    assert sample.processes == 2
    assert sample.threads == 3
    assert sample.rss_bytes > 45e6
    assert sample.pss_bytes is not None
    assert 38e6 < sample.pss_bytes <= sample.rss_bytes
    assert sample.memory_peak_bytes is not None
    assert sample.memory_peak_bytes >= sample.rss_bytes


def test_bytes_written_to_storage_by_a_dead_child_are_counted(spawn, tmp_path):
    code = (
        "import os, sys\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        f"    file = os.open({str(tmp_path / 'big')!r}, os.O_CREAT | os.O_WRONLY)\n"
        "    os.write(file, b'x' * 4_000_000); os.fsync(file); os._exit(0)\n"
        "os.waitpid(child, 0); print('done', flush=True); sys.stdin.read()"
    )
    parent = spawn(code)
    tree = ProcTree(parent.pid)
    wait_for(parent)
    written = tree.sample().io_write_bytes
    if written == 0:
        pytest.skip("the temporary folder is not on storage that the kernel accounts for")
    assert written >= 4_000_000


def test_a_reparented_grandchild_stays_in_the_tree(spawn):
    code = (
        "import os, sys\n"
        "middle = os.fork()\n"
        "if middle == 0:\n"
        "    if os.fork() == 0:\n"
        f"        os.execv(sys.executable, [sys.executable, '-S', '-c', {WAITING!r}])\n"
        "    os._exit(0)\n"
        "os.waitpid(middle, 0); sys.stdin.read()"
    )
    parent = spawn(code)
    tree = ProcTree(parent.pid)
    wait_for(parent)
    # Nobody has sampled while the middle process lived: the session tells whose child this is.
    sample = tree.sample()
    assert sample.processes == 2
    for pid in sample.pids - {parent.pid}:
        os.kill(pid, signal.SIGKILL)


def test_another_process_is_not_in_the_tree(spawn):
    first, _ = waiting(spawn), waiting(spawn)
    tree = ProcTree(first.pid)
    assert tree.sample().pids == {first.pid}
    assert tree.sample().pids == {first.pid}


def test_a_pid_that_never_was_is_an_empty_tree():
    sample = ProcTree(2**22 + 12345).sample(thorough=True)
    assert (sample.processes, sample.cpu_seconds, sample.pss_bytes) == (0, 0.0, None)


@pytest.mark.parametrize(
    ("name", "text", "method"),
    [
        ("cpuacct.usage", "7250000000\n", "cgroup_v1"),
        ("cpu.stat", "usage_usec 7250000\nuser_usec 7000000\nsystem_usec 250000\n", "cgroup_v2"),
    ],
)
def test_a_control_group_is_believed_before_the_processes(spawn, tmp_path, name, text, method):
    process = waiting(spawn)
    (tmp_path / name).write_text("10000000\n" if name == "cpuacct.usage" else "usage_usec 10000\n")
    (tmp_path / "memory.peak").write_text("123456789\n")
    tree = ProcTree(process.pid, cgroup=[tmp_path])
    tree.sample()
    (tmp_path / name).write_text(text)
    sample = tree.sample(thorough=True)
    assert sample.cpu_method == method
    assert sample.cpu_seconds == pytest.approx(7.25)
    assert sample.memory_peak_bytes == 123456789


def test_a_control_group_without_files_leaves_the_processes(spawn, tmp_path):
    process = spawn(BURN.format(seconds=0.2) + WAITING)
    wait_for(process)
    sample = ProcTree(process.pid, cgroup=[tmp_path / "gone"]).sample()
    assert sample.cpu_method == "proc_stat"
    assert sample.cpu_seconds >= 0.18


def test_psutil_tells_the_same_where_there_is_no_proc(spawn):
    parent = spawn(SHORT_CHILDREN.format(count=5, seconds=0.1, reap="os.waitpid(child, 0)"))
    by_psutil, by_proc = PsutilTree(parent.pid), open_tree(parent.pid)
    by_psutil.sample()
    wait_for(parent)
    ours, theirs = by_proc.sample(), by_psutil.sample(thorough=True)
    assert theirs.cpu_seconds == pytest.approx(ours.cpu_seconds, abs=0.03)
    assert theirs.cpu_seconds > 0.45
    assert theirs.pids == ours.pids == {parent.pid}
    assert theirs.rss_bytes == pytest.approx(ours.rss_bytes, rel=0.2)
    parent.kill()
    parent.wait(300)
    assert by_psutil.sample().cpu_seconds == pytest.approx(theirs.cpu_seconds)


@pytest.mark.parametrize(
    ("vanished", "growth", "lost"),
    [
        ({5: (1, 10.0)}, {1: 12.0}, 0.0),  # waited for, with a little more than was seen
        ({5: (1, 10.0)}, {1: 0.0}, 10.0),  # nobody waited
        ({5: (1, 10.0), 6: (1, 4.0)}, {1: 10.0}, 4.0),  # one of two
        ({5: (2, 10.0)}, {1: 0.0, 2: 10.0}, 0.0),  # by its own parent
        ({5: (2, 10.0), 2: (1, 3.0)}, {1: 13.0}, 0.0),  # parent and child, both to the root
        ({5: (3, 10.0), 3: (2, 1.0)}, {1: 10.0, 2: 1.0}, 0.0),  # the parent died first: to the sub-reaper
        ({1: (0, 7.0)}, {}, 7.0),  # the root itself
        ({5: (9, 2.0)}, {1: 0.0}, 2.0),  # its parent was never seen
    ],
)
def test_what_is_lost_with_the_vanished(vanished, growth, lost):
    assert lost_with(vanished, growth, root=1) == pytest.approx(lost)


def test_guard_and_engine_in_the_group_of_a_container_are_not_charged(spawn, tmp_path):
    process = waiting(spawn)
    usage = tmp_path / "cpuacct.usage"
    usage.write_text("5000000000\n")
    (tmp_path / "cgroup.procs").write_text(f"{process.pid}\n")
    tree = ProcTree(process.pid, cgroup=[tmp_path], root_is_guard=True)
    assert tree.sample().cpu_seconds == pytest.approx(0.0, abs=1e-3)
    usage.write_text("6000000000\n")
    assert tree.sample().cpu_seconds == pytest.approx(1.0, abs=1e-3)


def test_time_of_a_guard_that_has_ended_is_not_charged(spawn):
    """The guard works itself before and after its child, and is gone at the last sample."""
    code = (
        "import subprocess, sys, time\n"
        "def burn(seconds):\n    end = time.process_time() + seconds\n    while time.process_time() < end: pass\n"
        "burn(0.5)\n"
        "work = 'import time\\nwhile time.process_time() < 0.5: pass'\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', work])\n"
        "print('started', flush=True); sys.stdin.readline(); child.wait(); burn(0.5)\n"
        "print('done', flush=True); sys.stdin.read()"
    )
    guard = spawn(code)
    wait_for(guard, b"started\n")
    tree = ProcTree(guard.pid, root_is_guard=True)
    tree.sample()
    guard.stdin.write(b"\n")
    guard.stdin.flush()
    wait_for(guard)
    before = tree.sample().cpu_seconds
    guard.stdin.close()
    guard.wait(300)
    assert before == pytest.approx(0.5, rel=0.05)
    assert tree.sample().cpu_seconds == before


def test_guard_is_followed_but_not_counted() -> None:
    code = (
        "import subprocess, sys; block = b'x' * 60_000_000\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; print(1, flush=True); time.sleep(600)'])\n"
        "child.wait()"
    )
    guard = Child([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE)
    try:
        assert guard.stdout is not None
        guard.stdout.readline()
        whole, guarded = ProcTree(guard.pid).sample(), ProcTree(guard.pid, root_is_guard=True).sample()
        assert len(guarded.pids) == len(whole.pids) - 1
        assert guard.pid not in guarded.pids
        assert whole.rss_bytes - guarded.rss_bytes > 60_000_000
        assert guarded.threads == whole.threads - 1
        assert guarded.cpu_seconds < whole.cpu_seconds
    finally:
        for process in psutil.Process(guard.pid).children(recursive=True):
            process.kill()
        guard.kill()
        guard.wait(300)
