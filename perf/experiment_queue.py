"""Costs of the queue and the scheduler, and how the time of an experiment grows with runs and workers.

``python perf/experiment_queue.py [--json] [--quick]``. Three parts: lease and finish against bare SQLite transactions
on the same disk; real commands through the scheduler against starting them directly; and the real queue and scheduler
on a virtual clock, with a simulated launcher, for schedules that would take days.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import a2perf.launch.queue as queue_module
import a2perf.launch.scheduler as scheduler_module
from a2perf.launch import AttemptOutcome, ExitStatus, Queue, RunCommand, drive, get_launcher
from a2perf.launch.run_spec import RunSpec

NOTHING = RunCommand(("/bin/true",))
MEDIAN_RUN_S = 20 * 60
SPREAD = 0.6
LOSSES_PER_WORKER_HOUR = 0.01
START_S = 3.0
LOST_WORK_S = 300.0


def rate(count: int, action: Callable[[], None]) -> float:
    """Returns how often per second an action can be done."""
    started = time.perf_counter()
    for _ in range(count):
        action()
    return count / (time.perf_counter() - started)


def bare_rate(path: Path, count: int) -> float:
    """Updates a row in one transaction, with the settings of the queue."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, state TEXT)")
    connection.execute("INSERT INTO rows VALUES (1, '')")

    def update() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE rows SET state = 'x' WHERE number = 1")
        connection.execute("COMMIT")

    found = rate(count, update)
    connection.close()
    return found


def throughput(folder: Path, entries: int, count: int) -> dict[str, float]:
    """Measures adding entries, and taking them from queued to finished (three transactions each)."""
    with Queue(folder / "queue.sqlite") as queue:
        started = time.perf_counter()
        queue.add([RunSpec(f"run {number}", NOTHING, {"seed": number}) for number in range(entries)])
        added = entries / (time.perf_counter() - started)

        def one() -> None:
            lease = queue.lease()
            assert lease is not None
            queue.running(lease, "job")
            queue.finish(lease, AttemptOutcome(True))

        settled = rate(count, one)
        started = time.perf_counter()
        queue.reap()
        reaped = time.perf_counter() - started
    bare = bare_rate(folder / "bare.sqlite", 3 * count) / 3
    return {
        f"entries added per second ({entries} in one call)": added,
        f"runs leased, started and finished per second ({entries} in the queue)": settled,
        "three bare transactions per second, the same disk": bare,
        "time of a run's three transactions over bare ones": bare / settled,
        "search for lost leases (s)": reaped,
    }


def overhead(folder: Path, count: int) -> dict[str, float]:
    """Measures the time of a run through the scheduler against starting the same program directly."""
    times = []
    for _ in range(count):
        started = time.perf_counter()
        subprocess.run(NOTHING.argv, check=True)
        times.append(time.perf_counter() - started)
    direct = statistics.median(times)
    with Queue(folder / "overhead.sqlite") as queue:
        queue.add([RunSpec(str(number), NOTHING) for number in range(count)])
        launcher = get_launcher("local")
        started, used = time.perf_counter(), time.process_time()
        summary = drive(queue, launcher, 1)
        wall, cpu = time.perf_counter() - started, time.process_time() - used
        launcher.close()
    assert summary.exit_code == 0
    return {
        "program started directly (ms)": direct * 1000,
        "the same through queue, scheduler and local launcher (ms)": wall / count * 1000,
        "overhead of a run (ms)": (wall / count - direct) * 1000,
        "of it processor time of the launcher (ms)": cpu / count * 1000,
    }


class Clock:
    """A clock that only advances on request; replaces the ``time`` module."""

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        return 1e9 + self.now

    def monotonic(self) -> float:
        return self.now


@dataclass
class PretendedJob:
    """A job that ends at a time of the virtual clock, finished or lost."""

    clock: Clock
    end: float
    lost: bool
    identity: str = "pretended"

    def poll(self) -> ExitStatus | None:
        if self.clock.now < self.end:
            return None
        return ExitStatus(None, lost=True, reason="the node was lost") if self.lost else ExitStatus(0)

    def cancel(self) -> None:
        self.end = self.clock.now


