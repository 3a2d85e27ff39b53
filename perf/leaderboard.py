"""Cost of a leaderboard over many bundles, against scoring the same bundles with ``score_runs`` in the same run.

    python perf/leaderboard.py [--bundles 1000] [--json]

The baseline reads and scores every bundle without a cache in one process; a leaderboard also hashes every file, ranks,
draws and writes the pages (reports left out). Both run in this process; memory is its peak resident set.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from a2perf.metrics.scores import score_runs
from a2perf.report.leaderboard import write_leaderboard
from tests.report.leaderboard.made_entries import Field, references

SEEDS, TASKS = 5, ("trot", "pace", "spin", "walk")


def main() -> None:
    """Makes the bundles, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundles", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        field = Field(Path(folder) / "runs")
        entrants = max(1, given.bundles // (2 * SEEDS * len(TASKS)))
        for number in range(entrants):
            for task in TASKS:
                field.entry(f"agent_{number}", 2.0 + 0.1 * number, seeds=SEEDS, task=task)
        bundles = entrants * 2 * SEEDS * len(TASKS)
        before = time.process_time()
        score_runs([field.top], cached=False)
        baseline = time.process_time() - before
        before = time.process_time()
        site = Path(folder) / "site"
        write_leaderboard(field.top, site, references=references, reports=False)
        spent = time.process_time() - before
        size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    found = {
        "bundles": bundles,
        "entries": entrants * len(TASKS),
        "score_runs_cpu_s": round(baseline, 2),
        "leaderboard_cpu_s": round(spent, 2),
        "ratio": round(spent / baseline, 2),
        "site_mib": round(size / 2**20, 2),
        "peak_rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10),
    }
    if given.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:20} {value}")


if __name__ == "__main__":
    main()
