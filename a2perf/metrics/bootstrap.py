"""Stratified bootstrap intervals over runs, vectorised, and reproducible bit for bit from a seed.

Runs are resampled within each task (Agarwal et al., NeurIPS 2021); all indices of a chunk of repetitions are drawn at
once and gathered once. Interval methods: percentile, basic, bias-corrected (``bc``) and bias-corrected and accelerated
(``bca``, Efron 1987, jackknife over runs). With few seeds such intervals are too narrow: always print ``n``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from a2perf.metrics.statistics import chunk_sizes, iqm
from a2perf.metrics.values import Values

Method = Literal["percentile", "basic", "bc", "bca"]
Aggregate = Callable[[Values], Any]
_NORMAL = NormalDist()


class Estimate(msgspec.Struct, kw_only=True, frozen=True):
    """A point estimate with its interval.

    Attributes:
        value: a float, or a nested list for an aggregate that returns an array.
        low: lower end of the interval, shaped like ``value``; ``None`` when there are fewer than 2 runs.
        high: upper end.
        n: runs resampled (the smallest number of any task).
        tasks: strata.
        repetitions, confidence, method: of the bootstrap.
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
    return np.asarray(iqm(scores, axis=(-2, -1)))


def aggregate_mean(scores: Values) -> Values:
    """Mean over runs and tasks of ``(..., runs, tasks)``."""
    return np.asarray(scores.mean(axis=(-2, -1)))


def aggregate_median(scores: Values) -> Values:
    """Median over tasks of the mean over runs of ``(..., runs, tasks)``."""
    return np.asarray(np.median(scores.mean(axis=-2), axis=-1))


def aggregate_optimality_gap(scores: Values, gamma: float = 1.0) -> Values:
    """Mean shortfall below ``gamma`` over runs and tasks of ``(..., runs, tasks)``."""
    return np.asarray(gamma - np.minimum(scores, gamma).mean(axis=(-2, -1)))


def bootstrap(
    scores: ArrayLike,
    aggregate: Aggregate = aggregate_iqm,
    *,
    repetitions: int = 50_000,
    confidence: float = 0.95,
    method: Method = "percentile",
    task_bootstrap: bool = False,
    seed: int | np.random.Generator = 0,
) -> Estimate:
    """Returns an aggregate of scores with its stratified bootstrap interval.

    Args:
        scores: shape ``(runs, tasks)`` or ``(runs,)`` for one task; finite.
        aggregate: from ``(..., runs, tasks)`` to ``(...)`` or ``(..., k)``.
        repetitions: resamples; 50,000 for intervals.
        confidence: mass of the interval, in (0, 1).
        method: ``"percentile"``, ``"basic"``, ``"bc"`` or ``"bca"``.
        task_bootstrap: resample the tasks as well.
        seed: a seed or a generator; the same seed gives the same bits.

    Raises:
        ValueError: a score is not finite, there is none, or an argument is out of range.
    """
    matrix = as_scores(scores)
    _check(repetitions, confidence, method)
    value = np.asarray(aggregate(matrix), dtype=np.float64)
    runs, tasks = matrix.shape
    low = high = None
    if runs > 1:
        sample = distribution(matrix, aggregate, repetitions=repetitions, task_bootstrap=task_bootstrap, seed=seed)
        jackknife = _jackknife(matrix, aggregate) if method == "bca" else None
        ends = interval(sample, value, confidence=confidence, method=method, jackknife=jackknife)
        low, high = _plain(ends[0]), _plain(ends[1])
    return Estimate(
        value=_plain(value), low=low, high=high, n=runs, tasks=tasks,
        repetitions=repetitions, confidence=confidence, method=method,
    )  # fmt: skip


def mean_interval(
    values: Values, *, repetitions: int = 1000, confidence: float = 0.95, seed: int | np.random.Generator = 0
) -> tuple[float, float]:
    """Returns the interval of the mean of a few runs, widened for their small number.

    The percentile interval of ``n`` values is too narrow by ``sqrt((n-1)/n)`` and by the normal's lighter tail against
    Student's t. The levels are moved out by both (Hesterberg 2015, "What Teachers Should Know About the Bootstrap",
    section 5.3: the expanded percentile interval). The ends stay within the range of the values.

    Args:
        values: shape ``(runs,)``, at least 2.
        repetitions: resamples.
        confidence: mass of the interval.
        seed: a seed or a generator.
    """
    count = values.size
    sample = distribution(values[:, None], aggregate_mean, repetitions=repetitions, seed=seed)
    quantile = _student_quantile(0.5 + confidence / 2.0, count - 1)
    tail = _NORMAL.cdf(-math.sqrt(count / (count - 1)) * quantile)
    low, high = np.quantile(sample, (tail, 1.0 - tail))
    return float(low), float(high)


def _student_quantile(level: float, freedom: int) -> float:
    """Quantile of Student's t by bisection on its distribution function (exact finite sums, Abramowitz 26.7.3-4)."""
    low, high = 0.0, 1.0
    while _student_cdf(high, freedom) < level and high < 1e12:
        high *= 2.0
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _student_cdf(middle, freedom) < level else (low, middle)
    return (low + high) / 2.0


