"""The self-contained HTML report of a comparison, built from the parts of run reports."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jinja2

from a2perf._version import __version__
from a2perf.report import compared_charts as compared
from a2perf.report.drawing import Chart, interactive, only_in_pages
from a2perf.report.page import render
from a2perf.report.tables import Table, text_table
from a2perf.rlops.compare.comparison import ComparedGroups
from a2perf.rlops.compare.figures import Curves, x_label
from a2perf.rlops.compare.forest import forest_chart
from a2perf.rlops.compare.sentences import method, reasons, summary, title_of
from a2perf.rlops.compare.tables import (
    UNKNOWN,
    energy_table,
    number,
    runtime_table,
    score_table,
    verdict_table,
)

_MOST_SINGLE_RUNS = 60
"""A chart with more runs than this shows only means."""
_LOADER = jinja2.PackageLoader("a2perf.rlops.compare", "templates")


@only_in_pages()
def to_page(comparison: ComparedGroups, steps: Curves, times: Curves) -> str:
    """Renders a comparison as one HTML document.

    Args:
        steps: lines against steps; empty for a page without charts.
    """
    energy = energy_table(comparison)
    return render(
        "compare.html",
        loader=_LOADER,
        title=title_of(comparison),
        summary=summary(comparison),
        candidates=[
            {
                "table": verdict_table(comparison, c),
                "marks": [item.found.sign.value for item in c.overall.values()],
                "gate": c.verdict.value if comparison.request.gate else "",
                "reasons": reasons(c, gate=comparison.request.gate),
                "forest": forest_chart(comparison, c),
            }
            for c in comparison.candidates
        ],
        gate=comparison.request.gate,
        tables=[score_table(comparison), runtime_table(comparison), *([energy] if energy is not None else [])],
        step_charts=_curve_charts(comparison, steps, time=False),
        time_charts=_curve_charts(comparison, times, time=True),
        notices=comparison.notices,
        runs=_runs(comparison),
        method=method(comparison),
        version=__version__,
        made_at=comparison.made_at,
    )


def _curve_charts(comparison: ComparedGroups, lines: Curves, *, time: bool) -> list[Chart]:
    charts = []
    label = x_label(comparison, time=time)
    for at, (panel, row) in enumerate(zip(comparison.panels, lines, strict=False)):
        drawn = [line for line in row if line is not None]
        if not drawn:
            continue
        if sum(len(line.runs) for line in drawn) > _MOST_SINGLE_RUNS:
            drawn = [line if line.mean is None else replace(line, runs=()) for line in drawn]
        charts.append(
            interactive(
                f"{'time' if time else 'steps'}-{at}",
                panel.name,
                f"{panel.metric}: mean over runs with its 95 % interval.",
                "; ".join(f"{line.name} ends at {line.mean[-1]:.3g}" for line in drawn if line.mean is not None) + ".",
                {"linear": partial(compared.lines, drawn, x_name=label, y_name=panel.metric)},
            )
        )
    return charts


def _runs(comparison: ComparedGroups) -> Table:
    rows = [
        (
            run.run_id, name, panel.name, UNKNOWN if run.seed is None else str(run.seed), run.version,
            ", ".join(sorted(run.tags)), number(float(score)),
        )
        for panel in comparison.panels
        for name, cell in zip(comparison.names, panel.cells, strict=True)
        for run, score in zip(cell.runs, cell.scores, strict=True)
    ]  # fmt: skip
    heads = ("run", "group", "environment", "seed", "version", "tags", "score")
    return text_table("Runs", heads, rows, texts=6)
