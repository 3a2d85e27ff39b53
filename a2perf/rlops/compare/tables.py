"""Tables of a comparison: scores, run times, and verdicts."""

from __future__ import annotations

import math

import numpy as np

from a2perf.arrays import Values
from a2perf.report.numbers_text import Scale, rounded, row_scale, written
from a2perf.report.tables import Table, Text, text_table
from a2perf.rlops.compare.comparison import Candidate, ComparedGroups, OverallDifference
from a2perf.rlops.compare.panel import GroupRuns, Panel
from a2perf.rlops.compare.verdict import Judgement

UNKNOWN = "–"
STATES = {
    "better": "finished",
    "worse": "failed",
    "not separated": "interrupted",
    "PASS": "finished",
    "REGRESSION": "failed",
    "INCONCLUSIVE": "interrupted",
}
"""Colour of each verdict on a page, named after the states of runs."""
EXPENDABLE = ("limit", "P(better)", "baseline", "candidate", "more seeds", "more episodes", "seeds", "episodes")
"""Columns of verdicts that a narrow terminal can do without, the least important first."""


def score_table(comparison: ComparedGroups) -> Table:
    """Returns mean ± standard deviation (ddof 0) over runs of their scores."""
    title = comparison.request.score_text()
    rows = [(panel.name, *(_score(panel, cell) for cell in panel.cells)) for panel in comparison.panels]
    return text_table(f"{title[0].upper()}{title[1:]}", ("environment", *comparison.names), rows)


def runtime_table(comparison: ComparedGroups) -> Table:
    """Returns wall times in one unit; the last row is the mean over environments."""
    columns = [[np.array(panel.cells[at].wall_s) for panel in comparison.panels] for at in range(len(comparison.names))]
    scale = row_scale([float(times.mean()) for column in columns for times in column if times.size], "s")

    def text(times: Values) -> str:
        return written(float(times.mean()), scale, float(times.std())).text() if times.size else UNKNOWN

    def average(column: list[Values]) -> str:
        known = [times.mean() for times in column if times.size]
        return written(float(np.mean(known)), scale).text() if known else UNKNOWN

    rows = [(panel.name, *(text(column[at]) for column in columns)) for at, panel in enumerate(comparison.panels)]
    # CSV files have no title, so the unit is in the head too
    heads = (f"environment (values in {scale.unit})", *comparison.names)
    return text_table(f"Wall time per run, {scale.unit}", heads, [*rows, ("average", *map(average, columns))])


def verdict_table(comparison: ComparedGroups, candidate: Candidate) -> Table:
    """Returns the result of one candidate: a row per environment, then one over all of them per metric.

    Columns of the regression gate follow if it was requested.
    """
    gate = comparison.request.gate
    rows = []
    means: dict[str, list[float]] = {}
    for panel, judgement, _ in candidate.rows():
        sides = (judgement.candidate.mean, judgement.baseline.mean)
        means.setdefault(panel.unit, []).extend(mean for mean in sides if mean is not None)
    scales = {unit: row_scale(found, unit) for unit, found in means.items() if unit}
    for panel, judgement, improvement in candidate.rows():
        numbers = JudgementNumbers(panel, judgement, scales.get(panel.unit))
        rows.append(
            (
                judgement.env,
                judgement.sign.value,
                numbers.difference(),
                numbers.interval(),
                numbers.mean(judgement.candidate.mean),
                numbers.mean(judgement.baseline.mean),
                UNKNOWN if improvement is None else f"{improvement.value:.0%}",
                f"{judgement.candidate.seeds} / {judgement.baseline.seeds}",
                *((judgement.verdict.value, numbers.limit(), further(judgement)) if gate else ()),
            )
        )
    for at, (metric, over_all) in enumerate(candidate.overall.items()):
        name = "overall" if len(candidate.overall) == 1 else f"overall ({metric})"
        of_gate = (candidate.verdict.value if at == 0 else "", "", "") if gate else ()
        rows.append((name, *overall_texts(over_all, scales.get(over_all.unit)), *of_gate))
    baseline = comparison.names[comparison.request.baseline or 0]
    confidence = f"{100 * comparison.request.confidence:g} %"
    marked = [[Text(text=text, state=STATES[text]) if text in STATES else text for text in row] for row in rows]
    return text_table(
        f"{comparison.names[candidate.place]} against {baseline}",
        (
            "environment",
            "result",
            "difference",
            f"{confidence} interval",
            "candidate",
            "baseline",
            "P(better)",
            comparison.request.question,
            *(("gate", "limit", f"more {comparison.request.question}") if gate else ()),
        ),
        marked,
        texts=2,
    )


