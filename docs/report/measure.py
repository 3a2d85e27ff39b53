"""Records the overhead of the platform for the report: runs its benchmarks and keeps their results.

    python docs/report/measure.py [NAME ...]      writes overhead.json; benchmarks not named keep their numbers

The report itself measures nothing: the same bundles give the same report.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys

import msgspec
from findings import HERE, overhead

from a2perf.storage import write_json

HOUSE = HERE.parents[1]
BENCHMARKS = {"platform_cost": (), "transport": (), "trackers": ("--seconds", "5"), "baselines": ()}
ONLY_WHEN_NAMED = ("baselines",)
"""These take minutes, and two idle processors."""


def main() -> None:
    """Runs the benchmarks and writes their numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    measured = dict(overhead().get("measured", {}))
    for name in parser.parse_args().names or [name for name in BENCHMARKS if name not in ONLY_WHEN_NAMED]:
        command = [sys.executable, str(HOUSE / "perf" / f"{name}.py"), "--json", *BENCHMARKS[name]]
        print(f"$ {' '.join(command[1:])}", flush=True)
        done = subprocess.run(
            command, cwd=HOUSE, capture_output=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        measured[name] = msgspec.json.decode(done.stdout)
    host = {"model": _model(), "processors": len(os.sched_getaffinity(0)), "python": platform.python_version()}
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    write_json(HERE / "overhead.json", {"day": day, "host": host, "measured": measured})


def _model() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


if __name__ == "__main__":
    main()
