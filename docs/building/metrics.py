"""The page of metrics: all of the registry, those of installed packages included."""

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
_BETTER = {"max": "more", "min": "less", "none": "neither"}


def write(path: Path) -> None:
    """Writes the page."""
    metrics = list(all_metrics().values())
    text = [
        "# Metrics",
        "",
        f"The {len(metrics)} metrics of the registry, as `a2perf score` computes them. The unit is that of the reward "
        "where none is given. Every value says from how many runs it comes, how it was obtained (measured, estimated, "
        "recorded), and why there is none where there is none; [scores](scores.md) tells how they are put together.",
        "",
    ]
    for category in get_args(Category):
        chosen = [metric for metric in metrics if metric.category == category]
        rows = [
            [code(one.name), one.label, one.unit or "reward", _BETTER[one.direction], one.provenance, one.needs]
            for one in chosen
        ]
        text += [f"## {_TITLES.get(category, category.capitalize())}", ""]
        text.append(table(["name", "label", "unit", "better", "provenance", "least data"], rows))
        text += [line for one in chosen for line in _definition(one)]
        text.append("")
    path.write_text("\n".join(text), encoding="utf-8")


def _definition(metric: Metric) -> list[str]:
    source = f" *Source:* {cell(metric.source)}." if metric.source else ""
    return [f"* {code(metric.name)}: {cell(metric.formula).rstrip('.')}.{source}"]
