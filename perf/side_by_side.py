"""Compares the costs of two checkouts of a2perf, as ratios of this one to the other.

    python perf/side_by_side.py OTHER_CHECKOUT [--json] [--rounds 5] [--bundles 1000] [--runs 1000]

The other checkout has its own ``.venv`` (``make setup`` there). Every number comes from new commands that alternate
between the checkouts, so a change of the machine's load affects both. The ratios are new over old, of the smallest and
of the median processor seconds including children, and of wall seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from perf import rlops_store, score  # noqa: E402 -- the repository is put on the path first

TRAIN_GIN = """
import a2perf.submission.submission_util
Submission.mode = 'train'
Submission.domain = 'quadruped_locomotion'
"""


class Checkout:
    """A checkout with its own virtual environment."""

    def __init__(self, folder: Path, work: Path) -> None:
        self.folder, self.bin = folder, folder / ".venv" / "bin"
        self.work = work
        work.mkdir()

    def run(self, words: Sequence[str], **variables: str) -> tuple[float, float]:
        """Runs a program of the environment; returns wall and processor seconds of its tree."""
        began = time.perf_counter()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
        argv = [str(self.bin / words[0]), *words[1:]]
        pid = os.posix_spawn(
            argv[0],
            argv,
            environment,
            file_actions=[(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)],
        )
        _, status, used = os.wait4(pid, 0)
        if status:
            raise SystemExit(f"{' '.join(argv)} ended with status {status}")
        return time.perf_counter() - began, used.ru_utime + used.ru_stime


Case = Callable[[Checkout, int], tuple[float, float]]


def entry_in(folder: Path) -> Path:
    """Writes a submission with a ``train()`` that returns at once."""
    folder.mkdir()
    (folder / "train.py").write_text("def train():\n    pass\n")
    for name in ("inference.py", "requirements.txt", "__init__.py"):
        (folder / name).write_text("")
    (folder / "training.gin").write_text(TRAIN_GIN)
    return folder


def cases(work: Path, bundles: int, runs: int) -> dict[str, Case]:
    """Returns the measurements by name."""
    entry = entry_in(work / "entry")
    score.make(work / "bundles", bundles, 1000)

    def words(*given: str) -> Case:
        return lambda one, number: one.run(given)

    def no_op(one: Checkout, number: int) -> tuple[float, float]:
        root = one.work / f"run{number}"
        given = ("--submission", str(entry), "--gin_config", str(entry / "training.gin"), "--root_dir", str(root))
        return one.run(["a2perf-launch", *given])

    def scored(one: Checkout, number: int) -> tuple[float, float]:
        cache = one.work / f"cache{number}"
        given = ["a2perf", "score", str(work / "bundles"), "-o", str(one.work / "scores")]
        return one.run(given, A2PERF_CACHE_DIR=str(cache))

    def compared(one: Checkout, number: int, *, warm: bool) -> tuple[float, float]:
        store = one.work / "store"
        if not store.exists():
            rlops_store.make(store, runs, 10_000, 1)
        if not warm:
            shutil.rmtree(store / ".index", ignore_errors=True)
        given = ["a2perf", "rlops", "--store", str(store), "--no-figures", "--no-report", "--tags", "v1.0.0"]
        given += ["--output-filename", str(one.work / "compared")]
        return one.run(given, A2PERF_CACHE_DIR=str(one.work / f"series{number}"))

    return {
        "import a2perf": words("python", "-c", "import a2perf"),
        "import a2perf.domains": words("python", "-c", "import a2perf.domains"),
        "a2perf --help": words("a2perf", "--help"),
        "run with an empty train()": no_op,
        "score, cold": scored,
        "score, warm": scored,  # with the cache that the cold one of the same round left
        "compare, cold": lambda one, number: compared(one, number, warm=False),
        "compare, warm": lambda one, number: compared(one, number, warm=True),
    }


def inside(one: Checkout, script: str, *options: str) -> dict[str, float]:
    """Runs a benchmark of a checkout that prints JSON; returns its seconds and microseconds by name."""
    argv = [str(one.bin / "python"), str(one.folder / "perf" / script), "--json", *options]
    document = json.loads(subprocess.run(argv, check=True, capture_output=True, text=True, cwd=one.folder).stdout)
    found = {}
    for name, row in document.items():
        if script == "transport.py" and "median_us" in row:
            found[f"transport: {name}"] = row["median_us"]
        elif "seconds" in row:
            readers = {key: value for key, value in row["seconds"].items() if key != "EventAccumulator"}
            found |= {f"event files, {name}: {key}": value for key, value in readers.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bundles", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=1000, help="of the comparison; hundreds")
    options = parser.parse_args()
    wall: dict[str, tuple[list[float], list[float]]] = {}
    cpu: dict[str, tuple[list[float], list[float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        both = Checkout(options.other.resolve(), work / "old"), Checkout(REPOSITORY, work / "new")
        todo = cases(work, options.bundles, options.runs)
        for number in range(options.rounds):
            for case, measured in todo.items():
                slow = "cold" in case or "warm" in case
                for side, one in enumerate(both) if number % 2 == 0 else reversed(list(enumerate(both))):
                    if slow and number >= 3:
                        continue
                    seconds = measured(one, number)
                    wall.setdefault(case, ([], []))[side].append(seconds[0])
                    cpu.setdefault(case, ([], []))[side].append(seconds[1])
            for script, extra in (("event_files.py", ("--files", "5")), ("transport.py", ())):
                for side, one in enumerate(both):
                    for case, value in inside(one, script, *extra).items():
                        cpu.setdefault(case, ([], []))[side].append(value)
    rows = {}
    for case, (old, new) in cpu.items():
        if not (old and new):  # a case that the other checkout does not have
            continue
        rows[case] = {
            "old": min(old),
            "new": min(new),
            "ratio": min(new) / min(old),
            "ratio of medians": statistics.median(new) / statistics.median(old),
        }
        if case in wall:
            rows[case]["ratio of wall"] = min(wall[case][1]) / min(wall[case][0])
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'':45}{'old':>10}{'new':>10}{'ratio':>8}{'median':>8}{'wall':>8}")
    for case, row in rows.items():
        end = f"{row['ratio of wall']:8.2f}" if "ratio of wall" in row else ""
        print(f"{case:45}{row['old']:10.3f}{row['new']:10.3f}{row['ratio']:8.2f}{row['ratio of medians']:8.2f}{end}")


if __name__ == "__main__":
    main()