def overall_texts(overall: OverallDifference, scale: Scale | None = None) -> tuple[str, ...]:
    """Returns the result over all environments for the columns of ``verdict_table``, without those of the gate."""
    found, scale = overall.found, scale or Scale(1.0, overall.unit)
    unit, seeds = f" {scale.unit}" if scale.unit else "", f"{found.candidate_n} / {found.baseline_n}"
    if found.value is None or found.low is None or found.high is None:
        return (found.sign.value, *(UNKNOWN,) * 5, seeds)
    value, low, high = (end / scale.factor for end in (found.value, found.low, found.high))
    value_text, *ends = (number(end, high - low, sign=True) for end in (value, low, high))
    return (found.sign.value, f"{value_text}{unit}", f"[{', '.join(ends)}]{unit}", "", "", "", seeds)


class JudgementNumbers:
    """The numbers of a judgement as text, all in one unit and rounded by the width of the interval.

    Args:
        scale: the unit of a table with several judgements; None for the one that suits this judgement.
    """

    def __init__(self, panel: Panel, judgement: Judgement, scale: Scale | None = None) -> None:
        self._judgement = judgement
        means = [side.mean for side in (judgement.candidate, judgement.baseline) if side.mean is not None]
        self._scale = scale or (row_scale(means, panel.unit) if panel.unit else Scale(1.0, ""))
        known = judgement.low is not None and judgement.high is not None
        self._width = (judgement.high or 0.0) - (judgement.low or 0.0) if known else None
        self._mark = "≈ " if panel.is_estimated else ""
        self._unit = f" {self._scale.unit}" if self._scale.unit else ""  # empty for the unit of the reward

    def difference(self) -> str:
        """Returns the difference with its sign; positive is better."""
        return self._text(self._judgement.difference, sign=True)

    def interval(self) -> str:
        """Returns the interval of the difference in brackets, a dash if there is none."""
        if self._width is None:
            return UNKNOWN
        ends = (self._judgement.low, self._judgement.high)
        return f"[{', '.join(self._number(end, sign=True) for end in ends)}]{self._unit}"

    def limit(self) -> str:
        """Returns the difference below which the candidate is worse than the tolerance allows."""
        text = self._text(-self._judgement.tolerance)
        if self._judgement.tolerance and not any(digit in text for digit in "123456789"):
            # far below the width of the interval: zero would be wrong
            return f"{number(-self._judgement.tolerance / self._scale.factor)}{self._unit}"
        return text

    def mean(self, value: float | None) -> str:
        """Returns the mean of a side, marked if it is an estimate."""
        text = self._text(value)
        return text if text == UNKNOWN else f"{self._mark}{text}"

    def _text(self, value: float | None, *, sign: bool = False) -> str:
        text = self._number(value, sign=sign)
        return text if text == UNKNOWN else f"{text}{self._unit}"

    def _number(self, value: float | None, *, sign: bool = False) -> str:
        value, width = (None if one is None else one / self._scale.factor for one in (value, self._width))
        return number(value, width, sign=sign)


def further(judgement: Judgement) -> str:
    """Returns how many more seeds settle a judgement: a number, a range, or a dash."""
    low, high = judgement.further_seeds_low, judgement.further_seeds
    if low is None or high is None:
        return UNKNOWN
    return f"{high}" if low == high else f"{low}–{high}"


def number(value: float | None, spread: float | None = None, *, sign: bool = False) -> str:
    """Returns a number down to the second digit of its spread, without one to four digits; a dash if there is none."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    scale = spread / 10.0 if spread else abs(value) / 100.0
    decimals = 2 if not scale else min(6, max(0, 1 - math.floor(math.log10(scale))))
    value = round(value, decimals) or 0.0  # no minus sign before a zero
    text = f"{value:+.{decimals}f}" if sign else f"{value:.{decimals}f}"
    return text.replace("-", "−")


def _score(panel: Panel, cell: GroupRuns) -> str:
    values = cell.scores[np.isfinite(cell.scores)]
    if not values.size:
        return UNKNOWN
    found = rounded(float(values.mean()), panel.unit, float(values.std()))
    mark = "≈ " if "estimated" in cell.provenance else ""
    return f"{mark}{found.text()} {found.unit}".rstrip()
