"""Figures of ``--rliable``: sample efficiency, performance profile and aggregates over all environments.

Formulas of Agarwal et al., "Deep RL at the Edge of the Statistical Precipice" (NeurIPS 2021), over stored reference
scores. Intervals use thousands of resamples; with the ten of earlier tools they changed from run to run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from a2perf.metrics.bootstrap import bootstrap
from a2perf.metrics.comparison import performance_profile
from a2perf.report import compared_charts as compared
from a2perf.report.charts import rows_of_names, shortened
from a2perf.report.compared_charts import Lines
from a2perf.report.drawing import INK, Drawing, new_figure
from a2perf.rlops.compare.comparison import AGGREGATES, ComparedGroups
from a2perf.rlops.compare.curves import TIME_UNITS, ends, resampled
from a2perf.rlops.compare.figures import stroke

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_THRESHOLDS = 121


@dataclass(frozen=True)
class AggregateStyle:
    """What is drawn; fields are named like the flags of the ``--rc.*`` group.

    Attributes:
        normalized_score_threshold: highest threshold of performance profiles.
        nsubsamples: points of efficiency curves.
        method: aggregate of efficiency curves, a name of ``comparison.AGGREGATES``.
        sample_efficiency_plots: draw efficiency over steps and time.
        performance_profile_plots: draw profiles.
        aggregate_metrics_plots: draw aggregates.
        sample_efficiency_num_bootstrap_reps: resamples of each point.
        performance_profile_num_bootstrap_reps: resamples of a profile.
    """

    normalized_score_threshold: float = 8.0
    nsubsamples: int = 20
    method: str = "IQM"
    sample_efficiency_plots: bool = True
    performance_profile_plots: bool = True
    aggregate_metrics_plots: bool = True
    sample_efficiency_num_bootstrap_reps: int = 1000
    performance_profile_num_bootstrap_reps: int = 2000


@dataclass(frozen=True)
class AggregateFigure:
    """One figure over all environments.

    Attributes:
        name: what its files are called after the stem.
        title: what it shows.
        caption: how to read it.
        description: what a reader who cannot see it needs to know.
        build: makes it, within ``drawing`` only.
    """

    name: str
    title: str
    caption: str
    description: str
    build: Callable[[], Drawing | Figure]


def aggregate_figures(comparison: ComparedGroups, style: AggregateStyle, time_unit: str) -> list[AggregateFigure]:
    """Returns what ``--rliable`` adds; the resampling is done here, once.

    Args:
        comparison: with normalised scores.
        style: what to draw.
        time_unit: ``"s"``, ``"m"`` or ``"h"``.
    """
    described = "; ".join(
        f"{name}: {found['IQM'].value:.3g}" for name, found in zip(comparison.names, comparison.aggregates, strict=True)
    )
    described = f"Interquartile means: {described}."
    made = []
    if style.aggregate_metrics_plots:
        caption = "Over all environments, with stratified bootstrap intervals; of the optimality gap less is better."
        made.append(AggregateFigure("aggregate", "Aggregates", caption, described, partial(aggregates, comparison)))
    if style.performance_profile_plots:
        caption = "Share of runs and environments with a normalised score above the threshold, with its interval."
        build = partial(profile_drawing, profile(comparison, style))
        made.append(AggregateFigure("performance_profile", "Performance profile", caption, described, build))
    if style.sample_efficiency_plots:
        caption = f"{style.method} of normalised scores of all environments along the training, with its interval."
        for name, title, unit in (
            ("sample_efficiency", "Sample efficiency", None),
            ("sample_walltime_efficiency", "Wall-time efficiency", time_unit),
        ):
            lines = efficiency(comparison, style, time_unit=unit)
            if lines:
                build = partial(efficiency_drawing, lines, style, unit)
                made.append(AggregateFigure(name, title, caption, described, build))
    return made


def efficiency(comparison: ComparedGroups, style: AggregateStyle, *, time_unit: str | None = None) -> list[Lines]:
    """Returns the aggregate of normalised scores along the training of each group.

    Args:
        comparison: with a reference for every panel.
        style: how.
        time_unit: against time in this unit; None for the share of the steps that all runs of a panel have.
    """
    in_time = time_unit is not None
    shares = np.linspace(0.0, 1.0, style.nsubsamples + 1)[1:]
    panel_ends = [[e for cell in panel.cells for e in ends(cell, time_s=in_time)] for panel in comparison.panels]
    if any(not found for found in panel_ends):
        return []
    # steps end with the shortest run, which has no later value; in time, a faster group keeps its last value
    longest = max(float(np.median(found)) for found in panel_ends)
    reach = [longest if in_time else min(found) for found in panel_ends]
    x = shares * longest / TIME_UNITS[time_unit] if time_unit is not None else shares * 100.0
    drawn = []
    for place, name in enumerate(comparison.names):
        columns = []
        for panel, end in zip(comparison.panels, reach, strict=True):
            values = resampled(panel.cells[place], shares * end, time_s=in_time)
            columns.append(comparison.references[panel.name].normalise(values))
        fewest = min(column.shape[0] for column in columns)
        if not fewest:
            continue
        cube = np.stack([column[:fewest] for column in columns], axis=1)  # runs, panels, places
        found = [
            bootstrap(
                cube[:, :, at], AGGREGATES[style.method], repetitions=style.sample_efficiency_num_bootstrap_reps,
                confidence=comparison.request.confidence, method="small",
            )
            for at in range(x.size)
        ]  # fmt: skip
        known = found[0].low is not None
        low, high = (np.array([getattr(e, end) for e in found]) if known else None for end in ("low", "high"))
        drawn.append(Lines(name, place, (), x, np.array([e.value for e in found]), low, high))
    return drawn


def efficiency_drawing(lines: list[Lines], style: AggregateStyle, time_unit: str | None) -> Drawing:
    """Draws the lines of ``efficiency``."""
    name = {"s": "time, s", "m": "time, min", "h": "time, h"}.get(time_unit or "", "share of the training, %")
    return compared.lines(lines, x_name=name, y_name=f"{style.method} of normalised scores")


def profile(comparison: ComparedGroups, style: AggregateStyle) -> list[Lines]:
    """Returns the performance profile of each group, up to the highest threshold that matters."""
    every = np.concatenate([matrix.ravel() for matrix in comparison.normalised])
    room = 0.05 * max(float(np.ptp(every)), 0.1)
    high = min(style.normalized_score_threshold, float(every.max()) + room)
    thresholds = np.linspace(min(0.0, float(every.min()) - room), max(high, 0.1), _THRESHOLDS)
    drawn = []
    for place, (name, matrix) in enumerate(zip(comparison.names, comparison.normalised, strict=True)):
        found = performance_profile(
            matrix, thresholds, repetitions=style.performance_profile_num_bootstrap_reps,
            confidence=comparison.request.confidence,
        )  # fmt: skip
        ends_of = [None if end is None else np.array(end) for end in (found.low, found.high)]
        drawn.append(Lines(name, place, (), thresholds, np.array(found.value), *ends_of))
    return drawn


def profile_drawing(lines: list[Lines]) -> Drawing:
    """Draws the lines of ``profile``."""
    return compared.profiles(lines, x_name="normalised score")


def aggregates(comparison: ComparedGroups) -> Figure:
    """Draws IQM, mean, median and optimality gap of each group with their intervals; within ``drawing`` only."""
    names = comparison.names
    row_in = 0.62 + 0.26 * max(2, len(names))
    height = 2 * row_in + 0.1
    figure = new_figure(height)
    left = 0.04 + 0.0145 * max(len(shortened(name)) for name in names)
    panels = figure.subplots(2, 2, sharey=True)
    figure.subplots_adjust(
        left=left, right=0.97, bottom=0.3 / height, top=1 - 0.3 / height, wspace=0.1, hspace=0.6 / (row_in - 0.6)
    )
    for axes, kind in zip(panels.flat, AGGREGATES, strict=True):
        axes.set_title(kind.capitalize() if kind != "IQM" else kind, fontsize=9, loc="left", color=INK["ink"])
        axes.use_sticky_edges = False  # bars otherwise end at the axes' edge
        axes.grid(axis="x")
        axes.grid(visible=False, axis="y")
        for row, found in enumerate(comparison.aggregates):
            estimate, (colour, _) = found[kind], stroke(row)
            if estimate.low is not None:
                axes.barh(row, estimate.high - estimate.low, left=estimate.low, height=0.5, color=colour, alpha=0.3)
            axes.plot([estimate.value] * 2, [row - 0.25, row + 0.25], color=colour, linewidth=2)
        axes.margins(x=0.14)
        axes.locator_params(axis="x", nbins=5)
    for axes in panels[:, 0]:
        rows_of_names(axes, names)
    return figure
