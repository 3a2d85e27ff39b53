"""Stratified bootstrap intervals over runs, vectorised, and reproducible bit for bit from a seed.

Runs are resampled within each task (Agarwal et al., NeurIPS 2021); all indices of a chunk of repetitions are drawn at
once and gathered once. Interval methods: ``percentile``, and ``small``: Student's and Hall's intervals from the error
and skewness of the resamples. With fewer than twenty seeds ``percentile`` is too narrow: always print ``n``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, get_args

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from a2perf.arrays import Values
from a2perf.metrics.statistics import chunk_sizes, iqm, student_quantile

Method = Literal["percentile", "small"]
Aggregate = Callable[[Values], Any]
_MOST_STRETCH = 1.3
"""Limit of Hall's interval, in Student's: with few skewed runs it is unstable, and more width adds little coverage."""
FEWEST_RESAMPLED = 10
"""Fewer values give no percentile interval: that of a dispersion or a tail across three runs covers 14 % for 95."""
_ROUNDING = 1e-12
"""Runs that differ by less than this share of their values are equal: two machines may differ by a bit."""


class Estimate(msgspec.Struct, kw_only=True, frozen=True):
    """A point estimate from ``n`` runs, the smallest number of any task, with its interval; arrays are nested lists.

    The ends are shaped like ``value``, and ``None`` with fewer than 2 runs.
    """

    value: Any
    low: Any
    high: Any
    n: int
    tasks: int
    repetitions: int
    confidence: float
    method: str


def aggregate_iqm(scores: Values) -> Values:
    """Interquartile mean over runs and tasks of ``(..., runs, tasks)``."""
    return np.asarray(iqm(scores.reshape(*scores.shape[:-2], -1)))


def aggregate_mean(scores: Values) -> Values:
    """Mean over runs and tasks of ``(..., runs, tasks)``."""
    return np.asarray(scores.mean(axis=(-2, -1)))


def bootstrap(
    scores: ArrayLike,
    aggregate: Aggregate = aggregate_iqm,
    *,
    repetitions: int = 50_000,
    confidence: float = 0.95,
    method: Method = "percentile",
    seed: int | np.random.Generator = 0,
) -> Estimate:
    """Returns an aggregate of scores with its stratified bootstrap interval.

    Args:
        scores: shape ``(runs, tasks)`` or ``(runs,)`` for one task; finite.
        aggregate: from ``(..., runs, tasks)`` to ``(...)`` or ``(..., k)``.
        confidence: mass of the interval, in (0, 1).
        seed: a seed or a generator; the same seed gives the same bits.

    Raises:
        ValueError: a score is not finite, there is none, or an argument is out of range.
    """
    matrix = as_scores(scores)
    if repetitions < 1 or not 0.0 < confidence < 1.0:
        raise ValueError(f"repetitions={repetitions}, confidence={confidence}: need at least 1, and between 0 and 1")
    if method not in get_args(Method):
        raise ValueError(f"method is {method!r}; it must be percentile or small")
    value = np.asarray(aggregate(matrix), dtype=np.float64)
    runs, tasks = matrix.shape
    low = high = None
    if runs > 1:
        generator = np.random.default_rng(seed)
        sample = np.concatenate([aggregate(resample(matrix, size, generator)) for size in chunk_sizes(repetitions)])
        if method == "small":
            freedom = freedom_of_sum(matrix.var(axis=0, ddof=1), runs)
            ends = small_sample_interval(sample, value, runs, freedom, confidence)
            # tasks on which all runs agree add what their unseen runs can change
            tail = (1.0 - confidence) / 2.0
            reach = math.hypot(*(unseen_reach(column, tail) for column in matrix.T)) / tasks
            ends = value - np.hypot(value - ends[0], reach), value + np.hypot(ends[1] - value, reach)
        else:
            ends = percentile_interval(sample, confidence=confidence)
        low, high = _plain(ends[0]), _plain(ends[1])
    return Estimate(
        value=_plain(value),
        low=low,
        high=high,
        n=runs,
        tasks=tasks,
        repetitions=repetitions,
        confidence=confidence,
        method=method,
    )


def small_sample_interval(
    sample: Values, value: Values, runs: int, freedom: float, confidence: float
) -> tuple[Values, Values]:
    """Returns the ends of ``small_sample_ends`` for each value of an aggregate; ``sample``: ``(repetitions, ...)``."""
    low, high = np.empty_like(value), np.empty_like(value)
    for place in np.ndindex(value.shape):
        draws = sample[(slice(None), *place)]
        # The variance of resamples has the divisor n; the factor turns it into the unbiased one with n - 1.
        error = 0.0 if np.ptp(draws) == 0 else float(draws.std()) * math.sqrt(runs / (runs - 1))
        ends = small_sample_ends(float(value[place]), error, _skewness(draws), runs, freedom, confidence)
        low[place], high[place] = ends
    return low, high


def mean_interval(values: Values, *, confidence: float = 0.95) -> tuple[float, float]:
    """Returns the interval of the mean of a few runs; ``values``: ``(runs,)``, at least 2.

    Successes and failures (1 and 0) have the exact interval of a success rate (C. J. Clopper and E. S. Pearson,
    Biometrika 26, 1934): ten of ten is [0.69, 1]. Other values that all agree have ``unseen_reach`` on each side, and
    all others ``small_sample_ends``.
    """
    count = values.size
    tail = (1.0 - confidence) / 2.0
    if np.isin(values, (0.0, 1.0)).all():
        return success_interval(int(values.sum()), count, tail)
    if is_constant(values):
        value, reach = float(values[0]), unseen_reach(values, tail)
        return value - reach, value + reach
    return interval_of_varied(values, confidence)


def interval_of_varied(values: Values, confidence: float) -> tuple[float, float]:
    """Returns the interval of the mean of values that differ, ``(n,)``, by ``small_sample_ends``."""
    count = values.size
    error, skew = float(values.std(ddof=1)) / math.sqrt(count), _skewness(values) / math.sqrt(count)
    return small_sample_ends(float(values.mean()), error, skew, count, count - 1, confidence)


def success_interval(successes: int, count: int, tail: float) -> tuple[float, float]:
    """Returns the ends of the exact interval of a success rate with the mass ``tail`` beyond each of them."""
    from scipy.special import betaincinv

    low = float(betaincinv(successes, count - successes + 1, tail)) if successes else 0.0
    high = float(betaincinv(successes + 1, count - successes, 1.0 - tail)) if successes < count else 1.0
    return low, high


def is_constant(values: Values) -> bool:
    """Returns whether all values are equal within rounding."""
    return bool(np.ptp(values) <= _ROUNDING * np.abs(values).max())


def unseen_reach(values: Values, tail: float, *others: Values) -> float:
    """Returns how far the true mean of equal values may lie from them because of runs that were not seen.

    A share of the runs as large as ``1 - tail ** (1 / n)`` stays unseen in n runs with the chance ``tail``. Each of
    them may differ by as much as the farthest of ``others`` does; without others by as much as the value itself, since
    a failed run often scores 0. Values of 0 or 1 may be successes and failures, and differ by 1. 0 for values that
    differ.
    """
    if not is_constant(values):
        return 0.0
    value = float(values[0])
    farthest = max(float(np.abs(other - value).max()) for other in others) if others else abs(value)
    if value in (0.0, 1.0):
        farthest = max(farthest, 1.0)
    return float(1.0 - tail ** (1.0 / values.size)) * farthest


def small_sample_ends(
    value: float, error: float, skew: float, runs: int, freedom: float, confidence: float
) -> tuple[float, float]:
    """Returns the ends of an interval that allows for few runs and for skewed scores.

    Each end is the outer one of two: that of Student's t interval, and that of Hall's, which takes the skewness out of
    the t statistic by a cubic transformation (P. Hall, Journal of the Royal Statistical Society B 54, 1992), to at
    most 1.3 times the former. ``perf/verdicts.py`` measures the coverage.

    Args:
        error: its standard error.
        skew: skewness of the estimate's distribution, not corrected for the number of runs.
    """
    if error == 0.0:
        return value, value
    reach = student_quantile(0.5 + confidence / 2.0, freedom)
    # The correction divides by runs - 2.
    if runs > 2:
        skew *= math.sqrt(runs * (runs - 1)) / (runs - 2)
    right, left = _without_skew(reach, skew), _without_skew(-reach, skew)
    farthest = _MOST_STRETCH * reach
    return value - error * min(max(reach, right), farthest), value + error * min(max(reach, -left), farthest)


def _without_skew(level: float, skew: float) -> float:
    """Returns the t statistic that Hall's cubic transformation maps to ``level`` (the inverse of the polynomial)."""
    if abs(skew) < 1e-6:  # the formula divides by the skewness; its limit at 0 is Student's interval
        return level
    # cbrt and not ** (1 / 3): the argument may be negative, and the power would then be complex.
    return 3.0 / skew * (math.cbrt(1.0 + skew * (level - skew / 6.0)) - 1.0)


