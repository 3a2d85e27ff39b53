"""The self-contained HTML report of a comparison, built from the parts of run reports."""

from __future__ import annotations

from collections.abc import Sequence

import jinja2

from a2perf._version import __version__
from a2perf.report.drawing import Chart, interactive, only_in_pages
from a2perf.report.page import render
from a2perf.report.tables import Table, text_table
from a2perf.rlops.compare.comparison import ComparedGroups
from a2perf.rlops.compare.figures import PanelCurves
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

_LOADER = jinja2.PackageLoader("a2perf.rlops.compare", "templates")


@only_in_pages()
def to_page(comparison: ComparedGroups, steps: Sequence[PanelCurves], times: Sequence[PanelCurves]) -> str:
    """Renders a comparison as one HTML document; without curves it has no charts of them."""
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
        step_charts=_curve_charts(steps, "steps"),
        time_charts=_curve_charts(times, "time"),
        notices=comparison.notices,
        runs=_runs(comparison),
        method=method(comparison),
        version=__version__,
        made_at=comparison.made_at,
    )


def _curve_charts(curves: Sequence[PanelCurves], axis: str) -> list[Chart]:
    return [
        interactive(
            f"{axis}-{at}",
            panel.name,
            f"{panel.metric}: mean over runs with its 95 % interval.",
            "; ".join(f"{line.name} ends at {line.mean[-1]:.3g}" for line in lines if line.mean is not None) + ".",
            {"linear": draw},
        )
        for at, (panel, lines, draw) in enumerate(curves)
    ]


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
