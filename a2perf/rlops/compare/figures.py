"""The curves of a comparison against steps or time, one panel per environment; for papers and pull requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from a2perf.report.figures import compared_charts as compared
from a2perf.report.figures.compared_charts import Lines
from a2perf.report.figures.drawing import Drawing
from a2perf.report.figures.panels import ChartPanel, panels_figure
from a2perf.report.learning import pooled_over_runs
from a2perf.rlops.compare.comparison import ComparedGroups
from a2perf.rlops.compare.selection import GroupRuns, Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_SINGLE_RUNS = 60
"""A chart with more runs than this shows only means."""


class PanelCurves(NamedTuple):
    """The curves of one panel: the mean over runs with its interval, as in reports, and the single runs."""

    panel: Panel
    lines: list[Lines]
    draw: Callable[..., Drawing]


def curves_of(comparison: ComparedGroups, *, time: bool = False) -> list[PanelCurves]:
    """Returns what is drawn against steps, or against time in minutes; panels without curves are left out."""
    label = "time, min" if time else comparison.request.axis.replace("_", " ")
    found = []
    for panel in comparison.panels:
        named = enumerate(zip(comparison.names, panel.cells, strict=True))
        drawn = [line for place, (name, cell) in named if (line := _line(cell, name, place, time=time)) is not None]
        shown = drawn
        if sum(len(line.runs) for line in drawn) > _MOST_SINGLE_RUNS:
            shown = [line if line.mean is None else replace(line, runs=()) for line in drawn]
        if drawn:
            draw = partial(compared.lines, shown, x_name=label, y_name=panel.metric)
            found.append(PanelCurves(panel, drawn, draw))
    return found


def grid(curves: Sequence[PanelCurves]) -> Figure:
    """Draws all panels; within ``drawing.pictures`` only."""
    return panels_figure([ChartPanel(of.panel.name, compared.lines_height(of.lines), of.draw) for of in curves])


def _line(cell: GroupRuns, name: str, place: int, *, time: bool) -> Lines | None:
    runs = []
    for run, curve in zip(cell.runs, cell.curves, strict=True):
        axis = curve.elapsed_s() / 60.0 if time else curve.steps  # minutes, or steps
        known = np.flatnonzero(np.isfinite(axis) & np.isfinite(curve.values))
        order = known[np.argsort(axis[known], kind="stable")]
        if order.size:
            runs.append((run.run_id if run.seed is None else f"seed {run.seed}", axis[order], curve.values[order]))
    if len(runs) < 2:
        return Lines(name, place, runs) if runs else None
    pooled = pooled_over_runs([(x, y) for _, x, y in runs])
    return None if pooled is None else Lines(name, place, runs, *pooled)
