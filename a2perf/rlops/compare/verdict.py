"""Has a change made it worse? A verdict per environment and overall, from the interval of the difference of the means.

The interval is Welch's (B. L. Welch, Biometrika 34, 1947): it allows for different spreads and numbers of seeds, and
keeps what it promises with three seeds, where bootstrap intervals are far too narrow. With tolerance T (in units of the
score) and the interval [low, high] of candidate minus baseline:

* REGRESSION: high < -T. The candidate is worse by more than the tolerance.
* PASS: low > -T. It is not worse by more than the tolerance.
* INCONCLUSIVE: -T lies inside, or a side has fewer than two seeds.

Over several environments a regression is only called where it survives Holm's correction (S. Holm, Scandinavian Journal
of Statistics 6, 1979), so that the chance of any false alarm stays that of one test; an overall PASS needs every
environment to pass, which needs no correction (it is an intersection-union test).
"""

from __future__ import annotations

import bisect
import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from a2perf.metrics.values import Values
from a2perf.rlops.compare.student import student_cdf, student_quantile

CONFIDENCE = 0.95
MOST_FURTHER_SEEDS = 200
"""More seeds than that are not worth naming: the difference is as good as the tolerance."""


class Verdict(enum.Enum):
    """What is said of a change."""

    PASS = "PASS"
    REGRESSION = "REGRESSION"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class Tolerance:
    """How much worse a candidate may be without being called so; the larger of the two counts.

    Attributes:
        relative: share of the baseline's mean, in absolute value.
        absolute: in units of the score.
    """

    relative: float = 0.05
    absolute: float = 0.0

    def of(self, baseline_mean: float) -> float:
        """Returns the tolerance in units of the score."""
        return max(self.relative * abs(baseline_mean), self.absolute)


@dataclass(frozen=True)
class Judgement:
    """What is said of one environment.

    Attributes:
        env: the environment.
        verdict: the verdict.
        difference: mean of the candidate's scores less that of the baseline's; positive is better.
        low: lower end of its confidence interval; None with fewer than two seeds on a side.
        high: upper end.
        tolerance: in units of the score.
        candidate_seeds: number of runs.
        baseline_seeds: number of runs.
        candidate_mean: mean of the scores.
        baseline_mean: mean of the scores.
        p_regression: chance of so low a difference if the true one were just at the tolerance; None as for ``low``.
        further_seeds: how many more seeds on each side would probably settle an inconclusive one; None when it is
            settled, or when more than ``MOST_FURTHER_SEEDS`` would be needed.
        reason: one sentence.
    """

    env: str
    verdict: Verdict
    difference: float | None
    low: float | None
    high: float | None
    tolerance: float
    candidate_seeds: int
    baseline_seeds: int
    candidate_mean: float | None
    baseline_mean: float | None
    p_regression: float | None = None
    further_seeds: int | None = None
    reason: str = ""


def judge(
    env: str,
    candidate: ArrayLike,
    baseline: ArrayLike,
    tolerance: Tolerance,
    *,
    higher_is_better: bool = True,
    confidence: float = CONFIDENCE,
) -> Judgement:
    """Judges one environment by itself.

    Args:
        env: its name.
        candidate: one score a seed; those that are not finite are left out.
        baseline: the same of the baseline.
        tolerance: what may be lost.
        higher_is_better: whether more of the score is better.
        confidence: mass of the two-sided interval.
    """
    sign = 1.0 if higher_is_better else -1.0
    ours, theirs = _finite(candidate), _finite(baseline)
    ours_mean = float(ours.mean()) if ours.size else None
    theirs_mean = float(theirs.mean()) if theirs.size else None
    bound = tolerance.of(theirs_mean) if theirs_mean is not None else tolerance.absolute
    fewest = min(ours.size, theirs.size)
    if ours_mean is None or theirs_mean is None or fewest < 2:
        difference = None if ours_mean is None or theirs_mean is None else sign * (ours_mean - theirs_mean)
        return Judgement(
            env, Verdict.INCONCLUSIVE, difference, None, None, bound,
            ours.size, theirs.size, ours_mean, theirs_mean, None, 2 - fewest,
            f"not enough data (n={fewest}, needs 2)",
        )  # fmt: skip
    difference = sign * (ours_mean - theirs_mean)
    error, freedom = _welch(ours, theirs)
    half = student_quantile(0.5 + confidence / 2.0, freedom) * error
    low, high = difference - half, difference + half
    p_value = student_cdf((difference + bound) / error, freedom) if error else float(difference < -bound)
    if high < -bound:
        verdict, reason = Verdict.REGRESSION, "the whole interval lies below the tolerance"
    elif low > -bound or (not error and difference >= -bound):
        verdict, reason = Verdict.PASS, "the whole interval lies above the tolerance"
    else:
        verdict, reason = Verdict.INCONCLUSIVE, "the tolerance lies inside the interval"
    further = None
    if verdict is Verdict.INCONCLUSIVE:
        further = further_seeds(ours, theirs, difference + bound, confidence=confidence)
    return Judgement(
        env, verdict, difference, low, high, bound, ours.size, theirs.size, ours_mean, theirs_mean, p_value, further,
        reason,
    )  # fmt: skip


