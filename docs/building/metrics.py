"""The page of metrics: all that are registered, including those of installed packages."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from a2perf.metrics.definition import Metric
from a2perf.metrics.registry import all_metrics
from a2perf.metrics.values import Category
from docs.building.markdown import cell, code, table

_TITLES = {
    "application": "Application: how well the task is done",
    "reliability": "Reliability: how much that varies",
    "system": "System: what it costs",
    "data": "Data: what the training data cost",
}
_BETTER = {"max": "higher", "min": "lower", "none": "neither"}


def write(path: Path) -> None:
    """Writes the page."""
    metrics = list(all_metrics().values())
    text = [
        "# Metrics",
        "",
        f"`a2perf score` computes these {len(metrics)} metrics. Every value comes with the number of runs, its "
        "provenance (measured, estimated or recorded) and, if it is missing, the reason. [Scores](scores.md) explains "
        "how values of several runs and tasks are combined.",
        "",
    ]
    for category in get_args(Category):
        chosen = [metric for metric in metrics if metric.category == category]
        rows = [[code(one.name), one.label, one.unit or "reward", _BETTER[one.direction]] for one in chosen]
        text += [f"## {_TITLES.get(category, category.capitalize())}", ""]
        text.append(table(["name", "label", "unit", "better"], rows))
        text += _definitions(chosen)
        text.append("")
    path.write_text("\n".join(text), encoding="utf-8")


def _definitions(metrics: list[Metric]) -> list[str]:
    """Returns one item per definition; metrics that differ in their names only share one."""
    groups: dict[tuple[str, str, str, str], list[Metric]] = {}
    for metric in metrics:
        groups.setdefault((metric.formula, metric.needs, metric.provenance, metric.source), []).append(metric)
    lines = []
    for (formula, needs, provenance, source), group in groups.items():
        names = ", ".join(code(metric.name) for metric in group)
        line = f"* {names}: {cell(formula).rstrip('.')}. *Needs:* {cell(needs)}. *Provenance:* {provenance}."
        lines.append(f"{line} *Source:* {cell(source)}." if source else line)
    return lines
