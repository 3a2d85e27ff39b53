"""Is A better than B, worse, or not separated? One test and the interval that belongs to it, for few units.

Units are the scores of training seeds, or of episodes that both sides played. The latter are compared in pairs: by the
interval of the mean of their differences (``bootstrap.interval_of_varied``). What follows is for units without pairs.

The interval of the difference of the means is the outer one of two. Welch's (Biometrika 34, 1947) allows for different
spreads. Pitman's (Journal of the Royal Statistical Society Supplement 4, 1937) inverts the permutation test of the
means, which is exact for scores of one distribution, however skewed. Each of the two errs in a way that the other
does not: Welch's with 3 skewed scores against 20, Pitman's with a small sample of large spread. Three scores against
three have 20 permutations, too few for a level of 2.5 %, and there Welch's interval stands alone. A side of equal
scores adds what its unseen runs can change (``bootstrap.unseen_reach``).

Whoever adds seeds and looks again gets further occasions for chance. ``at_any_look`` gives the confidence at which to
decide with so many seeds: all looks together keep the confidence. ``perf/verdicts.py`` prints the error rates.
"""

from __future__ import annotations

import enum
import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from a2perf.arrays import Values
from a2perf.metrics.bootstrap import interval_of_varied, is_constant, unseen_reach
from a2perf.metrics.statistics import student_quantile

LEAST_SEEDS = 3
"""If runs either learn or fail, two on each side are all good here and all bad there once in 16 times."""
_MOST_EXACT = 20_000
_DRAWN = 4999
_ROUNDING = 1e-12
"""Differences below this share of the scores are rounding errors."""
_SHARE_OF_LOOK, _USUAL_SEEDS = 0.12, 15
"""Share of the error that a look may spend, constant up to the usual number of seeds: perf/verdicts.py shows that
looks at every number of seeds from 3 to 600 together spend all of it, and that a later one adds next to nothing."""


class Sign(enum.StrEnum):
    """The sign of a difference; equal to its text."""

    BETTER = "better"
    WORSE = "worse"
    NOT_SEPARATED = "not separated"


@dataclass(frozen=True)
class Difference:
    """The difference of two samples with its interval and sign.

    Attributes:
        value: mean of the candidate less that of the baseline, positive is better; over several pairs the mean of
            their differences, each divided by its scale. None without scores.
        low: lower end of the interval; None with fewer than two scores on a side.
        sign: better if the interval lies above 0, worse if it lies below.
        candidate_n: number of scores, as ``baseline_n``; over several pairs the smallest.
    """

    value: float | None
    low: float | None
    high: float | None
    sign: Sign
    candidate_n: int
    baseline_n: int


def at_any_look(confidence: float, seeds: int) -> float:
    """Returns the confidence of one look, for decisions that keep ``confidence`` over looks at any numbers of seeds.

    The error of a look is a function of the seeds alone, 12 % of all up to 15 seeds and then less by the square of
    their logarithm, so two readers of the same data decide alike and nobody has to count looks (alpha spending, K. K.
    G. Lan and D. L. DeMets, Biometrika 70, 1983).

    Args:
        seeds: number of units on the side with fewer.
    """
    later = math.log(max(seeds, _USUAL_SEEDS) / _USUAL_SEEDS)
    return 1.0 - (1.0 - confidence) * _SHARE_OF_LOOK / (1.0 + later**2)


def difference(
    pairs: Sequence[tuple[ArrayLike, ArrayLike]],
    scales: Sequence[float] = (),
    *,
    confidence: float = 0.95,
    paired: bool = False,
) -> Difference:
    """Returns whether a candidate is better than a baseline, with the interval of the difference of the means.

    Several pairs, one per environment, are one test: scores are permuted within each pair. It needs no correction for
    the number of pairs.

    Args:
        pairs: scores of the candidate, shape ``(n,)``, and of the baseline, shape ``(m,)``, finite, one per seed.
        scales: what the differences of each pair are divided by, positive; empty for 1. Over several pairs use
            ``spread_of_all`` or the range of reference scores: units that do not depend on which side a score is on.
        confidence: mass of the interval. A false "better" and a false "worse" have half of the rest each.
        paired: the scores at one place of both sides belong together, such as those of one episode.
    """
    scales = scales or (1.0,) * len(pairs)
    sides = [
        tuple(np.asarray(side, np.float64).ravel() / scale for side in pair)
        for pair, scale in zip(pairs, scales, strict=True)
    ]
    counts = [min((pair[at].size for pair in sides), default=0) for at in (0, 1)]
    if not min(counts):
        return Difference(None, None, None, Sign.NOT_SEPARATED, *counts)
    rounding = _ROUNDING * max(float(np.abs(side).max()) for pair in sides for side in pair)
    value = float(np.mean([_mean(ours) - _mean(theirs) for ours, theirs in sides]))
    value = 0.0 if abs(value) <= rounding else value
    if min(counts) < 2:
        return Difference(value, None, None, Sign.NOT_SEPARATED, *counts)
    tail = (1.0 - confidence) / 2.0
    if paired:
        low, high = _paired_interval(sides, rounding, confidence)
    else:
        # in units of the scores: 0 and 1 are failures and successes
        reaches = [
            unseen_reach(np.asarray(side, np.float64), tail, np.asarray(other, np.float64)) / scale
            for pair, scale in zip(pairs, scales, strict=True)
            for side, other in (pair, pair[::-1])
        ]
        low, high = _interval(sides, value, tail, math.hypot(*reaches) / len(sides))
    # equal within rounding is equal: constant scores of two machines may differ by a bit
    low, high = (0.0 if abs(end) <= rounding else end for end in (low, high))
    decided = Sign.BETTER if low > 0.0 else Sign.WORSE if high < 0.0 else Sign.NOT_SEPARATED
    return Difference(value, low, high, decided if min(counts) >= LEAST_SEEDS else Sign.NOT_SEPARATED, *counts)