def corrected(judgements: Sequence[Judgement], *, confidence: float = CONFIDENCE) -> list[Judgement]:
    """Applies Holm's correction: of several regressions only those stay that survive it.

    Args:
        judgements: one an environment.
        confidence: that of the intervals; a false alarm is a matter of one tail.
    """
    level = (1.0 - confidence) / 2.0
    ordered = sorted(
        (index for index, item in enumerate(judgements) if item.p_regression is not None),
        key=lambda index: judgements[index].p_regression or 0.0,
    )
    kept: set[int] = set()
    for rank, index in enumerate(ordered):
        if (judgements[index].p_regression or 0.0) > level / (len(ordered) - rank):
            break
        kept.add(index)
    result = []
    for index, item in enumerate(judgements):
        if item.verdict is Verdict.REGRESSION and index not in kept:
            reason = f"below the tolerance, but not after correction for {len(ordered)} environments"
            item = replace(item, verdict=Verdict.INCONCLUSIVE, reason=reason, further_seeds=1)
        result.append(item)
    return result


def overall(judgements: Sequence[Judgement]) -> Verdict:
    """Returns the verdict over all environments: the worst of them, where REGRESSION is worse than INCONCLUSIVE."""
    verdicts = {item.verdict for item in judgements}
    if Verdict.REGRESSION in verdicts:
        return Verdict.REGRESSION
    return Verdict.PASS if verdicts == {Verdict.PASS} else Verdict.INCONCLUSIVE


def further_seeds(
    candidate: Values, baseline: Values, distance: float, *, confidence: float = CONFIDENCE
) -> int | None:
    """Returns how many more seeds on each side would bring the interval off the tolerance, were nothing else to change.

    Args:
        candidate: scores so far.
        baseline: scores so far.
        distance: from the tolerance to the difference.
        confidence: mass of the interval.

    Returns:
        The number; None when it exceeds ``MOST_FURTHER_SEEDS``.
    """
    variances = float(candidate.var(ddof=1)), float(baseline.var(ddof=1))

    def is_enough(further: int) -> bool:
        error, freedom = _welch_of(variances, (candidate.size + further, baseline.size + further))
        return student_quantile(0.5 + confidence / 2.0, freedom) * error < abs(distance)

    if not is_enough(MOST_FURTHER_SEEDS):
        return None
    # the interval only shrinks with more seeds
    return bisect.bisect_left(range(1, MOST_FURTHER_SEEDS), True, key=is_enough) + 1


def _welch(first: Values, second: Values) -> tuple[float, float]:
    return _welch_of((float(first.var(ddof=1)), float(second.var(ddof=1))), (first.size, second.size))


def _welch_of(variances: tuple[float, float], sizes: tuple[int, int]) -> tuple[float, float]:
    """Returns the standard error of the difference of the means, and the degrees of freedom (Welch-Satterthwaite)."""
    parts = [variance / size for variance, size in zip(variances, sizes, strict=True)]
    total = sum(parts)
    if total == 0.0:
        return 0.0, float(sum(sizes) - 2)
    freedom = total**2 / sum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True))
    return math.sqrt(total), freedom


def _finite(scores: ArrayLike) -> Values:
    array = np.asarray(scores, dtype=np.float64).ravel()
    return array[np.isfinite(array)]
