"""Size and cost of a report of many runs: bytes of its page per run, and how long Chromium takes to show it.

    python perf/report.py [--runs 1000] [--json]

The baseline of the processor time is reading and scoring the same runs in the same process; the baseline of Chromium is
a report of 12 runs, which holds everything in one page.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from a2perf.metrics.scores import score_runs
from a2perf.report.writing import write_report
from a2perf.runs.reading import read_runs
from tests.report.browser import Browser
from tests.report.leaderboard.made_entries import Field

SEEDS, TASKS = 5, ("trot", "pace", "spin", "walk")
PER_AGENT = 2 * SEEDS * len(TASKS)


def main() -> None:
    """Makes the runs, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder in which the reports stay")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kept = given.keep or Path(folder) / "reports"
        field = Field(Path(folder) / "runs")
        for number in range(max(1, given.runs // PER_AGENT)):
            for task in TASKS:
                field.entry(f"agent_{number}", 2.0 + 0.1 * number, seeds=SEEDS, task=task)
        runs = read_runs(field.top)
        before = time.process_time()
        score_runs([field.top], cached=False)
        baseline = time.process_time() - before
        before = time.process_time()
        page = write_report(runs, kept / "large").page
        spent = time.process_time() - before
        small = write_report(runs[:12], kept / "small").page
        found = {
            "runs": len(runs),
            "page_mb": round(page.stat().st_size / 1e6, 2),
            "folder_mb": round(sum(path.stat().st_size for path in page.parent.rglob("*") if path.is_file()) / 1e6, 1),
            "score_runs_cpu_s": round(baseline, 2),
            "report_cpu_s": round(spent, 2),
            "ratio": round(spent / baseline, 2),
            "chromium_s": round(shown(page, Path(folder) / "large"), 2),
            "chromium_s_of_12_runs": round(shown(small, Path(folder) / "small"), 2),
        }
    print(json.dumps(found) if given.json else "\n".join(f"{name:22} {value}" for name, value in found.items()))


def shown(page: Path, profile: Path) -> float:
    """Returns the processor seconds of all processes of Chromium until a page is loaded and painted."""
    browser = Browser(profile)
    try:
        browser.open("about:blank")
        tree = psutil.Process(browser.driver.service.process.pid)

        def spent() -> float:
            return sum(sum(process.cpu_times()[:2]) for process in tree.children(recursive=True))

        before = spent()
        browser.open(page)
        browser.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => setTimeout(done, 0));"
        )
        return spent() - before
    finally:
        browser.close()


if __name__ == "__main__":
    main()