class PretendingLauncher:
    """Starts no processes; ``wait`` advances the clock to the next end. A lost run resumes from its last checkpoint."""

    name = "pretending"

    def __init__(self, clock: Clock, seed: int, losses_per_hour: float) -> None:
        self._clock = clock
        self._random = random.Random(seed)
        self._losses_per_s = losses_per_hour / 3600
        self._left: dict[str, float] = {}
        self._jobs: list[PretendedJob] = []
        self.busy_s = 0.0

    def start(self, command: RunCommand) -> PretendedJob:
        length = random.Random(command.name).lognormvariate(0, SPREAD) * MEDIAN_RUN_S  # the same in every schedule
        left = self._left.setdefault(command.name, length)
        until_loss = self._random.expovariate(self._losses_per_s) if self._losses_per_s else float("inf")
        lost = until_loss < left + START_S
        took = min(until_loss, left + START_S)
        if lost:
            self._left[command.name] = left - max(0.0, took - START_S - LOST_WORK_S)
        self.busy_s += took
        job = PretendedJob(self._clock, self._clock.now + took, lost)
        self._jobs.append(job)
        return job

    def adopt(self, identity: str) -> None:
        return None

    def wait(self, timeout_s: float) -> None:
        self._jobs = [job for job in self._jobs if job.end > self._clock.now]
        ends = [job.end for job in self._jobs]
        self._clock.now = min(ends) if ends else self._clock.now + timeout_s

    def run(self, command: RunCommand) -> int:
        raise RuntimeError("nothing runs here")

    def close(self) -> None:
        self._jobs = []


def schedule(folder: Path, runs: int, workers: int, losses_per_hour: float) -> dict[str, float]:
    """Drives a queue of runs on the virtual clock; times in hours of that clock."""
    clock = Clock()
    launcher = PretendingLauncher(clock, runs, losses_per_hour)
    real = queue_module.time, scheduler_module.time
    used = time.process_time()
    with Queue(folder / f"{runs}-{workers}-{losses_per_hour}.sqlite", max_retries=100) as queue:
        queue.add([RunSpec(f"run {number}", RunCommand(("x",), name=str(number))) for number in range(runs)])
        queue_module.time = scheduler_module.time = clock  # type: ignore[assignment]
        try:
            summary = drive(queue, launcher, workers)
        finally:
            queue_module.time, scheduler_module.time = real  # type: ignore[misc]
    assert summary.exit_code == 0
    paid = workers * clock.now
    return {
        "runs": runs,
        "workers": workers,
        "makespan_h": clock.now / 3600,
        "paid_worker_h": paid / 3600,
        "busy_share": launcher.busy_s / paid,
        "jobs_started": summary.attempts,
        "launcher_cpu_s": time.process_time() - used,
    }


def schedules(folder: Path, quick: bool) -> list[dict[str, float]]:
    """Returns the table of schedules."""
    sizes = (
        [(100, 16), (1000, 16)]
        if quick
        else [
            *((runs, 16) for runs in (100, 300, 1000, 3000)),
            *((1000, workers) for workers in (1, 4, 64, 256, 1000)),
        ]
    )
    found = [schedule(folder, runs, workers, 0.0) | {"losses_per_worker_hour": 0.0} for runs, workers in sizes]
    for loss in (LOSSES_PER_WORKER_HOUR, 10 * LOSSES_PER_WORKER_HOUR):
        found.append(schedule(folder, 1000, 16, loss) | {"losses_per_worker_hour": loss})
    return found


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="fewer entries and schedules")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        numbers: dict[str, Any] = {
            **throughput(folder, 2000 if options.quick else 10_000, 200 if options.quick else 2000),
            **overhead(folder, 20 if options.quick else 100),
        }
        table = schedules(folder, options.quick)
    if options.json:
        print(json.dumps({**numbers, "schedules": table}, indent=2))
        return
    for label, value in numbers.items():
        print(f"{label:75} {value:10.3f}")
    print(
        f"\nsimulated: median run {MEDIAN_RUN_S / 60:g} min, lognormal with sigma {SPREAD}, {START_S:g} s to start,"
        f" a lost one repeats its last {LOST_WORK_S / 60:g} min"
    )
    print("   runs  workers  losses/worker h   makespan h   paid worker h   busy   jobs   launcher CPU s")
    for row in table:
        print(
            f"{row['runs']:7.0f} {row['workers']:8.0f} {row['losses_per_worker_hour']:16.2f} {row['makespan_h']:12.2f}"
            f" {row['paid_worker_h']:15.1f} {row['busy_share']:6.1%} {row['jobs_started']:6.0f}"
            f" {row['launcher_cpu_s']:16.2f}"
        )


if __name__ == "__main__":
    main()