def _skewness(values: Values) -> float:
    deviation = values - values.mean()
    variance = float((deviation**2).mean())
    third = float((deviation**3).mean())
    return third / math.pow(variance, 1.5) if variance > 0.0 else 0.0


def freedom_of_sum(variances: Values, runs: int) -> float:
    """Returns the degrees of freedom of the error of a sum over tasks.

    Welch-Satterthwaite's without the bias of estimated shares: E(v^2) of an error variance v with f degrees of freedom
    is (f + 2) / f of its square, so f + 2 stands for f, less 2 in all. One task keeps its f.

    ``variances`` are the error variances of the terms, shape ``(tasks,)``, with so many runs behind each of them.
    """
    total = float(variances.sum())
    return float(runs - 1) if total == 0.0 else float((runs + 1) / ((variances / total) ** 2).sum()) - 2.0


def as_scores(scores: ArrayLike) -> Values:
    """Returns scores as a ``(runs, tasks)`` matrix; a ``ValueError`` for other shapes and scores not finite."""
    matrix = np.asarray(scores, dtype=np.float64)
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"scores have shape {np.shape(scores)}; (runs, tasks) with at least one of each is needed")
    if not np.isfinite(matrix).all():
        raise ValueError("a score is NaN or infinite; leave the run out or give it a score first")
    return matrix


