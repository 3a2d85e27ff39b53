"""The ``upstream`` profile: reliability as the upstream platform computed it, pooled over runs, in reward units.

Its peculiarities are kept because published numbers rest on them: the ill-conditioned low-pass filter, interquartile
ranges of 0 that are dropped, differences that are not divided by the difference of steps, window centres at absolute
steps. ``per_run`` holds the same formula on one run alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from a2perf.arrays import Values
from a2perf.metrics.definition import mean_over_runs
from a2perf.metrics.profiles import lowpass
from a2perf.metrics.profiles.curves import Curve, aligned
from a2perf.metrics.statistics import DISPERSIONS, cvar, drawdown, iqr, stacked_windows
from a2perf.metrics.values import MetricResult, not_enough

ALPHA = 0.05
WINDOW = 5
MIN_RUNS = 3


def training(curves: Sequence[Curve]) -> dict[str, MetricResult]:
    """Computes the training metrics of cleaned curves."""
    if not curves:
        needed = dict.fromkeys(TRAINING, 1) | {"IqrAcrossRuns": MIN_RUNS}
        return {name: MetricResult(condition=not_enough(0, runs)) for name, runs in needed.items()}
    return {name: formula(curves) for name, formula in TRAINING.items()}


def rollouts(runs: Sequence[Values], wanted: Sequence[str]) -> dict[str, MetricResult]:
    """Computes the wanted rollout metrics over the returns of all runs pooled."""
    pooled = np.concatenate(runs) if runs else np.empty(0)
    return {name: _pooled_rollouts(pooled, runs, name) for name in wanted}


def rollout_formula(name: str) -> tuple[Callable[[Values], Any], int]:
    """Returns the formula of a rollout metric, and how many returns it needs."""
    if "CVaR" in name:
        tail: Any = "lower" if name.startswith("Lower") else "upper"
        return lambda values: cvar(values, ALPHA, tail), 1
    return DISPERSIONS[name.removesuffix("AcrossRollouts")], 2


def small_tail(count: int) -> list[str]:
    """Returns the note that a tail of so few values is a single one."""
    return [f"of {count} values the {ALPHA:.0%} tail is the most extreme one alone"] if count <= 1 / ALPHA else []


def _pooled_rollouts(pooled: Values, runs: Sequence[Values], name: str) -> MetricResult:
    formula, needed = rollout_formula(name)
    if pooled.size < needed:
        return MetricResult(condition=not_enough(pooled.size, needed, "rollouts"))
    notes = small_tail(pooled.size) if "CVaR" in name else []
    per_run = [float(formula(values)) if values.size >= needed else None for values in runs]
    return MetricResult(value=float(formula(pooled)), per_run=per_run, notes=notes)


# --- across runs ------------------------------------------------------------------------------------------------------


def _across_runs(curves: Sequence[Curve]) -> MetricResult:
    if len(curves) < MIN_RUNS:
        return MetricResult(condition=not_enough(len(curves), MIN_RUNS))
    ranges = iqr_by_step([curve.steps for curve in curves], lowpass.polynomial([curve.values for curve in curves]))
    if ranges.size == 0:
        return MetricResult(condition=f"not enough data (no step is shared by {MIN_RUNS} runs)")
    ranges = ranges[ranges != 0]
    if ranges.size == 0:
        return MetricResult(condition="not enough data (the runs are identical: every interquartile range is 0)")
    shortest = min(curve.values.size for curve in curves)
    notes = []
    if shortest < lowpass.SHORT_CURVE:
        notes.append(
            f"a curve has {shortest} points; below {lowpass.SHORT_CURVE} the filter's transients dominate this value"
        )
    if not aligned(curves):
        notes.append(f"steps are not aligned: only those shared by {MIN_RUNS} runs count")
    return MetricResult(
        value=float(ranges.mean()),
        spread=float(ranges.std(ddof=1)) if ranges.size > 1 else None,
        spread_kind="standard deviation over steps, ddof 1",
        notes=notes,
    )


def iqr_by_step(steps: Sequence[Values], values: Sequence[Values]) -> Values:
    """Returns the interquartile range across runs at each step that at least three runs have, in order of steps."""
    if all(np.array_equal(own, steps[0]) for own in steps[1:]):
        return np.asarray(iqr(np.stack(values), axis=0))
    shared = np.unique(np.concatenate(steps))
    matrix = np.full((len(steps), shared.size), np.nan)
    for row, (own, of_run) in enumerate(zip(steps, values, strict=True)):
        matrix[row, np.searchsorted(shared, own)] = of_run
    matrix.sort(axis=0)  # NaN, a run without the step, sorts last
    counts = np.count_nonzero(~np.isnan(matrix), axis=0)
    ranges = np.full(shared.size, np.nan)
    # Columns with equally many runs form a matrix without NaN, which the quantile of sorted values cannot skip.
    for count in np.unique(counts[counts >= MIN_RUNS]):
        columns = counts == count
        ranges[columns] = iqr(matrix[:count, columns], axis=0)
    return np.asarray(ranges[counts >= MIN_RUNS])


def _on_final_values(curves: Sequence[Curve]) -> MetricResult:
    final = np.array([curve.values[-1] for curve in curves])
    notes = small_tail(final.size)
    if final.size < MIN_RUNS:
        notes.append(f"{final.size} run(s) say little about others")
    return MetricResult(value=float(cvar(final, ALPHA)), per_run=[float(value) for value in final], notes=notes)


# --- within runs ------------------------------------------------------------------------------------------------------


def _within_runs(curves: Sequence[Curve]) -> MetricResult:
    found = [windowed_iqr(curve) for curve in curves]
    pooled = np.concatenate(found)
    if pooled.size == 0:
        return MetricResult(condition="not enough data (no window of a run holds 2 differences)")
    return MetricResult(
        value=float(pooled.mean()),
        spread=float(pooled.std()),
        spread_kind="standard deviation over windows of all runs, ddof 0",
        per_run=[float(ranges.mean()) if ranges.size else None for ranges in found],
    )


def windowed_iqr(curve: Curve) -> Values:
    """Returns the interquartile range of the differences in each window of one run that holds at least two."""
    if curve.steps.size < 3:
        return np.empty(0)
    steps, differences = curve.steps[1:], np.diff(curve.values)
    median = float(np.median(np.diff(curve.steps)))
    stride, window = int(median), int(WINDOW * median)
    if stride < 1:
        # Steps closer together than 1 leave the earlier formula without a stride.
        return np.empty(0)
    centres = _centres(steps, stride, window)
    starts = np.searchsorted(steps, np.ceil(centres - window / 2), side="left")
    stops = np.searchsorted(steps, np.floor(centres + window / 2), side="right")
    enough = stops - starts >= 2
    ranges = np.empty(int(np.count_nonzero(enough)))
    for numbers, matrix in stacked_windows(differences, starts[enough], stops[enough]):
        ranges[numbers] = iqr(matrix, axis=1)
    return ranges


def _centres(steps: Values, stride: int, window: int) -> Values:
    """Returns the centres, at absolute steps, of the windows that can contain a point."""
    first, last = float(math.ceil(window / 2)), float(steps[-1])
    # A curve that starts late would otherwise have a centre for every stride since step 0.
    skipped = max(0, math.floor((steps[0] - window / 2 - first) / stride))
    count = max(0, math.ceil((last - first) / stride) - skipped)
    if count <= 20 * steps.size + 100:
        return np.asarray(first + stride * (skipped + np.arange(count, dtype=np.float64)))
    # A sparse curve over a huge range: only the windows around its points can hold any.
    reach = math.ceil(window / 2 / stride) + 1
    nearest = np.floor((steps - first) / stride)[:, None] + np.arange(-reach, reach + 1)[None, :]
    centres = first + stride * np.unique(nearest[nearest >= 0])
    return np.asarray(centres[centres < last])


def _pooled_tail(pieces: Sequence[Values], tail: Any, sign: float, needed: str) -> MetricResult:
    pooled = np.concatenate(pieces)
    if pooled.size == 0:
        return MetricResult(condition=f"not enough data (no run has {needed})")
    per_run = [sign * float(cvar(piece, ALPHA, tail)) if piece.size else None for piece in pieces]
    return MetricResult(value=sign * float(cvar(pooled, ALPHA, tail)), per_run=per_run, notes=small_tail(pooled.size))


def _median_performance(curves: Sequence[Curve]) -> MetricResult:
    medians = np.array([float(np.median(curve.values)) for curve in curves])
    result = mean_over_runs(medians, "upstream")
    result.notes = ["not part of the earlier platform: median of each run, then the mean over runs"]
    return result


TRAINING: dict[str, Callable[[Sequence[Curve]], MetricResult]] = {
    "IqrWithinRuns": _within_runs,
    "IqrAcrossRuns": _across_runs,
    "LowerCVaROnDiffs": lambda curves: _pooled_tail([np.diff(one.values) for one in curves], "lower", -1.0, "2 points"),
    "LowerCVaROnDrawdown": lambda curves: _pooled_tail([drawdown(c.values) for c in curves], "upper", 1.0, "a point"),
    "LowerCVarOnAcross": _on_final_values,
    "MedianPerfDuringTraining": _median_performance,
}
