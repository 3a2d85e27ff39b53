"""The grid of curves against steps or time, one panel per environment; for papers and pull requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from a2perf.report.charts import plain_counts, shortened, thinned
from a2perf.report.compared_charts import Lines, colour_of, dashes_of
from a2perf.report.drawing import INK, new_figure
from a2perf.report.learning import pooled_over_runs
from a2perf.rlops.compare.comparison import ComparedGroups
from a2perf.rlops.compare.selection import GroupRuns, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 2
_POINTS = 300
_PANEL_IN, _PANEL_HEIGHT_IN, _LEGEND_ROW_IN = 4.0, 3.0, 0.22

Curves = list[list[Lines | None]]
"""By panel and group."""


def lines_of(comparison: ComparedGroups, *, time: bool = False) -> Curves:
    """Returns what is drawn: the mean over runs with its interval, as in reports."""
    return [
        [
            _line(cell, name, place, time=time)
            for place, (name, cell) in enumerate(zip(comparison.names, panel.cells, strict=True))
        ]
        for panel in comparison.panels
    ]


def grid(comparison: ComparedGroups, lines: Curves, *, time: bool = False) -> Figure:
    """Draws all panels; within ``drawing.pictures`` only.

    Args:
        lines: as from ``lines_of``; a panel without any is left out.
    """
    drawn = [(panel, row) for panel, row in zip(comparison.panels, lines, strict=True) if any(row)]
    drawn = drawn or list(zip(comparison.panels, lines, strict=True))
    columns = min(_COLUMNS, len(drawn))
    rows = -(-len(drawn) // columns)
    legend_rows = -(-len(comparison.names) // _COLUMNS)
    legend_in = 0.12 + _LEGEND_ROW_IN * legend_rows
    width, height = _PANEL_IN * columns, _PANEL_HEIGHT_IN * rows + legend_in
    figure = new_figure(height)
    figure.set_size_inches(width, height)
    axes = figure.subplots(rows, columns, squeeze=False)
    figure.subplots_adjust(
        left=0.72 / width,
        right=1 - 0.22 / width,
        top=1 - 0.35 / height,
        bottom=(legend_in + 0.5) / height,
        hspace=0.9 / (_PANEL_HEIGHT_IN - 0.9),
        wspace=0.95 / (_PANEL_IN - 0.95),
    )
    flat, label = list(axes.flat), x_label(comparison, time=time)
    for (panel, row), place in zip(drawn, flat, strict=False):
        _panel(place, panel, row, label)
    for place in flat[len(drawn) :]:
        place.set_axis_off()
    _legend(figure, comparison.names)
    return figure


def x_label(comparison: ComparedGroups, *, time: bool) -> str:
    """Returns the label of the horizontal axis."""
    return "time, min" if time else comparison.request.axis.replace("_", " ")


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


def _panel(axes: Axes, panel: Panel, lines: Sequence[Lines | None], label: str) -> None:
    for line in lines:
        if line is None:
            continue
        colour, dashes = INK[colour_of(line.place)], dashes_of(line.place)
        shown = line.runs if line.x is None or line.mean is None else [("", line.x, line.mean)]
        for _, x, y in shown:
            marker = "o" if x.size == 1 else None
            axes.plot(*thinned(x, y, _POINTS), color=colour, linestyle=dashes, marker=marker, markersize=4)
        if line.x is not None and line.low is not None and line.high is not None:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.16, linewidth=0)
    axes.set_title(shortened(panel.name), fontsize=9.5, loc="left", color=INK["ink"])
    axes.set_ylabel(shortened(panel.metric))
    axes.set_xlabel(label)
    axes.margins(x=0.01)
    plain_counts(axes, "x")


def _legend(figure: Figure, names: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=INK[colour_of(place)], linestyle=dashes_of(place), linewidth=1.9)
        for place in range(len(names))
    ]
    figure.legend(handles, list(names), ncols=_COLUMNS, loc="lower center", borderaxespad=0.4, handlelength=1.8)
