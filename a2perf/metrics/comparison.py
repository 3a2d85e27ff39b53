"""Comparisons of algorithms over runs and tasks: performance profiles and the probability of improvement.

Formulas of Agarwal et al., "Deep RL at the Edge of the Statistical Precipice" (NeurIPS 2021), with the stratified
bootstrap of ``bootstrap``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from a2perf.arrays import Values
from a2perf.metrics.bootstrap import Estimate, as_scores, bootstrap, percentile_interval, resample
from a2perf.metrics.statistics import chunk_sizes


def profile_values(scores: ArrayLike, thresholds: ArrayLike) -> Values:
    """Returns, for each threshold, the share of runs and tasks that score above it; shape ``(..., thresholds)``.

    Args:
        scores: shape ``(..., runs, tasks)``.
        thresholds: increasing, shape ``(k,)``.
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
    """Returns the performance profile of one algorithm with its pointwise interval.

    Args:
        scores: shape ``(runs, tasks)``, finite.
        thresholds: increasing, shape ``(k,)``; values of the result belong to them in order.

    Raises:
        ValueError: as ``bootstrap``, or the thresholds do not increase.
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

    Args:
        first: shape ``(runs, tasks)``.
        second: shape ``(other runs, tasks)``, the same tasks.

    Raises:
        ValueError: as ``bootstrap``, or the numbers of tasks differ.
    """
    a, b = as_scores(first), as_scores(second)
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"the algorithms have {a.shape[1]} and {b.shape[1]} tasks; both need the same")
    value = improvement_values(a, b)
    low = high = None
    if min(a.shape[0], b.shape[0]) > 1:
        generator = np.random.default_rng(0)
        flat_a, flat_b = np.ascontiguousarray(a).ravel(), np.ascontiguousarray(b).ravel()
        draws = np.concatenate(
            [
                improvement_values(
                    resample(flat_a, a.shape, size, generator), resample(flat_b, b.shape, size, generator)
                )
                for size in chunk_sizes(repetitions, 128)
            ]
        )
        low, high = (float(end) for end in percentile_interval(draws, confidence=confidence))
    return Estimate(
        value=float(value), low=low, high=high, n=min(a.shape[0], b.shape[0]), tasks=a.shape[1],
        repetitions=repetitions, confidence=confidence, method="percentile",
    )  # fmt: skip
