"""Overhead of each launcher: the same short command started directly, and through every launcher of this host.

``python perf/launchers.py [--json] [--count N]``. Uses the private Docker, Slurm and Ray instances of the tests; prints
the reason for each one that cannot be started on this host.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from a2perf.launch import Launcher, Resources, RunCommand, get_launcher
from tests.launch import docker_engine, ray_cluster, slurm_cluster

ARGV = ("/bin/sh", "-c", "exit 0")
POLL_S = 0.02


@contextlib.contextmanager
def local() -> Iterator[Launcher]:
    """Child processes."""
    yield get_launcher("local")


@contextlib.contextmanager
def docker() -> Iterator[Launcher]:
    """A private engine."""
    with docker_engine.running_engine() as engine:
        os.environ["DOCKER_HOST"] = engine.host
        mounts = ":".join(map(str, engine.mounts))
        yield get_launcher("docker", image=engine.image, python=sys.executable, mounts=mounts)


@contextlib.contextmanager
def slurm() -> Iterator[Launcher]:
    """A private cluster."""
    with slurm_cluster.running_cluster() as cluster:
        os.environ.update(cluster.environment)
        yield get_launcher("slurm", poll_s=POLL_S)


@contextlib.contextmanager
def ray() -> Iterator[Launcher]:
    """A private cluster of one node."""
    with ray_cluster.running_cluster() as cluster:
        launcher = get_launcher("ray", address=cluster.address, poll_s=POLL_S)
        yield launcher
        launcher.close()


LAUNCHERS: dict[str, tuple[Callable[[], Any], Callable[[], str | None]]] = {
    "local": (local, lambda: None),
    "docker": (docker, docker_engine.missing),
    "slurm": (slurm, slurm_cluster.missing),
    "ray": (ray, ray_cluster.missing),
}


def through(launcher: Launcher, folder: Path, count: int) -> float:
    """Returns the median time from ``start`` to the end of one command, in seconds; the first one is not counted."""
    taken = []
    for number in range(count + 1):
        log = folder / launcher.name / f"{number}.log"
        command = RunCommand(ARGV, f"perf {number}", folder, log=log, resources=Resources(memory_bytes=2**28))
        started = time.perf_counter()
        job = launcher.start(command)
        while (ended := job.poll()) is None:
            launcher.wait(POLL_S)
        taken.append(time.perf_counter() - started)
        assert ended.exit_code == 0, ended
    return statistics.median(taken[1:])


def directly(count: int) -> float:
    """Returns the median time of the same command as a plain child process, in seconds."""
    taken = []
    for _ in range(count):
        started = time.perf_counter()
        subprocess.run(ARGV, check=True)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--count", type=int, default=10)
    options = parser.parse_args()
    found: dict[str, Any] = {"direct_s": directly(options.count), "launchers": {}}
    for name, (make, missing) in LAUNCHERS.items():
        reason = missing()
        if reason is not None:
            found["launchers"][name] = {"missing": reason}
            continue
        with tempfile.TemporaryDirectory() as folder, make() as launcher:
            taken = through(launcher, Path(folder), options.count)
        found["launchers"][name] = {"run_s": taken, "ratio": taken / found["direct_s"]}
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(f"directly   {found['direct_s'] * 1000:9.1f} ms")
    for name, row in found["launchers"].items():
        print(
            f"{name:10} {row['run_s'] * 1000:9.1f} ms, {row['ratio']:.0f} times"
            if "run_s" in row
            else f"{name:10} not available: {row['missing']}"
        )


if __name__ == "__main__":
    main()