def spread_of_all(candidate: ArrayLike, baseline: ArrayLike) -> float:
    """Returns the standard deviation of the scores of both sides together; 1 if all are equal."""
    scores = np.concatenate((np.asarray(candidate, np.float64).ravel(), np.asarray(baseline, np.float64).ravel()))
    return float(scores.std()) if scores.size and np.ptp(scores) > _ROUNDING * np.abs(scores).max() else 1.0


def _interval(sides: Sequence[Sequence[Values]], value: float, tail: float, reach: float) -> tuple[float, float]:
    """Returns the interval without pairs; ``reach`` is what unseen runs of sides without spread can change."""
    half = _welch_half_width(sides, tail)
    low, high = value - half, value + half
    if (found := _pitman_interval(sides, tail)) is not None:
        low, high = min(low, found[0]), max(high, found[1])
    return value - math.hypot(value - low, reach), value + math.hypot(high - value, reach)


def _paired_interval(sides: Sequence[Sequence[Values]], rounding: float, confidence: float) -> tuple[float, float]:
    """Returns the interval of the mean difference of pairs; the errors of several environments add in squares."""
    value, below, above = 0.0, 0.0, 0.0
    for ours, theirs in sides:
        # pairs that are equal within rounding are equal
        between = np.where(np.abs(ours - theirs) <= rounding, 0.0, ours - theirs)
        mean = _mean(between)
        if is_constant(between):
            # a pair that was not seen may differ as much in the other direction, which is the sign test
            reach = unseen_reach(between, (1.0 - confidence) / 2.0, -between) if mean else 0.0
            low, high = mean - reach, mean + reach
        else:
            low, high = interval_of_varied(between, confidence)
        value, below, above = value + mean, math.hypot(below, mean - low), math.hypot(above, high - mean)
    return (value - below) / len(sides), (value + above) / len(sides)


def _mean(side: Values) -> float:
    # the mean of equal values can differ from them by rounding
    return float(side[0]) if np.ptp(side) == 0 else float(side.mean())


def _welch_half_width(sides: Sequence[Sequence[Values]], tail: float) -> float:
    parts = [
        (0.0 if np.ptp(side) == 0 else float(side.var(ddof=1)) / side.size, side.size - 1)
        for pair in sides
        for side in pair
    ]
    total = sum(part for part, _ in parts)
    if total == 0.0:
        return 0.0
    # shares, because squares of tiny variances would vanish
    freedom = 1.0 / sum((part / total) ** 2 / free for part, free in parts)
    return student_quantile(1.0 - tail, freedom) * math.sqrt(total) / len(sides)


def _pitman_interval(sides: Sequence[Sequence[Values]], tail: float) -> tuple[float, float] | None:
    """Returns the shifts of the candidate that the permutation test does not reject; None with too few permutations.

    A permutation that exchanges k scores of each side has a difference as large as the one found exactly if the shift
    is at least the mean difference of the exchanged scores. Sorted, these mean differences hold the ends.
    """
    sizes = [math.comb(ours.size + theirs.size, ours.size) for ours, theirs in sides]
    every = math.prod(sizes)
    if every * tail < 1.0:
        return None
    is_exact = every <= _MOST_EXACT
    moved: Values = np.zeros(1)
    count: Values = np.zeros(1)
    for place, (ours, theirs) in enumerate(sides):
        chosen = _every(ours.size, theirs.size) if is_exact else _drawn(ours.size, theirs.size, place)
        weight = 1.0 / ours.size + 1.0 / theirs.size
        # scores that leave the candidate's side less those that come
        out = weight * (ours.sum() - chosen @ np.concatenate((ours, theirs)))
        many = weight * (ours.size - np.count_nonzero(chosen[:, : ours.size], axis=1))
        if is_exact:
            moved, count = np.add.outer(moved, out).ravel(), np.add.outer(count, many).ravel()
        else:
            moved, count = moved + out, count + many
    same = count == 0
    shifts = moved / np.where(same, 1.0, count)
    # The permutation that changes nothing is never beyond the difference found.
    low, high = np.where(same, -np.inf, shifts), np.where(same, np.inf, shifts)
    if not is_exact:
        low, high = np.append(low, -np.inf), np.append(high, np.inf)
    place = math.floor(tail * low.size + 1e-9)
    return float(np.partition(low, place)[place]), float(np.partition(high, -place - 1)[-place - 1])


@functools.lru_cache(maxsize=64)
def _every(first: int, second: int) -> NDArray[np.bool_]:
    """Returns which scores can be on the first side, shape ``(permutations, first + second)``."""
    places = np.array(list(itertools.combinations(range(first + second), first)), np.intp)
    chosen = np.zeros((len(places), first + second), np.bool_)
    np.put_along_axis(chosen, places, values=True, axis=1)
    return chosen


@functools.lru_cache(maxsize=64)
def _drawn(first: int, second: int, place: int) -> NDArray[np.bool_]:
    """Returns some of ``_every`` at random; a fixed seed, because the same scores must give the same report."""
    order = np.random.default_rng(place).random((_DRAWN, first + second)).argsort(axis=1)
    return np.asarray(order < first)