def resample(matrix: Values, size: int, generator: np.random.Generator) -> Values:
    """Draws ``size`` resamples of a ``(runs, tasks)`` matrix: runs with replacement within each task."""
    runs, tasks = matrix.shape
    kind: Any = np.uint16 if runs < 2**16 else np.int64  # small integers are drawn several times faster
    rows = generator.integers(0, runs, size=(size, runs, tasks), dtype=kind)
    # Widened before the product, which would overflow 16 bits.
    return np.asarray(matrix.ravel().take(rows.astype(np.intp) * tasks + np.arange(tasks)))


def percentile_interval(sample: Values, *, confidence: float = 0.95) -> tuple[Values, Values]:
    """Returns the ends of the interval from the bootstrap distribution, shape ``(repetitions, ...)``."""
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(sample, (tail, 1.0 - tail), axis=0)
    return low, high


def _plain(value: Any) -> Any:
    return np.asarray(value).tolist()


# --- comparisons of algorithms, with the formulas of Agarwal et al. ---------------------------------------------------


def profile_values(scores: ArrayLike, thresholds: ArrayLike) -> Values:
    """Returns, for each threshold, the share of runs and tasks that score above it; shape ``(..., thresholds)``.

    ``scores`` have the shape ``(..., runs, tasks)``, and ``thresholds`` increase.
    """
    array = np.asarray(scores, dtype=np.float64)
    levels = np.asarray(thresholds, dtype=np.float64)
    flat = array.reshape(-1, array.shape[-2] * array.shape[-1])
    # The bin of a score is the number of thresholds below it; summing bins from the top counts what exceeds each.
    bins = np.searchsorted(levels, flat, side="left") + (np.arange(flat.shape[0]) * (levels.size + 1))[:, None]
    counts = np.bincount(bins.ravel(), minlength=flat.shape[0] * (levels.size + 1)).reshape(flat.shape[0], -1)
    above = counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
    return np.asarray((above / flat.shape[1]).reshape(*array.shape[:-2], levels.size))


def performance_profile(scores: ArrayLike, thresholds: ArrayLike, *, repetitions: int = 2000) -> Estimate:
    """Returns the performance profile of one algorithm with its pointwise interval at increasing thresholds.

    Errors as for ``bootstrap``; a ``ValueError`` also if the thresholds do not increase.
    """
    levels = np.asarray(thresholds, dtype=np.float64)
    if levels.ndim != 1 or not levels.size or (np.diff(levels) <= 0).any():
        raise ValueError("thresholds must be a list of increasing numbers")
    return bootstrap(scores, lambda s: profile_values(s, levels), repetitions=repetitions)


def improvement_values(first: Values, second: Values) -> Values:
    """Returns the mean over tasks of P(first > second) + P(equal)/2 for ``(..., runs, tasks)`` pairs."""
    a, b = first[..., :, None, :], second[..., None, :, :]
    wins = np.count_nonzero(a > b, axis=(-3, -2)) + 0.5 * np.count_nonzero(a == b, axis=(-3, -2))
    return np.asarray((wins / (first.shape[-2] * second.shape[-2])).mean(axis=-1))


def probability_of_improvement(
    first: ArrayLike, second: ArrayLike, *, repetitions: int = 2000, confidence: float = 0.95
) -> Estimate:
    """Returns how likely a run of ``first`` beats a run of ``second`` on a task drawn at random; ties count half.

    Both have the shape ``(runs, tasks)``; other numbers of tasks are a ``ValueError``. The ends are None with fewer
    than ``FEWEST_RESAMPLED`` runs on a side, and if all resamples agree.
    """
    a, b = as_scores(first), as_scores(second)
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"the algorithms have {a.shape[1]} and {b.shape[1]} tasks; both need the same")
    value = improvement_values(a, b)
    low = high = None
    if min(a.shape[0], b.shape[0]) >= FEWEST_RESAMPLED:
        generator = np.random.default_rng(0)
        sizes = chunk_sizes(repetitions, 128)
        draws = np.concatenate(
            [improvement_values(resample(a, size, generator), resample(b, size, generator)) for size in sizes]
        )
        if np.ptp(draws) > 0:
            low, high = (float(end) for end in percentile_interval(draws, confidence=confidence))
    return Estimate(
        value=float(value),
        low=low,
        high=high,
        n=min(a.shape[0], b.shape[0]),
        tasks=a.shape[1],
        repetitions=repetitions,
        confidence=confidence,
        method="percentile",
    )
