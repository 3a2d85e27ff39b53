"""Exact tests for scores that take one or two values: a return at its ceiling, a success or a failure.

Welch's interval needs a spread to measure. Where a side has none, or where every run either succeeds or fails, the
chance of a result follows from counting. No distribution is assumed: the chance is the largest that any success rate
allows (an unconditional exact test, G. A. Barnard, Biometrika 34, 1947, with the order of the studentised difference).
"""

from __future__ import annotations

import functools
import math

import numpy as np

from a2perf.arrays import Values

MOST_TABLES = 40_000
"""For more outcomes than that, about 200 seeds on each side, Welch's interval is as good."""
_RATES = np.linspace(0.0, 1.0, 201)


def chance_of_split(candidate: int, baseline: int) -> float:
    """Returns the largest chance that all runs of one side have one value and all of the other a better one.

    For runs of one distribution, and so without any difference between the sides, it is largest for two values with
    probabilities in proportion to the seeds. Three seeds on each side do so once in 64 times, four once in 256.
    """
    total = candidate + baseline
    return (candidate / total) ** candidate * (baseline / total) ** baseline


def seeds_that_show(share: float, level: float) -> int:
    """Returns how many seeds show at least one failed run with probability ``1 - level`` if ``share`` of them fail."""
    return 1 if share >= 1.0 else math.ceil(math.log(level) / math.log1p(-share))


def two_values(candidate: Values, baseline: Values) -> tuple[float, float] | None:
    """Returns the two values that all scores have, the lower one first; None when there are more or fewer."""
    values = np.unique(np.concatenate((candidate, baseline)))
    return (float(values[0]), float(values[1])) if values.size == 2 else None


@functools.lru_cache(maxsize=64)
def chances(candidate: int, baseline: int, margin: float) -> tuple[Values, Values]:
    """Returns the chances of an outcome as low and as high if the candidate's success rate is lower by ``margin``.

    Args:
        baseline: runs of the baseline; the product with ``candidate`` is at most ``MOST_TABLES``.
        margin: difference of the success rates that is tolerated, at least 0.

    Returns:
        Two arrays of shape ``(candidate + 1, baseline + 1)``, indexed by the number of successes.
    """
    if margin >= 1.0:  # no success rates are so far apart
        return np.ones((candidate + 1, baseline + 1)), np.zeros((candidate + 1, baseline + 1))
    first, second = np.arange(candidate + 1)[:, None], np.arange(baseline + 1)[None, :]
    # Half a success and half a failure more on each side, for a spread that is not zero at the corners.
    rates = (first + 0.5) / (candidate + 1), (second + 0.5) / (baseline + 1)
    error = np.sqrt(rates[0] * (1 - rates[0]) / candidate + rates[1] * (1 - rates[1]) / baseline)
    # Rounded: outcomes that are equally extreme must not be separated by rounding errors.
    order = np.round((first / candidate - second / baseline + margin) / error, 9).ravel()
    of_baseline = margin + (1.0 - margin) * _RATES
    low = np.zeros(order.size)
    high = np.zeros(order.size)
    ranks = np.unique(order, return_inverse=True)[1].ravel()
    for rate in of_baseline:
        table = np.outer(_binomial(candidate, rate - margin), _binomial(baseline, rate)).ravel()
        mass = np.bincount(ranks, weights=table)
        np.maximum(low, np.cumsum(mass)[ranks], out=low)
        np.maximum(high, np.cumsum(mass[::-1])[::-1][ranks], out=high)
    shape = (candidate + 1, baseline + 1)
    return low.reshape(shape), high.reshape(shape)


def _binomial(count: int, rate: float) -> Values:
    """Returns the probability of each number of successes."""
    numbers = np.arange(count + 1)
    # Logarithms: with thousands of runs on one side the coefficients exceed a double.
    ways = np.array([math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1) for k in numbers])
    with np.errstate(divide="ignore", invalid="ignore"):
        # 0 log 0 counts as 0; at the rates 0 and 1 the product would be NaN.
        logs = np.where(numbers > 0, numbers * np.log(rate), 0.0)
        logs += np.where(numbers < count, (count - numbers) * np.log1p(-rate), 0.0)
    return np.asarray(np.exp(ways + logs))
