"""The comparison: indexing, reading and judging 1,000 runs of 10,000 points, cold and warm, with and without pictures.

    python perf/rlops.py [--json] [--runs 1000] [--points 10000]

Half of the runs have the tag ``old``, half ``new``, in ten environments. Every number comes from a new process that
runs ``a2perf rlops``: wall and processor seconds, and peak resident memory of its largest process. Cold is without the
index and the cache of curves, warm with them. The baseline is a process that only reads every file of the store once. A
tenth of the runs shows the growth.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from perf.rlops_store import READ_ALL, measured
from tests.rlops import made_runs

ENVIRONMENTS = 10
CURVES = 5


def make(store: Path, runs: int, points: int) -> None:
    """Writes as many runs of two versions on ten environments."""
    contents = []
    for kind in range(CURVES):
        steps = range(points)
        curve = [(100 * step, 200.0 * step / (step + points / 10) + (step * 7919 + kind) % 17) for step in steps]
        contents.append(made_runs.events({made_runs.METRIC: curve}))
    for index in range(runs):
        tag = ("old", "new")[index % 2]
        env, seed = f"Env{index // 2 % ENVIRONMENTS}-v0", index // 2 // ENVIRONMENTS
        made_runs.write_run(
            store,
            f"ppo/{env}/{tag}/seed_{seed}",
            experiment="ppo",
            env_id=env,
            seed=seed,
            tags=[tag],
            version=tag,
            curves=contents[(index // 2) % CURVES],
        )


def measure(work: Path, runs: int, points: int) -> dict[str, dict[str, float]]:
    """Measures one size."""
    store = work / f"store{runs}"
    make(store, runs, points)
    compiled = work / "compiled"
    command = [
        sys.executable,
        "-m",
        "a2perf",
        "rlops",
        "--exp-name",
        "ppo",
        "--tags",
        "new",
        "old",
        "--store",
        str(store),
        "--output-filename",
        str(work / "compare"),
    ]
    light = [*command, "--no-figures", "--no-report"]
    small = work / "small"
    make(small, 20, 10)
    measured(_silent([str(small) if word == str(store) else word for word in command], compiled))
    return {
        "reading every file": measured([sys.executable, "-c", READ_ALL, str(store)]),
        "cold": measured(_silent(light, compiled)),
        "warm": measured(_silent(light, compiled)),
        "warm, curves": measured(_silent([*command, "--no-report"], compiled)),
        "warm, curves, page": measured(_silent(command, compiled)),
    }


def _silent(command: list[str], bytecode: Path) -> list[str]:
    """Returns the command without its output, with compiled modules as an installed program has them."""
    compiled = f"env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX={shlex.quote(str(bytecode))}"
    return ["sh", "-c", f"exec {compiled} {shlex.join(command)} > /dev/null"]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--points", type=int, default=10_000)
    given = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        os.environ["A2PERF_CACHE_DIR"] = f"{name}/cache"
        for runs in (given.runs // 10, given.runs):
            results[str(runs)] = measure(Path(name), runs, given.points)
    if given.json:
        print(json.dumps(results, indent=2))
        return
    print(f"{'runs':>6}  {'':20}{'wall s':>9}{'CPU s':>9}{'peak MiB':>10}{'x reading':>11}")
    for runs, rows in results.items():
        for label, row in rows.items():
            ratio = row["processor_s"] / rows["reading every file"]["processor_s"]
            times = f"{row['wall_s']:9.2f}{row['processor_s']:9.2f}"
            print(f"{runs:>6}  {label:20}{times}{row['peak_mib']:10.0f}{ratio:11.1f}")


if __name__ == "__main__":
    main()
