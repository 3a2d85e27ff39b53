"""Fails if a hot path has lost most of its speed: ratios of the quick benchmarks in ``perf/`` against loose floors.

Both sides of a ratio are measured in the same process, so a slow or busy machine hardly matters. The floors are about a
third of what an idle machine gives: this catches a kernel that no longer compiles, not a loss of ten percent.

    make perf-smoke                           half a minute
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def _kernel(name: str) -> Callable[[Any], float]:
    def ratio(result: Any) -> float:
        (row,) = (row for row in result["costs"] if row["what"] == name)
        return float(row["plain ms"] / row["ms"])

    return ratio


@dataclass(frozen=True)
class Check:
    """One ratio and its floor.

    Attributes:
        script: benchmark with its arguments, relative to the repository.
        what: name in the output.
        ratio: reads the ratio from the JSON object that the benchmark prints; larger is faster.
        floor: smallest accepted ratio.
    """

    script: str
    what: str
    ratio: Callable[[Any], float]
    floor: float


CHECKS = (
    Check("perf/metrics.py", "reliability metrics against plain loops", lambda r: r["reliability"]["ratio"], 12),
    Check("perf/metrics.py", "bootstrap against one resample at a time", lambda r: _bootstrap(r), 7),
    Check("perf/circuit.py --only costs", "congestion against NumPy", _kernel("congestion"), 100),
    Check("perf/circuit.py --only costs", "density against NumPy", _kernel("density"), 300),
    Check("perf/circuit.py --only costs", "mask against NumPy", _kernel("mask"), 1500),
    Check(
        "perf/transport.py", "bare socket against the wire, 1 MB", lambda r: 1 / r["graph, dict of 1 MB"]["ratio"], 0.15
    ),
)


def _bootstrap(result: Any) -> float:
    return float(result["bootstrap"]["iqm_ratio_one_at_a_time"])


def main() -> int:
    """Runs every benchmark once, prints a table and returns 1 if a ratio is below its floor."""
    results: dict[str, Any] = {}
    slow = 0
    for check in CHECKS:
        if check.script not in results:
            command = [sys.executable, *check.script.split(), "--json"]
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
            results[check.script] = json.loads(done.stdout)
        ratio = check.ratio(results[check.script])
        verdict = "ok" if ratio >= check.floor else "SLOW"
        slow += verdict != "ok"
        print(f"{verdict:<5}{ratio:>9.2f}  floor {check.floor:>7.2f}  {check.what} ({check.script})")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
