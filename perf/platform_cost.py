"""Overhead of the platform: imports, command lines, and a run with an empty ``train()``.

``python perf/platform_cost.py [--json]``. Every time is the median of several starts, beside a bare interpreter in the
same run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRAIN_GIN = """
import a2perf.submission.submission_util
Submission.mode = 'train'
Submission.domain = 'quadruped_locomotion'
Submission.measure_emissions = True
track_emissions_decorator.country_iso_code = 'USA'
track_emissions_decorator.region = 'Massachusetts'
track_emissions_decorator.offline = True
"""


def median_s(argv: list[str], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    scripts = Path(sys.executable).parent
    bare = median_s([sys.executable, "-c", "pass"], options.repeats)
    numbers = {"bare interpreter (s)": bare}
    imported = median_s([sys.executable, "-c", "import a2perf"], options.repeats)
    numbers["import a2perf, above bare (s, target 0.05)"] = imported - bare
    numbers["import a2perf.domains, above bare (s)"] = (
        median_s([sys.executable, "-c", "import a2perf.domains"], options.repeats) - bare
    )
    numbers["a2perf --help (s, target 0.3)"] = median_s([str(scripts / "a2perf"), "--help"], options.repeats)
    with tempfile.TemporaryDirectory() as folder:
        entry = Path(folder) / "entry"
        entry.mkdir()
        (entry / "train.py").write_text("def train():\n    pass\n")
        for name in ("inference.py", "requirements.txt", "__init__.py"):
            (entry / name).write_text("")
        (entry / "training.gin").write_text(TRAIN_GIN)
        numbers["run with an empty train(), all trackers on (s, target 1.5)"] = median_s(
            [
                str(scripts / "a2perf-launch"),
                "--submission",
                str(entry),
                "--gin_config",
                "training.gin",
                "--root_dir",
                str(Path(folder) / "run"),
                "--force",
            ],
            options.repeats,
        )
    if options.json:
        print(json.dumps(numbers, indent=2))
        return
    for name, value in numbers.items():
        print(f"{name:<75} {value:8.3f}   {value / bare:6.1f} x bare interpreter")


if __name__ == "__main__":
    main()
