"""Time and memory of ``a2perf score`` on many bundles, cold and warm.

    python perf/score.py [--json] [--bundles 1000] [--points 1000]

Half of the bundles are training runs (a curve as event file, an emissions table), half evaluations (rollouts,
latencies, an emissions table), with ten seeds per algorithm. Every number comes from a new command: wall and processor
seconds and peak resident memory of its largest process, with an empty cache folder (cold) and again (warm). The
baseline is a process that only reads every input file once. A tenth of the bundles shows that the cost is linear. The
same bundles are scored from a packed file, which must give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from a2perf.runs.pack import pack  # noqa: E402
from a2perf.storage import write_record  # noqa: E402 -- the repository is put on the path first
from tests.metrics import made_bundles  # noqa: E402

SEEDS = 10
READ_ALL = (
    "import pathlib, sys\nfor path in pathlib.Path(sys.argv[1]).rglob('*'):\n    path.is_file() and path.read_bytes()"
)


def make(folder: Path, bundles: int, points: int) -> None:
    """Writes ``bundles`` bundles; their measured files are copies of ten, their manifests differ."""
    originals = folder.parent / "originals"
    for seed in range(SEEDS):
        made_bundles.write_train(originals / str(seed), seed, points=points)
        made_bundles.write_inference(originals / str(seed), seed, count=100)
    for index in range(bundles // 2):
        algorithm, seed = divmod(index, SEEDS)
        root = folder / f"agent_{algorithm:03d}" / f"seed_{seed}"
        shutil.copytree(originals / str(seed), root)
        for mode in ("train", "inference"):
            manifest = made_bundles.manifest(mode, seed, name=f"agent_{algorithm:03d}")
            write_record(root / mode / "manifest.json", manifest)


def measured(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Wall seconds, processor seconds and peak resident bytes of a child process."""
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, cwd=REPOSITORY)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    if status:
        raise RuntimeError(f"{command} ended with status {status}")
    return {
        "wall_s": wall,
        "processor_s": used.ru_utime + used.ru_stime,
        "peak_mib": used.ru_maxrss / 1024,
    }


def measure(folder: Path, work: Path) -> dict[str, dict[str, float]]:
    found = {"reading every file": measured([sys.executable, "-c", READ_ALL, str(folder)], dict(os.environ))}
    scores = set()
    for runs, form in ((folder, ""), (pack([folder]), "packed, ")):
        environment = {**os.environ, "A2PERF_CACHE_DIR": str(work / f"cache-{runs.name}"), "OMP_NUM_THREADS": "1"}
        out = work / f"out-{runs.name}"
        command = [sys.executable, "-m", "a2perf", "score", str(runs), "-o", str(out)]
        for cache in ("cold", "warm"):
            found[form + cache] = measured(command, environment)
            scores.add((out / "scores.json").read_bytes())
    assert len(scores) == 1, "the same input must give the same bytes"
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--bundles", type=int, default=1000)
    parser.add_argument("--points", type=int, default=1000, help="of a training curve")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for count in (options.bundles // 10, options.bundles):
            folder = work / f"runs{count}"
            make(folder, count, options.points)
            results[str(count)] = measure(folder, work)
            shutil.rmtree(work / "originals")
    if options.json:
        print(json.dumps(results, indent=2))
        return
    print(f"{'bundles':>8}  {'':20}{'wall s':>9}{'CPU s':>9}{'ms/bundle':>11}{'peak MiB':>10}{'x reading':>11}")
    for count, rows in results.items():
        for label, row in rows.items():
            ratio = row["processor_s"] / rows["reading every file"]["processor_s"]
            each = 1e3 * row["wall_s"] / int(count)
            print(
                f"{count:>8}  {label:20}{row['wall_s']:9.2f}{row['processor_s']:9.2f}{each:11.2f}"
                f"{row['peak_mib']:10.0f}{ratio:11.1f}"
            )


if __name__ == "__main__":
    main()
