"""What the guard counts of a tree: what lies below its folders, files without a name, memory outside of processes."""

import contextlib
import mmap
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from a2perf.sandbox.guard import disk, tree
from a2perf.sandbox.guard.descriptors import look
from a2perf.sandbox.guard.disk import Disk
from a2perf.sandbox.guard.folders import MOST_DEPTH, Walk
from a2perf.sandbox.guard.memory import Memory
from tests.deep_folders import nest
from tests.waiting import Child, until

MIB = 2**20
NEVER = float("inf")


def walk(*folders: Path, most_bytes: float = NEVER, most_entries: float = NEVER) -> Walk:
    return Walk([str(folder) for folder in folders], most_bytes, most_entries)


def test_walk_counts_links_as_themselves(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(100_000))
    (tmp_path / "link").symlink_to(tmp_path)
    found = walk(tmp_path)
    assert 100_000 < found.bytes < 120_000
    assert (found.entries, found.depth, found.unreadable) == (2, 0, 0)
    assert walk(tmp_path / "missing").bytes == 0


def test_walk_ends_at_the_deepest_folder_that_is_allowed(tmp_path: Path) -> None:
    nest(tmp_path, "d", MOST_DEPTH + 5)
    before = len(os.listdir("/proc/self/fd"))
    assert walk(tmp_path).over() == ("artifact_depth", MOST_DEPTH + 1)
    assert len(os.listdir("/proc/self/fd")) == before


HOLDER = """
import ctypes, fcntl, mmap, os, socket, sys, threading
folder, kind = sys.argv[1:]
block = bytes(2**20)
keep = []
def fill(descriptor):
    for _ in range(4): os.write(descriptor, block)
    return descriptor
def nameless():
    descriptor = fill(os.open(folder + "/file", os.O_CREAT | os.O_RDWR))
    os.unlink(folder + "/file")
    return descriptor
if kind == "open": keep.append(nameless())
if kind == "mapped":
    descriptor = nameless()
    keep.append(mmap.mmap(descriptor, 4096))
    os.close(descriptor)
if kind == "thread":
    ready = threading.Event()
    def other():
        ctypes.CDLL(None).unshare(0x400)  # CLONE_FILES: a table of its own
        keep.append(nameless())
        ready.set()
        threading.Event().wait()
    threading.Thread(target=other, daemon=True).start()
    ready.wait()
if kind == "memory": keep.append(fill(os.memfd_create("m")))
if kind == "pipe":
    keep.append(os.pipe())
    fcntl.fcntl(keep[-1][1], fcntl.F_SETPIPE_SZ, 2**20)
    os.write(keep[-1][1], b"x")
if kind in ("socket", "flight"):
    keep.append(socket.socketpair())
    keep[-1][0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200_000)
    keep[-1][0].send(bytes(100_000))
if kind == "flight":
    descriptor = nameless()
    socket.send_fds(keep[-1][0], [b"x"], [descriptor])
    os.close(descriptor)
print("ready", flush=True)
sys.stdin.read()
"""


PYTHON = (sys.executable, "-S", "-c")


