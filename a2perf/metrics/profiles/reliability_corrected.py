"""The ``corrected`` profile: each run's value first, then the mean over runs with a bootstrap interval over seeds.

Differences are divided by the difference of steps; the low-pass filter uses second-order sections and is skipped
for curves that are too short; windows trail their evaluation point and must be full, as in Chan et al. (ICLR 2020) and
the accompanying library. Its normalisation by curve range is available.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from a2perf.arrays import Values
from a2perf.metrics.bootstrap import FEWEST_RESAMPLED, percentile_interval, resample
from a2perf.metrics.definition import mean_over_runs
from a2perf.metrics.profiles import lowpass
from a2perf.metrics.profiles.curves import Curve, aligned
from a2perf.metrics.profiles.reliability_upstream import ALPHA, MIN_RUNS, rollout_formula, small_tail
from a2perf.metrics.statistics import DISPERSIONS, cvar, drawdown, iqr, mad, stacked_windows
from a2perf.metrics.values import MetricResult, not_enough

Normalise = Literal["curve_range"] | tuple[float, float]
"""``"curve_range"``: divided by the 95th percentile less the start value, of each run, or their median for dispersion
across runs. ``(low, high)``: reference scores that become 0 and 1."""
MAX_POINTS = 101
"""Most steps at which runs are compared."""
REPETITIONS = 1000
"""Bootstrap resamples of a statistic across runs."""
_WINDOW = 5
"""Median step differences in the window of a dispersion within runs."""
_SORTING = (iqr, mad)
_CHUNK = 32  # resamples at once, few enough for the processor's cache


def training(
    curves: Sequence[Curve], wanted: Sequence[str], normalise: Normalise | None = None
) -> dict[str, MetricResult]:
    """Computes the wanted training metrics of cleaned curves, in reward units unless they are normalised."""
    across = [name for name in wanted if name.endswith(("AcrossRuns", "OnAcross"))]
    results = _across(curves, across, normalise) if across else {}
    for name in wanted:
        if name not in results:
            results[name] = _within(curves, name, normalise)
    return results


def rollouts(
    runs: Sequence[Values], wanted: Sequence[str], normalise: tuple[float, float] | None = None
) -> dict[str, MetricResult]:
    """Computes the wanted rollout metrics, run by run; reference scores become 0 and 1."""
    low, high = normalise or (0.0, 1.0)
    results = {}
    for name in wanted:
        formula, needed = rollout_formula(name)
        shift = low if "CVaR" in name else 0.0
        long = [values for values in runs if values.size >= needed]
        if not long:
            results[name] = MetricResult(
                condition=not_enough(max((v.size for v in runs), default=0), needed, "rollouts")
            )
            continue
        result = _over_runs([(float(formula(v)) - shift) / (high - low) for v in long])
        if len(long) < len(runs):
            result.notes.append(f"{len(runs) - len(long)} run(s) have fewer than {needed} rollouts and are left out")
        if "CVaR" in name:
            result.notes += small_tail(min(v.size for v in long))
        results[name] = result
    return results


def _over_runs(per_run: Sequence[float]) -> MetricResult:
    result = mean_over_runs(np.array(per_run), "corrected")
    if result.n < 2:
        result.notes.append("1 run: no spread, no interval")
    return result


# --- within runs ------------------------------------------------------------------------------------------------------


def slopes(curve: Curve) -> Values:
    """Returns the differences of a curve divided by the differences of its steps."""
    return np.asarray(np.diff(curve.values) / np.diff(curve.steps))


def windowed(curve: Curve, statistic: Callable[..., Any], window: float | None = None) -> Values:
    """Returns a statistic of the slopes in the window of each step t with a full window.

    By default the window holds five median step differences, in any unit of steps: ``[t - 4 differences, t]``. A
    ``window`` of whole steps is ``[t - window + 1, t]``. Fewer than 3 points give an empty result.
    """
    if curve.steps.size < 3:
        return np.empty(0)
    steps, values = curve.steps[1:], slopes(curve)
    spacing = float(np.median(np.diff(curve.steps)))
    # steps that are equal but for rounding are equal, in any unit
    rounding = 1e-6 * spacing
    begin = steps - ((_WINDOW - 1) * spacing if window is None else window - 1.0) - rounding
    full = begin >= steps[0] - 2.0 * rounding
    starts = np.searchsorted(steps, begin[full], side="left")
    stops = np.flatnonzero(full) + 1
    enough = stops - starts >= 2
    found = np.empty(int(np.count_nonzero(enough)))
    for numbers, matrix in stacked_windows(values, starts[enough], stops[enough]):
        found[numbers] = statistic(matrix, axis=1)
    return found


def _within(curves: Sequence[Curve], name: str, normalise: Normalise | None) -> MetricResult:
    formula, needed, is_level = _per_run_formula(name)
    low, scale = 0.0, 1.0
    if isinstance(normalise, tuple):
        low, scale = normalise[0] if is_level else 0.0, normalise[1] - normalise[0]
    found, missing, flat = [], 0, 0
    for curve in curves:
        curve_range = _curve_range(curve)
        value = formula(curve) if curve.steps.size >= needed else None
        if value is None:
            missing += 1
        elif normalise == "curve_range" and not curve_range > 0:
            flat += 1
        else:
            found.append((value - low) / (curve_range if normalise == "curve_range" else scale))
    if not found:
        points = max((curve.steps.size for curve in curves), default=0)
        why = "not enough data (no curve rises: its range is not positive)" if flat else not_enough(0, 1)
        if missing:
            why = not_enough(points, needed, "points") if points < needed else "not enough data (no window is full)"
        return MetricResult(condition=why)
    result = _over_runs(found)
    if missing:
        result.notes.append(f"{missing} run(s) are too short and left out")
    if flat:
        result.notes.append(f"{flat} run(s) with a curve that does not rise have no curve range and are left out")
    return result


def _per_run_formula(name: str) -> tuple[Callable[[Curve], float | None], int, bool]:
    """Returns the formula of one run, the points it needs, and whether it is a level (not a difference of levels)."""
    if name.endswith("WithinRuns"):
        statistic = DISPERSIONS[name.removesuffix("WithinRuns")]

        def dispersion(curve: Curve) -> float | None:
            found = windowed(curve, statistic)
            return float(found.mean()) if found.size else None

        return dispersion, _WINDOW + 1, False
    formulas: dict[str, tuple[Callable[[Curve], float | None], int, bool]] = {
        "LowerCVaROnDiffs": (lambda c: -float(cvar(slopes(c), ALPHA, "lower")), 2, False),
        "UpperCVaROnDiffs": (lambda c: float(cvar(slopes(c), ALPHA, "upper")), 2, False),
        "LowerCVaROnDrawdown": (lambda c: float(cvar(drawdown(c.values), ALPHA, "upper")), 2, False),
        "MaxDrawdown": (lambda c: float(drawdown(c.values).max()), 2, False),
        "MedianPerfDuringTraining": (lambda c: float(np.median(c.values)), 1, True),
    }
    return formulas[name]


def _curve_range(curve: Curve) -> float:
    """95th percentile less the start value."""
    return float(np.percentile(curve.values, 95.0) - curve.values[0])


# --- across runs ------------------------------------------------------------------------------------------------------


def _across(curves: Sequence[Curve], names: Sequence[str], normalise: Normalise | None) -> dict[str, MetricResult]:
    if len(curves) < MIN_RUNS:
        return {name: MetricResult(condition=not_enough(len(curves), MIN_RUNS)) for name in names}
    scale, low = 1.0, 0.0
    own_scale: Any = 1.0
    if isinstance(normalise, tuple):
        low, scale = normalise[0], normalise[1] - normalise[0]
        own_scale = scale
    elif normalise == "curve_range":
        # Levels are measured against each run's own range, differences between runs against the median one.
        own_scale = np.array([_curve_range(curve) for curve in curves])
        scale = float(np.median(own_scale))
        if not own_scale.min() > 0:
            why = "not enough data (a curve does not rise: its range is not positive)"
            return {name: MetricResult(condition=why) for name in names}
    matrix, notes = _at_evaluation_points(curves)
    if matrix.shape[1] == 0:
        return {name: MetricResult(condition="not enough data (the runs share no step)") for name in names}
    matrix = (matrix - low) / scale
    final = (np.array([curve.values[-1] for curve in curves]) - low) / own_scale
    results = {}
    for name in names:
        of_levels = name.endswith("OnAcross")
        result = _compared(final[:, None] if of_levels else matrix, name)
        result.notes += small_tail(len(curves)) if of_levels else list(notes)
        result.per_run = [float(value) for value in final] if of_levels else []
        results[name] = result
    return results


def _compared(matrix: Values, name: str) -> MetricResult:
    """Aggregates a statistic across runs over evaluation points, ``matrix`` being (runs, points)."""
    if name.endswith("AcrossRuns"):
        statistic = DISPERSIONS[name.removesuffix("AcrossRuns")]
    else:
        tail: Any = "lower" if name.startswith("Lower") else "upper"

        def statistic(values: Values, axis: int) -> Any:
            return cvar(values, ALPHA, tail, axis=axis)

    by_point = np.asarray(statistic(matrix, axis=0))
    result = MetricResult(value=float(by_point.mean()))
    if by_point.size > 1:
        result.spread = float(by_point.std(ddof=1))
        result.spread_kind = "standard deviation over evaluation points, ddof 1"
    runs = matrix.shape[0]
    if runs < FEWEST_RESAMPLED:
        result.notes.append(f"no interval across fewer than {FEWEST_RESAMPLED} runs: it would be too narrow by far")
        return result
    # A fresh generator per metric: its interval does not depend on which others are asked for.
    generator = np.random.default_rng(0)
    order = resample(np.arange(runs, dtype=np.float64)[:, None], REPETITIONS, generator)[..., 0]
    chunks = np.array_split(order.astype(np.intp), max(1, REPETITIONS // _CHUNK))
    low, high = percentile_interval(
        np.concatenate([of_resamples(statistic, matrix, rows).mean(axis=1) for rows in chunks])
    )
    result.interval = float(low), float(high)
    if name.endswith("AcrossRuns"):
        result.notes.append("resampling repeats runs, so the interval of a dispersion across few runs leans low")
    return result


def of_resamples(statistic: Callable[..., Any], matrix: Values, rows: NDArray[np.intp]) -> Values:
    """Returns a statistic across runs of each resample at each point, shape ``(resamples, points)``.

    The matrix has the shape ``(runs, points)``; ``rows`` holds the runs of each resample, shape ``(resamples, runs)``.
    """
    if statistic in _SORTING:
        # Sorting contiguous values takes half the time and gives the same bits.
        by_point = statistic(np.ascontiguousarray(matrix.T)[:, rows], axis=-1)
        return np.ascontiguousarray(np.asarray(by_point).T)
    return np.asarray(statistic(matrix[rows], axis=1))


def _at_evaluation_points(curves: Sequence[Curve]) -> tuple[Values, list[str]]:
    """Returns the (filtered) values of the runs at common steps, ``(runs, points)``, and notes on how."""
    notes = []
    values = [curve.values for curve in curves]
    shortest = min(own.size for own in values)
    if shortest >= lowpass.SHORT_CURVE:
        values = lowpass.sections(values)
    else:
        notes.append(f"not low-pass filtered: a curve has {shortest} points and the filter needs {lowpass.SHORT_CURVE}")
    low = max(float(curve.steps[0]) for curve in curves)
    high = min(float(curve.steps[-1]) for curve in curves)
    if low > high:
        points = np.empty(0)
    elif aligned(curves):
        points = curves[0].steps
        if points.size > MAX_POINTS:
            points = points[np.linspace(0, points.size - 1, MAX_POINTS).round().astype(np.intp)]
    else:
        points = np.linspace(low, high, min(MAX_POINTS, shortest))
        notes.append(f"steps are not aligned: interpolated at {points.size} even points from {low:g} to {high:g}")
    matrix = [np.interp(points, curve.steps, own) for curve, own in zip(curves, values, strict=True)]
    return np.stack(matrix), notes
