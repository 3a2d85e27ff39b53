"""The table of recorded baselines: task, algorithm, normalised score, samples, time, energy, latency.

    python results/table.py            prints it
    python results/table.py --write    puts it into results/README.md

Every number is read from ``results/recorded``; nothing is run.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

import a2perf
from a2perf.metrics import protocol as protocols
from a2perf.metrics.submitted import FILE, ProtocolRecord
from a2perf.runs.bundles.files import files_of
from a2perf.runs.tracking_record import JOULES_PER_KWH

HOUSE = Path(__file__).resolve().parents[1]
RECORDED = HOUSE / "results" / "recorded"
PAGE = HOUSE / "results" / "README.md"
BEGIN, END = "<!-- recorded -->", "<!-- end of recorded -->"
HEADINGS = (
    "task",
    "submission",
    "kind",
    "score [95 %]",
    "seeds",
    "samples",
    "training s",
    "processor s",
    "J",
    "latency ms",
)

TITLES = {
    "v2": "five seeds",
    "v2-small": "three seeds",
    "v1-small": "three seeds, recorded earlier",
}


@dataclass(frozen=True)
class Row:
    """One submission on one task.

    Attributes:
        protocol: one of ``TITLES``.
        task: of the protocol; of a view the task that it shows.
        iqm: normalised score; 0 is the floor, 1 the expert.
        cells: text of the columns after the task.
    """

    protocol: str
    task: str
    iqm: float
    cells: tuple[str, ...]


def rows() -> Iterator[Row]:
    """Yields a row per recorded submission and task."""
    described = tomllib.loads((RECORDED / "submissions.toml").read_text())
    for packed in sorted(RECORDED.glob("*/*.zip")):
        document = files_of(packed / packed.stem).read(FILE, 1 << 22)
        record = msgspec.json.decode(document, type=ProtocolRecord)
        runs = a2perf.read_runs(packed)
        for task, score in record.scores.items():
            if score.iqm is None or record.quick:
                continue
            trained = list(runs.where(task=task, mode="train"))
            tested = list(runs.where(task=task, mode="inference"))
            curves = [run.curve for run in trained]
            name = record.submission.name
            models = f" ({', '.join(record.models)})" if record.models else ""
            views = "".join(sorted({f", {run.view}" for run in tested if run.view}))
            steps = [float(curve.steps[-1]) for curve in curves if curve is not None and curve.steps.size]
            cells = (
                f"`{name}`{models}{views}",
                described[name]["kind"],
                f"{score.iqm:.3f} {_interval(score.low, score.high)}".strip(),
                str(score.seeds),
                _mean(steps, "{:,.0f}"),
                _mean((run.wall_clock_s for run in trained), "{:,.0f}"),
                _mean((_processor_s(run) for run in trained), "{:,.0f}"),
                _mean((_joules(run) for run in trained), "{:,.0f}"),
                _mean((_milliseconds(run) for run in tested), "{:.2f}"),
            )
            yield Row(record.protocol, protocols.load(record.protocol).ranked_task(task), score.iqm, cells)


def _joules(run: a2perf.Result) -> float | None:
    return None if run.energy is None or run.energy.value is None else run.energy.value * JOULES_PER_KWH


def _milliseconds(run: a2perf.Result) -> float | None:
    return None if run.latency is None or run.latency.value is None else run.latency.value * 1e3


def _processor_s(run: a2perf.Result) -> float | None:
    found = None if run.run.manifest is None else run.run.manifest.tracking.get("cpu_seconds")
    return float(found) if isinstance(found, int | float) else None


def _mean(values: Iterable[float | None], form: str) -> str:
    found = [value for value in values if value is not None and np.isfinite(value)]
    return form.format(np.mean(found)) if found else "–"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"[{low:.3f}, {high:.3f}]"


def table(found: Sequence[Row]) -> list[str]:
    """Returns the lines of a Markdown table: tasks in the order of the protocol's domains, best score first."""
    found = sorted(found, key=lambda row: (row.task, -row.iqm))
    lines = [f"| {' | '.join(HEADINGS)} |", f"|{' --- |' * len(HEADINGS)}"]
    last = ""
    for row in found:
        lines.append(f"| {f'`{row.task}`' if row.task != last else ''} | {' | '.join(row.cells)} |")
        last = row.task
    return lines


def text() -> str:
    """Returns a table per protocol."""
    parts, found = [], list(rows())
    for protocol, title in TITLES.items():
        parts += [
            f"### Protocol {protocol}, {title}",
            "",
            *table([row for row in found if row.protocol == protocol]),
            "",
        ]
    return "\n".join(parts)


def main() -> None:
    """Prints or writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the table of results/README.md")
    if not parser.parse_args().write:
        print(text())
        return
    page = PAGE.read_text()
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    PAGE.write_text(pattern.sub(lambda _: f"{BEGIN}\n\n{text()}\n{END}", page))


if __name__ == "__main__":
    main()
