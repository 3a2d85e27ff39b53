"""The experiment store: indexing 1,000 runs of 10,000 points and loading one metric of all, cold and warm.

    python perf/rlops_store.py [--json] [--runs 1000] [--points 10000] [--tags 1]

Every run has its records and an event file of ``--tags`` metrics. Every number comes from a new process: wall and CPU
seconds, and peak resident memory of its largest process, without index and cache of series (cold), with them (warm),
and warm after adding a run. The baseline is a process that only reads every file of the store once. A tenth of the runs
shows the growth.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from tests.rlops import made_runs  # noqa: E402 -- the repository is put on the path first

READ_ALL = (
    "import pathlib, sys\nfor path in pathlib.Path(sys.argv[1]).rglob('*'):\n"
    "    '.index' in path.parts or path.is_file() and path.read_bytes()"
)
LOAD = """
import sys
from pathlib import Path
from a2perf.rlops.filters import RunQuery
from a2perf.rlops.store import Store
from a2perf.runs.stores.store import read_curves
if __name__ == "__main__":
    store = Store(Path(sys.argv[1]))
    curves = read_curves(store.select(RunQuery(tags=("v1.0.0",))), "charts/episodic_return")
    assert len(curves) == int(sys.argv[2]), len(curves)
    assert all(len(curve.values) == int(sys.argv[3]) for curve in curves.values())
"""


def make(store: Path, runs: int, points: int, tags: int) -> None:
    """Writes runs in the matrix's layout: 10 seeds in each of 10 environments per experiment."""
    names = [made_runs.METRIC, *(f"losses/loss_{index}" for index in range(1, tags))]
    contents = []
    for seed in range(5):
        noise = random.Random(seed)
        curve = [(100 * step, 200 * (1 - math.exp(-step / 3000)) + noise.gauss(0, 9)) for step in range(points)]
        contents.append(made_runs.events(dict.fromkeys(names, curve)))
    for index in range(runs):
        write(store, index, contents[index % len(contents)])


def write(store: Path, index: int, content: bytes) -> None:
    experiment, env, seed = index // 100, index // 10 % 10, index % 10
    made_runs.write_run(
        store,
        f"ppo_{experiment}/Env{env}-v0/v1.0.0/seed_{seed}",
        experiment=f"ppo_{experiment}",
        env_id=f"Env{env}-v0",
        seed=seed,
        tags=["v1.0.0"],
        config={"learning_rate": 2.5e-4, "gamma": 0.99},
        curves=content,
    )


def measured(command: list[str]) -> dict[str, float]:
    """Wall seconds, processor seconds and peak resident bytes of a child process."""
    began = time.perf_counter()
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=REPOSITORY)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    if status:
        raise RuntimeError(f"{command} ended with status {status}")
    return {"wall_s": wall, "processor_s": used.ru_utime + used.ru_stime, "peak_mib": used.ru_maxrss / 1024}


def measure(work: Path, runs: int, points: int, tags: int) -> dict[str, dict[str, float]]:
    store = work / f"store{runs}"
    make(store, runs, points, tags)
    script = work / "load.py"
    script.write_text(LOAD)
    rows = {"reading every file": measured([sys.executable, "-c", READ_ALL, str(store)])}
    rows["cold"] = measured([sys.executable, str(script), str(store), str(runs), str(points)])
    rows["warm"] = measured([sys.executable, str(script), str(store), str(runs), str(points)])
    name = {made_runs.METRIC: [(step, 1.0) for step in range(points)]}
    write(store, runs, made_runs.events(name))
    rows["warm, one run more"] = measured([sys.executable, str(script), str(store), str(runs + 1), str(points)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--tags", type=int, default=1)
    options = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        os.environ["A2PERF_CACHE_DIR"] = f"{name}/cache"
        for runs in (options.runs // 10, options.runs):
            results[str(runs)] = measure(Path(name), runs, options.points, options.tags)
    if options.json:
        print(json.dumps(results, indent=2))
        return
    print(f"{'runs':>6}  {'':20}{'wall s':>9}{'CPU s':>9}{'ms/run':>9}{'peak MiB':>10}{'x reading':>11}")
    for runs, rows in results.items():
        for label, row in rows.items():
            ratio = row["processor_s"] / rows["reading every file"]["processor_s"]
            print(
                f"{runs:>6}  {label:20}{row['wall_s']:9.2f}{row['processor_s']:9.2f}"
                f"{1e3 * row['wall_s'] / int(runs):9.2f}{row['peak_mib']:10.0f}{ratio:11.1f}"
            )


if __name__ == "__main__":
    main()
