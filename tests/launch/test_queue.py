"""The durable queue: leases, retries, lost leases, and that a key never counts twice."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from a2perf.errors import UserError
from a2perf.launch.queue import Queue
from a2perf.launch.queue_entry import AttemptOutcome, Lease, State
from a2perf.launch.run_spec import Resources, RunCommand, RunSpec
from a2perf.runs.bundles.process_identity import ProcessIdentity
from tests.waiting import Child

DONE = AttemptOutcome(True, exit_code=0)
CRASHED = AttemptOutcome(False, "exception", "infer_once: it raised", 1)
HOST = AttemptOutcome(False, "infrastructure", "the disk is full", 3)


def entry(key: str, after: str | None = None) -> RunSpec:
    return RunSpec(key, RunCommand(("true",), name=key), {"seed": 3}, after=after)


def leased(queue: Queue) -> Lease:
    lease = queue.lease()
    assert lease is not None
    return lease


def states(queue: Queue) -> dict[str, State]:
    return {item.key: item.state for item in queue.entries()}


def test_an_entry_comes_back_as_it_was_given(queue: Queue, tmp_path: Path) -> None:
    command = RunCommand(
        ("python", "-c", "1"),
        name="a/b",
        cwd=tmp_path,
        env={"A": "1"},
        log=tmp_path / "a.log",
        resources=Resources(2.0, 2**30, 1, 60.0),
        domain="circuit_training",
        readable=(tmp_path,),
        writable=(tmp_path,),
    )
    queue.add([RunSpec("a", command, {"seed": 3, "task": "ariane"})])
    assert leased(queue).entry.command == command
    assert queue.entries()[0].data == {"seed": 3, "task": "ariane"}


def test_a_key_is_added_once_and_handed_out_once(queue: Queue) -> None:
    assert queue.add([entry("a"), entry("b"), entry("a")]) == 2
    assert queue.add([entry("b"), entry("c")]) == 1
    assert [leased(queue).entry.key for _ in range(3)] == ["a", "b", "c"]
    assert queue.lease() is None
    assert queue.counts()[State.LEASED] == 3


def test_only_the_holder_of_the_token_can_finish(queue: Queue) -> None:
    queue.add([entry("a")])
    first = leased(queue)
    queue.release(first)  # an interrupted attempt counts as nothing
    assert queue.entries()[0].retries == 0
    second = leased(queue)
    assert queue.finish(first, CRASHED) is None
    assert not queue.running(first, "job")
    assert queue.running(second, "job 7")
    assert queue.finish(second, DONE) is State.FINISHED
    assert queue.finish(second, CRASHED) is None
    assert states(queue) == {"a": State.FINISHED}
    assert [change["state"] for change in queue.history("a")] == [
        "leased",
        "queued",
        "leased",
        "running",
        "finished",
    ]


def test_a_new_try_waits(tmp_path: Path) -> None:
    with Queue(tmp_path / "queue.sqlite", retry_delay_s=3600) as queue:
        queue.add([entry("a"), entry("b")])
        queue.finish(leased(queue), HOST)
        assert leased(queue).entry.key == "b"
        assert queue.lease() is None
        pause = queue.next_try_s()
        assert pause is not None
        assert 3500 < pause <= 3600


def test_what_needs_a_failed_entry_fails_with_it_and_comes_back_with_it(queue: Queue) -> None:
    queue.add([entry("train"), entry("inference", after="train"), entry("report", after="inference")])
    queue.finish(leased(queue), CRASHED)
    assert queue.failures() == {"exception": 1, "prerequisite": 2}
    assert queue.revive(["infrastructure"]) == []
    assert queue.failures() == {"exception": 1, "prerequisite": 2}
    assert queue.revive(["exception"]) == ["train", "inference", "report"]
    for key in ("train", "inference", "report"):
        lease = leased(queue)
        assert lease.entry.key == key
        assert queue.lease() is None
        queue.finish(lease, DONE)
    assert queue.unsettled() == 0


def test_an_unknown_prerequisite_is_refused_and_nothing_is_added(queue: Queue) -> None:
    with pytest.raises(ValueError, match="which is not in the queue"):
        queue.add([entry("a"), entry("b", after="c")])
    assert queue.entries() == []


def test_a_restricted_queue_hands_out_and_counts_its_own_only(queue: Queue) -> None:
    queue.add([entry("a"), entry("b"), entry("c")])
    queue.restrict(["b"])
    assert leased(queue).entry.key == "b"
    assert queue.lease() is None
    assert queue.unsettled() == 1
    queue.restrict(None)
    assert queue.unsettled() == 3


LEASE_AND_WAIT = """
import sys
from pathlib import Path
from a2perf.launch.queue import Queue
queue = Queue(Path(sys.argv[1]))
lease = queue.lease()
queue.running(lease, "job of the dead")
print(lease.entry.key, flush=True)
sys.stdin.read()
"""


def lease_elsewhere(path: Path) -> subprocess.Popen[str]:
    process = Child(
        [sys.executable, "-c", textwrap.dedent(LEASE_AND_WAIT), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "a"
    return process


def test_only_the_lease_of_a_dead_process_is_lost_and_handed_out_again(queue: Queue) -> None:
    queue.add([entry("a")])
    with lease_elsewhere(queue.path) as process:
        assert queue.reap() == []
        assert states(queue) == {"a": State.RUNNING}
        process.kill()
        process.wait(300)
        assert queue.reap() == ["a"]
        assert states(queue) == {"a": State.LOST}
        lease = leased(queue)
    assert lease.entry.job == "job of the dead"
    assert lease.entry.retries == 1
    assert queue.finish(lease, DONE) is State.FINISHED


def test_two_processes_never_hold_the_same_entry(tmp_path: Path) -> None:
    code = """
    import sys
    from pathlib import Path
    from a2perf.launch import AttemptOutcome, Queue
    queue = Queue(Path(sys.argv[1]))
    while (lease := queue.lease()) is not None:
        assert queue.running(lease, "x")
        assert queue.finish(lease, AttemptOutcome(True))
        print(lease.entry.key)
    """
    path = tmp_path / "queue.sqlite"
    with Queue(path) as queue:
        queue.add([entry(f"run {number}") for number in range(300)])
        argv = [sys.executable, "-c", textwrap.dedent(code), str(path)]
        workers = [Child(argv, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        done = [line for worker in workers for line in worker.communicate(timeout=300)[0].splitlines()]
        assert len(done) == len(set(done)) == 300
        assert queue.counts()[State.FINISHED] == 300


def test_another_hosts_lease_is_lost_when_it_goes_silent(queue: Queue, tmp_path: Path) -> None:
    queue.add([entry("a")])
    leased(queue)
    stranger = str(ProcessIdentity("elsewhere", "another-boot/pid:[1]", os.getpid(), 5))
    with sqlite3.connect(queue.path) as raw:
        raw.execute("UPDATE entries SET worker = ?", (stranger,))
    assert queue.reap() == []
    with sqlite3.connect(queue.path) as raw:
        raw.execute("UPDATE entries SET heartbeat = ?", (time.time() - 3600,))
    assert queue.reap() == ["a"]


def test_a_heartbeat_names_the_leases_that_are_still_held(queue: Queue) -> None:
    queue.add([entry("a"), entry("b")])
    first, second = leased(queue), leased(queue)
    assert queue.heartbeat() == {first.token, second.token}
    queue.release(first)
    assert queue.heartbeat() == {second.token}


def test_a_file_of_another_kind_or_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "queue.sqlite"
    Queue(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA user_version = 99")
    with pytest.raises(UserError, match="schema 99"):
        Queue(path)
    (tmp_path / "other").write_text("these are not the rows " * 100)
    with pytest.raises(UserError, match="cannot be opened"):
        Queue(tmp_path / "other")
