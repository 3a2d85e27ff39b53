"""Learning curves of several runs as one line with its interval, against steps, time or energy.

Runs log at different points. Each curve is averaged in equal windows of the range that all runs share. Every window has
the mean over runs and the same small-sample interval as the tables (``metrics.bootstrap.mean_interval``).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from a2perf.arrays import Values
from a2perf.metrics.bootstrap import mean_interval
from a2perf.metrics.efficiency import logged_at
from a2perf.metrics.profiles.curves import clean
from a2perf.metrics.scores import SeedGroup
from a2perf.report.figures.compared_charts import Lines
from a2perf.report.task_results import Label

Axis = Literal["steps", "time", "energy"]
WINDOWS = 60
FEWEST_POINTS = 5
"""Curves of fewer points are drawn as single dots: a mean with its interval would suggest more than was logged."""


def learned(group: SeedGroup, label: Label, axis: Axis) -> Lines | None:
    """Returns the curves of a group against an axis, or None when no run has one there."""
    with_curve = [run for run in group.runs if run.curve is not None]
    names = dict(zip((id(run) for run in group.runs), group.seed_names(), strict=True))
    runs = []
    for index, run in enumerate(with_curve):
        drawn = _against(group, index, axis)
        if drawn is not None and drawn[0].size:
            runs.append((names[id(run)], *drawn))
    if not runs:
        return None
    if len(runs) == 1 or min(x.size for _, x, _ in runs) < FEWEST_POINTS:
        return Lines(label.title, label.place, runs)
    pooled = pooled_over_runs([(x, y) for _, x, y in runs])
    return Lines(label.title, label.place, runs, *(pooled or ()))


def pooled_over_runs(runs: list[tuple[Values, Values]]) -> tuple[Values, Values, Values, Values] | None:
    """Returns the middle of each window, the mean over runs there, and its interval.

    Args:
        runs: (x, y) with increasing x, at least two.

    Returns:
        x, mean, low, high of shape (windows,); None where the runs share no range.
    """
    low, high = max(float(x[0]) for x, _ in runs), min(float(x[-1]) for x, _ in runs)
    if not high > low:
        return None
    count = int(max(2, min(WINDOWS, *(int(((x >= low) & (x <= high)).sum()) for x, _ in runs))))
    edges = np.linspace(low, high, count + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    matrix = np.stack([_windowed(x, y, edges, middles) for x, y in runs])
    ends = np.array([(row[0], row[0]) if np.ptp(row) == 0 else mean_interval(row) for row in matrix.T])
    return middles, matrix.mean(axis=0), ends[:, 0], ends[:, 1]


def _against(group: SeedGroup, index: int, axis: Axis) -> tuple[Values, Values] | None:
    steps, values = (np.asarray(column, np.float64).ravel() for column in group.data.curves[index])
    if axis == "steps":
        curve = clean(steps, values)
        return curve.steps, curve.values
    logged = logged_at([run for run in group.data.runs if run.curve is not None][index])
    if logged is None:
        return None
    known = np.isfinite(steps) & np.isfinite(values)
    along = logged[0] if axis == "time" else logged[1]
    return None if along is None else (along, values[known])


def _windowed(x: Values, y: Values, edges: Values, middles: Values) -> Values:
    """Averages a curve in windows; one without a point takes the line between its neighbours."""
    bins = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, middles.size - 1)
    inside = (x >= edges[0]) & (x <= edges[-1])
    counts = np.bincount(bins[inside], minlength=middles.size)
    sums = np.bincount(bins[inside], weights=y[inside], minlength=middles.size)
    means: Values = np.interp(middles, x, y)
    held = counts > 0
    means[held] = sums[held] / counts[held]
    return means