def _student_cdf(t: float, freedom: int) -> float:
    angle = math.atan2(t, math.sqrt(freedom))
    sine, cosine2 = math.sin(angle), math.cos(angle) ** 2
    odd = freedom % 2 == 1
    term, total = (math.cos(angle), 0.0) if odd else (1.0, 0.0)
    # Both sums run over powers of the cosine two apart; their number of terms is that of half the freedom.
    for number in range((freedom - 1) // 2 if odd else freedom // 2):
        total += term
        term *= cosine2 * ((2 * number + 2) / (2 * number + 3) if odd else (2 * number + 1) / (2 * number + 2))
    share = (angle + sine * total) * 2.0 / math.pi if odd else sine * total
    return 0.5 + share / 2.0


def as_scores(scores: ArrayLike) -> Values:
    """Returns scores as a ``(runs, tasks)`` matrix.

    Raises:
        ValueError: wrong shape, no score, or one that is not finite.
    """
    matrix = np.asarray(scores, dtype=np.float64)
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"scores have shape {np.shape(scores)}; (runs, tasks) with at least one of each is needed")
    if not np.isfinite(matrix).all():
        raise ValueError("a score is NaN or infinite; leave the run out or give it a score first")
    return matrix


def distribution(
    matrix: Values,
    aggregate: Aggregate,
    *,
    repetitions: int,
    task_bootstrap: bool = False,
    seed: int | np.random.Generator = 0,
) -> Values:
    """Returns the aggregate of each resample, shape ``(repetitions, ...)``."""
    generator = np.random.default_rng(seed)
    flat = np.ascontiguousarray(matrix).ravel()
    parts = [
        np.asarray(aggregate(resample(flat, matrix.shape, size, generator, task_bootstrap)))
        for size in chunk_sizes(repetitions)
    ]
    return np.concatenate(parts)


def resample(
    flat: Values, shape: tuple[int, ...], size: int, generator: np.random.Generator, task_bootstrap: bool = False
) -> Values:
    """Draws ``size`` resamples of a ``(runs, tasks)`` matrix given flat: runs with replacement within each task."""
    runs, tasks = shape
    kind: Any = np.uint16 if runs < 2**16 else np.int64
    rows = generator.integers(0, runs, size=(size, runs, tasks), dtype=kind)
    columns = generator.integers(0, tasks, size=(size, 1, tasks)) if task_bootstrap else np.arange(tasks)[None, None, :]
    return flat.take(rows.astype(np.intp) * tasks + columns)


def interval(
    sample: Values,
    value: Values,
    *,
    confidence: float = 0.95,
    method: Method = "percentile",
    jackknife: Values | None = None,
) -> tuple[Values, Values]:
    """Returns the ends of the interval from the bootstrap distribution.

    Args:
        sample: shape ``(repetitions, ...)``.
        value: the point estimate, shape ``(...)``.
        confidence: mass of the interval.
        method: as for ``bootstrap``.
        jackknife: estimates that leave one observation out, ``(observations, ...)``; ``bca`` needs them.
    """
    tail = (1.0 - confidence) / 2.0
    if method in ("percentile", "basic"):
        low, high = np.quantile(sample, (tail, 1.0 - tail), axis=0)
        return (low, high) if method == "percentile" else (2 * value - high, 2 * value - low)
    value = np.asarray(value)
    low, high = np.empty_like(value), np.empty_like(value)
    for place in np.ndindex(value.shape):
        draws = sample[(slice(None), *place)]
        shift = _bias(draws, float(value[place]))
        pull = 0.0 if jackknife is None else _acceleration(jackknife[(slice(None), *place)])
        levels = [_adjusted(shift, pull, _NORMAL.inv_cdf(p)) for p in (tail, 1.0 - tail)]
        low[place], high[place] = np.quantile(draws, levels)
    return low, high


def _adjusted(shift: float, pull: float, z: float) -> float:
    scale = 1.0 - pull * (shift + z)
    # Beyond the pole of the transformation the whole tail belongs to the interval.
    return (1.0 if z > 0 else 0.0) if scale <= 0 else _NORMAL.cdf(shift + (shift + z) / scale)


def _bias(draws: Values, value: float) -> float:
    # Ties count half, so that discrete statistics of few runs are not pushed to one side.
    below = (np.count_nonzero(draws < value) + 0.5 * np.count_nonzero(draws == value)) / draws.size
    half = 0.5 / draws.size
    return _NORMAL.inv_cdf(min(max(below, half), 1.0 - half))


def _acceleration(left_out: Values) -> float:
    deviation = left_out.mean() - left_out
    squares = float((deviation**2).sum())
    return 0.0 if squares == 0.0 else float((deviation**3).sum()) / (6.0 * math.pow(squares, 1.5))


def _jackknife(matrix: Values, aggregate: Aggregate) -> Values:
    """Leaves out one run at a time, of all tasks at once, so that every resample has a rectangular shape."""
    runs = matrix.shape[0]
    return np.stack([np.asarray(aggregate(np.delete(matrix, run, axis=0))) for run in range(runs)])


def _plain(value: Any) -> Any:
    return np.asarray(value).tolist()


def _check(repetitions: int, confidence: float, method: str) -> None:
    if repetitions < 1 or not 0.0 < confidence < 1.0:
        raise ValueError(f"repetitions={repetitions}, confidence={confidence}: need at least 1, and between 0 and 1")
    if method not in ("percentile", "basic", "bc", "bca"):
        raise ValueError(f"method is {method!r}; it must be percentile, basic, bc or bca")
