"""Learning curves of the runs of a group as one line with its spread, against steps or time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from a2perf.arrays import Values
from a2perf.rlops.compare.selection import GroupRuns
from a2perf.runs.store import RunCurve

POINTS = 250
"""Points of a line; more could not be distinguished in a figure."""
ROLLING = 100
"""Values that a point is the mean of; a tenth of a curve if that is less."""


@dataclass(frozen=True)
class Line:
    """The mean over runs with its spread.

    Attributes:
        x: steps, or minutes; shape ``(points,)``.
        std: the same, ddof 0.
    """

    x: Values
    mean: Values
    std: Values
    runs: tuple[tuple[Values, Values], ...]


def line_of(cell: GroupRuns, *, time: bool = False) -> Line | None:
    """Returns the line of a cell, over the range that all its runs share; None if there is nothing to draw."""
    runs = [drawn for curve in cell.curves if (drawn := _drawn(curve, time=time)) is not None]
    if not runs:
        return None
    low, high = max(float(x[0]) for x, _ in runs), min(float(x[-1]) for x, _ in runs)
    thin = tuple(_thinned(x, y) for x, y in runs)
    if not high > low:
        if len(runs) > 1:
            return None
        return Line(runs[0][0][:1], runs[0][1][:1], np.zeros(1), thin)
    grid = np.linspace(low, high, POINTS)
    matrix = np.stack([np.interp(grid, x, y) for x, y in runs])
    return Line(grid, matrix.mean(axis=0), matrix.std(axis=0), thin)


def rolled(values: Values, window: int) -> Values:
    """Returns the mean of each value and those before it, ``window`` in all; fewer at the beginning."""
    window = max(1, min(window, values.size))
    sums = np.cumsum(values)
    sums[window:] = sums[window:] - sums[:-window]
    return np.asarray(sums / np.minimum(np.arange(1, values.size + 1), window))


def _drawn(curve: RunCurve, *, time: bool) -> tuple[Values, Values] | None:
    axis = curve.times if time else curve.steps
    known = np.isfinite(axis) & np.isfinite(curve.values)
    x, y = axis[known], curve.values[known]
    if not x.size:
        return None
    if time:
        order = np.argsort(x, kind="stable")
        x, y = x[order] / 60.0, y[order]
    return x, rolled(y, min(ROLLING, max(1, y.size // 10)))


def _thinned(x: Values, y: Values) -> tuple[Values, Values]:
    if x.size <= POINTS:
        return x, y
    places = np.linspace(0, x.size - 1, POINTS).astype(np.intp)
    return x[places], y[places]