def _started(processes: contextlib.ExitStack, argv: list[str]) -> int:
    """Starts a process that says when it is ready and ends, with its children, before the stack is left."""
    process = Child(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    processes.enter_context(process)
    processes.callback(process.kill)
    processes.callback(tree.kill_descendants, process.pid)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process.pid


@pytest.fixture
def hold(tmp_path: Path):
    """Starts a process that holds something; returns its id and the folder's file system."""
    with contextlib.ExitStack() as processes:

        def start(kind: str) -> tuple[int, int]:
            return _started(processes, [*PYTHON, HOLDER, str(tmp_path), kind]), tmp_path.stat().st_dev

        yield start


def test_file_without_a_name_that_is_only_mapped_is_found_or_known_to_be_hidden(hold) -> None:
    pid, device = hold("mapped")
    held = look([pid], {device}, buffers=False)
    found = held.nameless_bytes({device}) >= 4 * MIB
    assert found if os.geteuid() == 0 else found or held.hidden == 1


def test_anonymous_memory_pipes_and_sockets_are_counted(hold) -> None:
    pid, _ = hold("memory")
    held = look([pid], set(), buffers=True)
    assert 4 * MIB <= held.anonymous_bytes() < 5 * MIB
    assert held.buffers == 0
    for kind, least in (("pipe", MIB), ("socket", 100_000)):
        pid, _ = hold(kind)
        assert least <= look([pid], set(), buffers=True).buffers < 3 * least
        assert look([pid], set(), buffers=False).buffers == 0


def test_descriptors_on_their_way_through_a_socket_are_known(hold) -> None:
    pid, device = hold("flight")
    held = look([pid], {device}, buffers=True)
    assert held.in_flight == 1
    assert held.nameless_bytes({device}) == 0


def test_process_that_is_gone_holds_nothing() -> None:
    held = look([2**22 + 1], set(), buffers=True)
    assert (held.hidden, held.in_flight, held.buffers, held.anonymous_bytes()) == (0, 0, 0, 0)


@pytest.fixture
def guard_of(tmp_path: Path):
    """Starts a process with a child that holds something: a tree below a process that takes the guard's place."""
    with contextlib.ExitStack() as processes:

        def start(kind: str) -> int:
            words = [HOLDER, str(tmp_path), kind]
            code = f"import subprocess, sys; subprocess.run([{sys.executable!r}, '-S', '-c', *{words!r}])"
            return _started(processes, [*PYTHON, code])

        yield start


def test_what_cannot_be_seen_counts_as_the_space_that_is_gone(guard_of, tmp_path: Path, monkeypatch) -> None:
    watch = Disk([str(tmp_path)], 2 * MIB, NEVER)
    guard = guard_of("flight")
    free = watch._free_before
    monkeypatch.setattr(Disk, "_free", lambda self: free - 4 * MIB)
    verdict = watch.over(guard)
    assert verdict is not None
    assert verdict[0] == "artifact_bytes"
    assert verdict[1] >= 4 * MIB - 100_000
    assert all(_state(pid) != "T" for pid in tree.descendants(guard))  # it was stopped, and runs again


def test_long_look_is_taken_at_rest_while_much_is_written(guard_of, tmp_path: Path, monkeypatch) -> None:
    watch = Disk([str(tmp_path)], 64 * MIB, NEVER)
    guard = guard_of("nothing")
    at_rest = iter((False, False, True))
    look = Disk._look

    def states() -> set[str]:
        return {_state(pid) for pid in tree.descendants(guard)}

    def seen(self: Disk, root: int):
        if next(at_rest):
            until(lambda: states() == {"T"})  # a process that waits for a processor stops when it gets one
        else:
            assert "T" not in states()
        return look(self, root)

    monkeypatch.setattr(Disk, "_look", seen)
    free = watch._free()
    for gone, took_s in ((0, 9.0), (64 * MIB, 0.0), (64 * MIB, 9.0)):
        watch._free_then, watch._took_s = free, took_s
        monkeypatch.setattr(Disk, "_free", lambda self, gone=gone: free - gone)
        watch.due(0.0)
        watch._next_stop = NEVER
        assert watch.over(guard) is None
    assert list(at_rest) == []


def test_space_that_others_took_ends_nobody(guard_of, tmp_path: Path, monkeypatch) -> None:
    watch = Disk([str(tmp_path)], 2 * MIB, NEVER)
    free = watch._free_before
    monkeypatch.setattr(Disk, "_free", lambda self: free - 4 * MIB)
    assert watch.over(guard_of("nothing")) is None


def test_loss_of_space_brings_the_next_look_forward(tmp_path: Path, monkeypatch) -> None:
    watch = Disk([str(tmp_path)], 64 * MIB, NEVER)
    watch.over(0)
    now = watch._next - 0.5
    free = watch._free()
    monkeypatch.setattr(Disk, "_free", lambda self: free - 5 * MIB)
    assert not watch.due(now)
    monkeypatch.setattr(Disk, "_free", lambda self: free - 64 * MIB)
    assert watch.due(now)
    monkeypatch.undo()
    assert not watch.due(watch._next - disk.INTERVAL_S)
    assert watch.due(watch._next)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_stopped_tree_runs_again() -> None:
    child = Child(["/bin/sh", "-c", "sleep 60 & wait"])
    with child:
        stopped = tree.stop(os.getpid())
        assert child.pid in stopped
        tree.release(stopped)
        os.waitpid(child.pid, os.WCONTINUED | os.WUNTRACED)
        tree.kill_descendants(child.pid)
        child.send_signal(signal.SIGKILL)


def test_pages_that_processes_share_count_once() -> None:
    block = mmap.mmap(-1, 32 * MIB)
    for at in range(0, len(block), 4096):
        block[at] = 1
    pids = []
    ready, ready_end = os.pipe()
    try:
        for _ in range(3):
            pid = os.fork()
            if pid == 0:
                sum(block[at] for at in range(0, len(block), 4096))
                os.write(ready_end, b"x")
                signal.pause()
            pids.append(pid)
        for _ in pids:
            os.read(ready, 1)
        assert Memory().held(pids, 0) < Memory().held(pids, NEVER) - 32 * MIB
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(ready)
        os.close(ready_end)
        block.close()


def test_socket_survives_being_looked_at() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.send(b"hello")
        look([os.getpid()], set(), buffers=True)
        assert theirs.recv(10) == b"hello"
