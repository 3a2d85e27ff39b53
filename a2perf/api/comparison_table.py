"""The rows of a comparison: one per candidate, task and metric."""

from __future__ import annotations

from typing import Any

from a2perf.api.columns import Kind
from a2perf.api.table import Table
from a2perf.metrics.definition import provenance_over_runs
from a2perf.rlops.compare.comparison import ComparedGroups
from a2perf.rlops.compare.selection import Panel
from a2perf.rlops.compare.verdict import Judgement

_DIFFERENCE = ("candidate_mean", "baseline_mean", "difference", "low", "high")
_DESCRIPTIONS = {
    "candidate_n": "runs of the candidate with a score",
    "baseline_n": "runs of the baseline with a score",
    "lost": "runs of the candidate that failed, diverged or did not record the metric",
    "difference": "mean of the candidate less mean of the baseline; positive is better",
    "low": "lower end of the interval of the difference",
    "high": "upper end of the interval of the difference",
    "result": "better or worse if the interval of the difference excludes 0",
    "verdict": "verdict of the regression gate",
    "tolerance": "largest acceptable loss",
    "probability_of_improvement": "probability that a run of the candidate beats one of the baseline; ties count half",
    "p_regression": "chance of so low a difference if the true one were just at the tolerance",
    "further_seeds_low": "further seeds on each side that settle the judgement in half of the simulations",
    "further_seeds": "further seeds on each side that settle the judgement in eight of ten simulations",
}


def comparison_table(groups: ComparedGroups) -> Table:
    """Returns one row per candidate, task and metric."""
    rows: list[dict[str, Any]] = []
    for candidate in groups.candidates:
        for panel, judgement, improvement in zip(
            candidate.panels, candidate.judgements, candidate.improvement, strict=True
        ):
            rows.append({
                "candidate": groups.names[candidate.place],
                "baseline": groups.names[groups.request.baseline or 0],
                "task": panel.env,
                "metric": panel.metric,
                "result": judgement.sign.value,
                "candidate_n": judgement.candidate.seeds,
                "baseline_n": judgement.baseline.seeds,
                "lost": judgement.candidate.lost,
                "candidate_mean": judgement.candidate.mean,
                "baseline_mean": judgement.baseline.mean,
                "difference": judgement.difference,
                "low": judgement.low,
                "high": judgement.high,
                "probability_of_improvement": None if improvement is None else improvement.value,
                "unit": panel.unit,
                "provenance": _provenance(panel),
                **(_of_gate(judgement) if groups.request.gate else {"reason": judgement.sign_reason}),
            })  # fmt: skip
    names = list(rows[0]) if rows else ["candidate", "baseline", "task", "metric", "result", *_DIFFERENCE, "unit"]
    measured = [name for name in (*_DIFFERENCE, "tolerance") if name in names]
    kinds: dict[str, Kind] = {
        **dict.fromkeys((*measured, "probability_of_improvement", "p_regression"), "float"),
        **dict.fromkeys(("candidate_n", "baseline_n", "lost", "further_seeds_low", "further_seeds"), "int"),
    }
    units = {panel.unit for panel in groups.panels}
    marks = {_provenance(panel) for panel in groups.panels}
    several = len(units) > 1 or len(marks) > 1
    return Table(
        {name: [row[name] for row in rows] for name in names},
        title=f"Comparison with {groups.names[groups.request.baseline or 0]}",
        units={} if several else dict.fromkeys(measured, next(iter(units), "")),
        provenance={} if several or not rows else dict.fromkeys(measured, next(iter(marks), "recorded")),
        row_units=dict.fromkeys(measured, "unit") if several else {},
        row_provenance=dict.fromkeys(measured, "provenance") if several else {},
        descriptions={name: text for name, text in _DESCRIPTIONS.items() if name in names},
        kinds={name: kind for name, kind in kinds.items() if name in names},
    )


def _of_gate(judgement: Judgement) -> dict[str, Any]:
    return {
        "verdict": judgement.verdict.value,
        "tolerance": judgement.tolerance,
        "p_regression": judgement.p_regression,
        "further_seeds_low": judgement.further_seeds_low,
        "further_seeds": judgement.further_seeds,
        "reason": judgement.reason,
    }


def _provenance(panel: Panel) -> str:
    kinds = [kind for cell in panel.cells for kind in cell.provenance]
    return provenance_over_runs(kinds) if kinds else "recorded"
