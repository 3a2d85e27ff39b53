"""Costs of tracking a run, each number with its baseline from the same run.

    python perf/trackers.py [--json] [--seconds 10]

Import time above bare Python; cost of 1 Hz sampling of a tree of 20 processes; cost and rate of reading energy counters
between the samples; processor time of 20 short-lived children against the kernel's own account;
what a caller waits for ``prepare``, ``attach`` and ``stop``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

START_S = 2.0  # the counters are open and the samples of the first second taken
CHILD = "import time\nt = time.process_time()\nwhile time.process_time() - t < {seconds}: pass\n"
PARENT = """
import subprocess, sys
for _ in range({count}):
    subprocess.run([sys.executable, "-S", "-c", {child!r}], check=True)
"""
SLEEPERS = """
import subprocess, sys, time
children = [subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"]) for _ in range({count})]
print("up", flush=True)
sys.stdin.read()
for child in children: child.kill(); child.wait()
"""


def import_cost(repeats: int = 5) -> dict[str, float]:
    """Median wall milliseconds of a bare interpreter and of one that imports the package or the sampler."""

    def median_ms(code: str) -> float:
        times = []
        for _ in range(repeats):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(time.perf_counter() - began)
        return 1e3 * statistics.median(times)

    bare = median_ms("pass")
    return {
        "bare_python_ms": bare,
        "sampler_above_bare_ms": median_ms("import a2perf.metrics.trackers.sampler") - bare,
    }


def sampling_cost(seconds: float, processes: int = 20) -> dict[str, float]:
    """Processor time of 1 Hz sampling of a tree of sleeping processes, in percent of one core."""
    from a2perf.metrics.trackers.sampler import Sampler

    tree = subprocess.Popen(
        [sys.executable, "-S", "-c", SLEEPERS.format(count=processes - 1)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert tree.stdout is not None
    tree.stdout.readline()
    with tempfile.TemporaryDirectory() as folder:
        sampler = Sampler(directory=Path(folder), with_codecarbon=False)
        before = time.process_time()
        sampler.attach(tree.pid)
        time.sleep(START_S)
        started = time.process_time()
        time.sleep(seconds - START_S)
        steady = (time.process_time() - started) / (seconds - START_S)
        report = sampler.stop()
        whole = time.process_time() - before
    tree.communicate(b"")
    return {
        "processes": report.processes_peak,
        "seconds": report.wall_s,
        "samples": report.samples,
        "own_percent_of_one_core": report.own_cpu_percent,
        "steady_percent_of_one_core": 100 * steady,
        "whole_evaluator_percent": 100 * whole / report.wall_s,
    }


def counter_readings(seconds: float, packages: int = 2) -> dict[str, float]:
    """Rate and processor time of reading the counters of packages and memory, in percent of one core.

    Where the machine has no counters, files stand in for them. Reading a file costs what reading the kernel's file
    costs, less the register behind it: about a microsecond (``rdmsr``).
    """
    from a2perf.metrics.trackers.energy import CpuEnergy, RamEnergy
    from a2perf.metrics.trackers.power_domains import POWERCAP, PowerDomains
    from a2perf.metrics.trackers.sampler import Readings

    with tempfile.TemporaryDirectory() as folder:
        real = bool(PowerDomains().readable)
        files = [] if real else list(_standing_in(Path(folder), packages))
        trackers = [kind(powercap=POWERCAP if real else Path(folder)) for kind in (CpuEnergy, RamEnergy)]
        for tracker in trackers:
            tracker.start()

        readings = Readings([tracker.poll for tracker in trackers])
        began, work = time.perf_counter(), time.thread_time()
        readings.wait(threading.Event(), seconds)
        work, wall = time.thread_time() - work, time.perf_counter() - began
    return {
        "real_counters": float(real),
        "counters": float(len(files) or sum(PowerDomains().readable.values())),
        "readings_per_s": min(readings.counts) / wall,
        "own_percent_of_one_core": 100 * work / wall,
    }


def _standing_in(folder: Path, packages: int) -> Iterator[Path]:
    for package in range(packages):
        zone = folder / f"intel-rapl:{package}"
        for path, name in ((zone, f"package-{package}"), (zone / f"{zone.name}:0", "dram")):
            path.mkdir(parents=True)
            (path / "name").write_text(name)
            (path / "max_energy_range_uj").write_text("262143328850")
            (path / "energy_uj").write_text(str(1_000_000 * package))
            yield path


@contextmanager
def dedicated_cgroup() -> Iterator[tuple[Path, str] | None]:
    """Creates a control group that accounts processor time; returns its folder and version, ``None`` if it cannot."""
    name = f"a2perf-perf-{os.getpid()}"
    for base, usage in ((Path("/sys/fs/cgroup/cpuacct"), "cpuacct.usage"), (Path("/sys/fs/cgroup"), "cpu.stat")):
        folder = base / name
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            if (folder / usage).exists():
                yield folder, "cgroup_v1" if usage.startswith("cpuacct") else "cgroup_v2"
                return
        finally:
            with suppress(OSError):
                folder.rmdir()
    yield None


def short_children(count: int = 20, seconds: float = 0.25) -> dict[str, float | str]:
    """Processor seconds of short-lived children: by the sampler, by live sampling alone, and by the kernel."""
    from a2perf.metrics.trackers.procfs import read_cgroup
    from a2perf.metrics.trackers.sampler import Sampler
    from a2perf.metrics.trackers.tick import Tick

    class LiveOnly:
        """Sums the growth of live processes, like a sampler that forgets ended ones."""

        name = "live_only"

        def __init__(self) -> None:
            self.total = 0.0
            self.last: dict[int, float] = {}

        def start(self) -> None: ...

        def attach(self) -> None: ...

        def stop(self) -> None: ...

        def sample(self, tick: Tick) -> None:
            from a2perf.metrics.trackers.procfs import CLOCK_TICKS_PER_S, read_stat

            stats = [read_stat(pid) for pid in (tick.tree.pids if tick.tree else ())]
            now = {stat.pid: stat.own_ticks / CLOCK_TICKS_PER_S for stat in stats if stat is not None}
            self.total += sum(value - self.last.get(pid, value) for pid, value in now.items())
            self.last = now

    live = LiveOnly()
    code = PARENT.format(count=count, child=CHILD.format(seconds=seconds))
    with dedicated_cgroup() as group:

        def enter() -> None:
            if group is not None:
                (group[0] / "cgroup.procs").write_text("0")

        sampler = Sampler(mode="train", trackers=[live], with_codecarbon=False)
        sampler.prepare()
        # The parent's own start-up is in every account.
        process = subprocess.Popen([sys.executable, "-S", "-c", code], preexec_fn=enter)
        sampler.attach(process.pid)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        report = sampler.stop()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        rusage = usage.ru_utime + usage.ru_stime
        kernel = read_cgroup([group[0]]).cpu_seconds if group is not None else None
    truth, method = (kernel, group[1]) if kernel is not None and group is not None else (rusage, "rusage")
    return {
        "truth_method": method,
        "truth_cpu_s": truth,
        "rusage_cpu_s": rusage,
        "sampler_cpu_s": report.cpu_seconds,
        "sampler_method": report.cpu_method,
        "sampler_over_truth": report.cpu_seconds / truth,
        "live_sampling_alone_over_truth": live.total / truth,
    }


def waits(repeats: int = 5) -> dict[str, float]:
    """Median milliseconds that a caller waits in each call, with files."""
    from a2perf.metrics.trackers.emissions import EmissionsSettings
    from a2perf.metrics.trackers.sampler import Sampler

    times: dict[str, list[float]] = {"prepare": [], "attach": [], "mark": [], "stop": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            settings = EmissionsSettings(country_iso_code="USA", region="Massachusetts")
            sampler = Sampler(directory=Path(folder), settings=settings)
            process = None

            def attach(sampler: Sampler = sampler) -> None:
                nonlocal process
                process = subprocess.Popen(["sleep", "10"])
                began = time.perf_counter()
                sampler.attach(process.pid)
                times["attach"].append(time.perf_counter() - began)

            for name, call in (("prepare", sampler.prepare), ("", attach), ("mark", lambda s=sampler: s.mark("train"))):
                began = time.perf_counter()
                call()
                if name:
                    times[name].append(time.perf_counter() - began)
            time.sleep(0.3)
            began = time.perf_counter()
            sampler.stop()
            times["stop"].append(time.perf_counter() - began)
            assert process is not None
            process.kill()
            process.wait()
    return {f"{name}_ms": 1e3 * statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Prints the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to sample the tree of 20 processes")
    arguments = parser.parse_args()
    results = {
        "import": import_cost(),
        "waits": waits(),
        "short_children": short_children(),
        "sampling_20_processes_at_1_hz": sampling_cost(arguments.seconds),
        "reading_counters_between_samples": counter_readings(arguments.seconds),
    }
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    for title, values in results.items():
        print(title)
        for name, value in values.items():
            print(f"  {name:32} {value:.4g}" if isinstance(value, (int, float)) else f"  {name:32} {value}")


if __name__ == "__main__":
    main()
