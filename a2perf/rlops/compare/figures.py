"""The figures of a comparison: curves against steps or time, and forest plots of the differences to the baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from a2perf.errors import UserError
from a2perf.metrics.difference import Sign, spread_of_all
from a2perf.report.figures import compared_charts as compared
from a2perf.report.figures.charts import rows_of_names, shortened
from a2perf.report.figures.compared_charts import Lines
from a2perf.report.figures.drawing import INK, WIDTH_IN, Chart, Drawing, new_figure, single
from a2perf.report.figures.panels import ChartPanel, panels_figure
from a2perf.report.learning import pooled_over_runs
from a2perf.rlops.compare.comparison import Candidate, ComparedGroups
from a2perf.rlops.compare.panel import GroupRuns, Panel
from a2perf.rlops.compare.sentences import sign_text
from a2perf.rlops.compare.tables import JudgementNumbers
from a2perf.rlops.compare.verdict import Judgement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_SINGLE_RUNS = 60
"""A chart with more runs than this shows only means."""
_COLOURS = {Sign.BETTER: "green", Sign.WORSE: "red", Sign.NOT_SEPARATED: "muted"}
_MARKERS = {Sign.BETTER: "o", Sign.WORSE: "D", Sign.NOT_SEPARATED: "s"}
_ROW_IN, _EDGES_IN = 0.34, 0.75
_PLOT_IN, _NUMBERS_IN, _VERDICT_IN, _LETTER_IN = 3.4, 2.3, 1.0, 0.078
_TITLE_IN, _AXIS_IN = 0.45, 0.6
_MOST_LINEAR = 8.0
"""Largest difference, in standard deviations, that is drawn on a linear axis."""
_SHORT_REASON = "no interval"
_X_LABEL = "difference / SD of all scores; positive is better"


PanelCurves: TypeAlias = tuple[Panel, list[Lines], Callable[..., Drawing]]
"""A panel, its curves (the mean over runs with its interval, and the single runs), and what draws them."""


def curves_of(comparison: ComparedGroups, *, time: bool = False) -> list[PanelCurves]:
    """Returns what is drawn against steps, or against time in minutes; panels without curves are left out."""
    label = "time, min" if time else comparison.request.axis.replace("_", " ")
    found: list[PanelCurves] = []
    for panel in comparison.panels:
        named = enumerate(zip(comparison.names, panel.cells, strict=True))
        drawn = [line for place, (name, cell) in named if (line := _line(cell, name, place, time=time)) is not None]
        shown = drawn
        if sum(len(line.runs) for line in drawn) > _MOST_SINGLE_RUNS:
            shown = [line if line.mean is None else replace(line, runs=()) for line in drawn]
        if drawn:
            draw = partial(compared.lines, shown, x_name=label, y_name=panel.metric)
            found.append((panel, drawn, draw))
    return found


def grid(curves: Sequence[PanelCurves]) -> Figure:
    """Draws all panels; within ``drawing.pictures`` only."""
    return panels_figure([ChartPanel(panel.name, compared.lines_height(lines), draw) for panel, lines, draw in curves])


def _line(cell: GroupRuns, name: str, place: int, *, time: bool) -> Lines | None:
    runs = []
    for run, curve in zip(cell.runs, cell.curves, strict=True):
        axis = curve.elapsed_s() / 60.0 if time else curve.steps  # minutes, or steps
        known = np.flatnonzero(np.isfinite(axis) & np.isfinite(curve.values))
        order = known[np.argsort(axis[known], kind="stable")]
        if order.size:
            runs.append(
                (run.name if run.record.seed is None else f"seed {run.record.seed}", axis[order], curve.values[order])
            )
    if len(runs) < 2:
        return Lines(name, place, runs) if runs else None
    pooled = pooled_over_runs([(x, y) for _, x, y in runs])
    return None if pooled is None else Lines(name, place, runs, *pooled)


def forest_chart(comparison: ComparedGroups, candidate: Candidate) -> Chart | None:
    """Returns the plot, one row per environment; None if no environment has a difference.

    Differences are divided by the standard deviation of all scores of their environment.
    """
    rows = [one for one in candidate.judgements if one.difference is not None]
    if not rows:
        return None
    gate = comparison.request.gate
    limits = " Red ticks: the limits of the regression gate." if gate else ""
    return single(
        name=f"forest-{candidate.place}",
        title=f"{comparison.names[candidate.place]}: difference to the baseline",
        caption="Difference in standard deviations of all scores of the environment, with its confidence interval. "
        f"Better lies right of 0, worse left of it.{limits}",
        description="; ".join(f"{row.env}: {_in_units(row):+.2g}, {row.sign.value}" for row in rows),
        build=lambda: _figure(rows, gate=gate),
    )


def forest_figure(comparison: ComparedGroups) -> Figure:
    """Draws all candidates, one block per candidate and one row per environment and metric, with the numbers.

    Red ticks are the limits of the regression gate, if it was requested.

    Raises:
        UserError: there is no candidate.
    """
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    if not comparison.candidates:
        raise UserError("there is one group, and nothing to compare it with", hint='use plot("curves")')
    baseline = comparison.names[comparison.request.baseline or 0]
    blocks_in = [_TITLE_IN + _ROW_IN * len(candidate.panels) for candidate in comparison.candidates]
    height = sum(blocks_in) + _AXIS_IN
    longest = max((len(shortened(panel.name)) for panel in comparison.panels), default=0)
    left_in = _LETTER_IN * longest + 0.25
    width = left_in + _PLOT_IN + _NUMBERS_IN + _VERDICT_IN
    figure = new_figure(height)
    figure.set_size_inches(width, height)
    shift = ScaledTranslation(0.1, 0.04, figure.dpi_scale_trans)
    above = None
    for place, candidate in enumerate(comparison.candidates):
        bottom = _AXIS_IN + sum(blocks_in[place + 1 :])
        area = (left_in / width, bottom / height, _PLOT_IN / width, (blocks_in[place] - _TITLE_IN) / height)
        axes = figure.add_axes(area) if above is None else figure.add_axes(area, sharex=above)
        _rows(axes, candidate.judgements, gate=comparison.request.gate)
        _numbers(axes, candidate)
        title = f"{shortened(comparison.names[candidate.place])} against {shortened(baseline)}: "
        # at the left edge of the figure, just above the axes
        place_of_title = blended_transform_factory(figure.transFigure, axes.transAxes) + shift
        axes.text(0.0, 1.0, f"{title}{sign_text(candidate)}", transform=place_of_title, va="bottom", fontsize=9.5)
        above = axes
        if place < len(comparison.candidates) - 1:
            axes.tick_params(labelbottom=False)
    assert above is not None
    _scale_axis(above, [row for candidate in comparison.candidates for row in candidate.judgements])
    above.set_xlabel(_X_LABEL)
    return figure


def _rows(axes: Axes, rows: Sequence[Judgement], *, gate: bool) -> None:
    axes.axvline(0.0, color=INK["muted"], linewidth=0.8)
    for place, row in enumerate(rows):
        if row.difference is not None:
            colour, unit = INK[_COLOURS[row.sign]], _unit(row)
            if row.low is not None and row.high is not None:
                axes.hlines(place, row.low / unit, row.high / unit, color=colour, linewidth=1.8)
            if gate and row.tolerance > 0:
                axes.vlines(-row.tolerance / unit, place - 0.35, place + 0.35, color=INK["red"], linewidth=1.4)
            axes.plot([_in_units(row)], [place], _MARKERS[row.sign], color=colour, markersize=6)
    rows_of_names(axes, [row.env for row in rows])


def _numbers(axes: Axes, candidate: Candidate) -> None:
    """Writes difference, interval and sign on the right of each row."""
    for place, (panel, row, _) in enumerate(candidate.rows()):
        numbers = JudgementNumbers(panel, row)
        note = f"{numbers.difference()} {numbers.interval()}" if row.difference is not None else _SHORT_REASON
        beside: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 8}
        axes.text(1.03, place, note, **beside)
        axes.text(1.0 + _NUMBERS_IN / _PLOT_IN, place, row.sign.value, color=INK[_COLOURS[row.sign]], **beside)


def _scale_axis(axes: Axes, rows: Sequence[Judgement]) -> None:
    """Compresses large intervals, which would hide on which side of 0 the others lie."""
    ends = [abs(end) / _unit(row) for row in rows for end in (row.low, row.high, row.difference) if end is not None]
    if max(ends, default=1.0) > _MOST_LINEAR:
        axes.set_xscale("symlog", linthresh=2.0, linscale=1.0)
        axes.xaxis.set_major_formatter("{x:g}")
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, -1.6), max(high, 1.6))


def _in_units(row: Judgement) -> float:
    return (row.difference or 0.0) / _unit(row)


def _unit(row: Judgement) -> float:
    return spread_of_all(row.candidate.scores, row.baseline.scores)


def _figure(rows: Sequence[Judgement], *, gate: bool) -> Figure:
    height = _EDGES_IN + _ROW_IN * len(rows)
    figure = new_figure(height)
    longest = max(len(shortened(row.env)) for row in rows)
    left = max(0.3, (_LETTER_IN * longest + 0.25) / WIDTH_IN)
    axes = figure.add_axes((left, 0.6 / height, 0.97 - left, 1 - _EDGES_IN / height))
    _rows(axes, rows, gate=gate)
    _scale_axis(axes, rows)
    axes.set_xlabel(_X_LABEL)
    return figure
