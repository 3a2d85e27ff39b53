"""Tables of a comparison: scores, run times, energy, and verdicts; for Markdown, CSV, a terminal and the page."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from a2perf.arrays import Values
from a2perf.plain_text import csv_cell
from a2perf.report.numbers_text import shown
from a2perf.report.tables import markdown_text
from a2perf.rlops.compare.comparison import Candidate, Comparison
from a2perf.rlops.compare.selection import GroupRuns
from a2perf.rlops.compare.verdict import Judgement

UNKNOWN = "–"


@dataclass(frozen=True)
class Grid:
    """Words in rows and columns; the first column names the row.

    Attributes:
        title: what it shows.
        heads: a heading each column.
        rows: as long as ``heads``.
        right: from this column on numbers, aligned to the right.
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: int = 1


def score_grid(comparison: Comparison) -> Grid:
    """Returns mean ± standard deviation (ddof 0) over runs of the mean of the last values."""
    return _by_group(
        comparison,
        f"Mean of the last {comparison.request.last} values",
        lambda cell: cell.scores[np.isfinite(cell.scores)],
    )


def runtime_grid(comparison: Comparison) -> Grid:
    """Returns wall times; the last row is the mean over environments."""
    grid = _by_group(comparison, "Wall time of a run", lambda cell: np.array(cell.wall_s), "s")
    means = ["average"]
    for at in range(len(comparison.names)):
        per_env = [np.mean(panel.cells[at].wall_s) for panel in comparison.panels if panel.cells[at].wall_s]
        means.append(_text(float(np.mean(per_env)), None, "s") if per_env else UNKNOWN)
    return Grid(grid.title, grid.heads, (*grid.rows, tuple(means)))


def energy_grid(comparison: Comparison) -> Grid | None:
    """Returns the energy of a run in watt hours, measured and estimated never in one cell; None when unknown."""
    qualities = {run.energy_quality for panel in comparison.panels for cell in panel.cells for run in cell.runs}
    qualities -= {""}
    if not qualities:
        return None
    only = qualities.pop() if len(qualities) == 1 else "measured"

    def energies(cell: GroupRuns) -> Values:
        known = [run.energy_kwh for run in cell.runs if run.energy_kwh is not None and run.energy_quality == only]
        return np.array(known, np.float64) * 1e3

    return _by_group(comparison, f"Energy of a run ({only})", energies, "Wh")


def verdict_grid(comparison: Comparison, candidate: Candidate) -> Grid:
    """Returns the verdicts on one candidate, an environment a row, and the overall one in the last."""
    rows = []
    for judgement, improvement in zip(candidate.judgements, candidate.improvement, strict=True):
        width = None if judgement.low is None or judgement.high is None else judgement.high - judgement.low
        between = f"[{number(judgement.low, width, sign=True)}, {number(judgement.high, width, sign=True)}]"
        rows.append((
            judgement.env,
            judgement.verdict.value,
            number(judgement.difference, width, sign=True),
            UNKNOWN if width is None else between,
            number(-judgement.tolerance, width),
            number(judgement.candidate.mean, width),
            number(judgement.baseline.mean, width),
            UNKNOWN if improvement is None else f"{improvement.value:.0%}",
            f"{judgement.candidate.seeds} / {judgement.baseline.seeds}",
            further(judgement),
        ))  # fmt: skip
    rows.append(("overall", candidate.verdict.value, *("",) * 8))
    baseline = comparison.names[comparison.request.baseline or 0]
    confidence = f"{100 * comparison.request.confidence:g} %"
    return Grid(
        f"{comparison.names[candidate.place]} against {baseline}",
        ("environment", "verdict", "difference", f"{confidence} interval", "limit", "candidate", "baseline",
         "P(better)", "seeds", "more seeds"),
        tuple(rows),
        right=2,
    )  # fmt: skip


def further(judgement: Judgement) -> str:
    """Writes how many more seeds settle a judgement: a number, a range, or a dash."""
    low, high = judgement.further_seeds_low, judgement.further_seeds
    if low is None or high is None:
        return UNKNOWN
    return f"{high}" if low == high else f"{low}–{high}"


def number(value: float | None, spread: float | None = None, *, sign: bool = False) -> str:
    """Writes a number with two digits of its spread, else with four of its own; a dash when there is none."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    scale = spread / 10.0 if spread else abs(value) / 100.0
    decimals = 2 if not scale else min(6, max(0, 1 - math.floor(math.log10(scale))))
    text = f"{value:+.{decimals}f}" if sign else f"{value:.{decimals}f}"
    return text.replace("-", "−")


def to_markdown(grid: Grid) -> str:
    """Renders a grid as GitHub-flavoured Markdown."""
    heads = " | ".join(markdown_text(head) for head in grid.heads)
    rules = " | ".join("---" if at < grid.right else "---:" for at in range(len(grid.heads)))
    rows = [" | ".join(markdown_text(word) for word in row) for row in grid.rows]
    return "\n".join([f"| {heads} |", f"| {rules} |", *(f"| {row} |" for row in rows)]) + "\n"


def to_csv(grid: Grid) -> str:
    """Renders a grid as CSV."""
    stream = io.StringIO()
    rows = ([csv_cell(word) for word in row] for row in (grid.heads, *grid.rows))
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def to_text(grid: Grid) -> str:
    """Renders a grid for a terminal."""
    widths = [max(len(row[at]) for row in (grid.heads, *grid.rows)) for at in range(len(grid.heads))]
    lines = [grid.heads, *grid.rows]
    return "\n".join(_line(row, widths, grid.right) for row in lines) + "\n"


def _line(row: Sequence[str], widths: Sequence[int], right: int) -> str:
    words = [
        word.ljust(w) if at < right else word.rjust(w) for at, (word, w) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(words).rstrip()


def _by_group(comparison: Comparison, title: str, values: Callable[[GroupRuns], Values], unit: str = "") -> Grid:
    rows = []
    for panel in comparison.panels:
        rows.append((panel.name, *(_mean_and_std(values(cell), unit) for cell in panel.cells)))
    return Grid(title, ("environment", *comparison.names), tuple(rows))


def _mean_and_std(values: Values, unit: str) -> str:
    return _text(float(values.mean()), float(values.std()), unit) if values.size else UNKNOWN


def _text(value: float, spread: float | None, unit: str) -> str:
    """Writes a number as reports do: seconds in the unit that reads best, digits down to the spread's second."""
    written = shown(value, unit, spread)
    number = written.value if spread is None else f"{written.value} ± {written.spread or 0}"
    return f"{number} {written.unit}".rstrip()
