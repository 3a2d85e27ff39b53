"""Has a change made it worse? A verdict per environment and overall, from the interval of the difference of the means.

The interval is Welch's (B. L. Welch, Biometrika 34, 1947): it allows for different spreads and numbers of seeds, and
keeps what it promises with three seeds, where bootstrap intervals are far too narrow. Where the runs of each side are
all alike it has no width, and the chance of such a split of the seeds takes its place (permutation test). With
tolerance T (in units of the score) and the interval [low, high] of candidate minus baseline:

* REGRESSION: high < -T. The candidate is worse by more than the tolerance.
* PASS: low > -T. It is not worse by more than the tolerance.
* INCONCLUSIVE: -T lies inside, a side has fewer than ``LEAST_SEEDS``, or runs of the candidate are lost.

Over several environments a regression is only called where it survives Holm's correction (S. Holm, Scandinavian Journal
of Statistics 6, 1979), so that the chance of any false alarm stays that of one test; an overall PASS needs every
environment to pass, which needs no correction (it is an intersection-union test).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from a2perf.metrics.values import Values
from a2perf.rlops.compare.student import student_cdf, student_quantile

CONFIDENCE = 0.95
LEAST_SEEDS = 3
"""Where runs either learn or fail, two on each side are all good here and all bad there once in 16 times."""
MOST_FURTHER_SEEDS = 200
"""More seeds than that are not worth naming."""
_POWER, _DOUBT = 0.8, 0.2


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
class Side:
    """The scores of one side, summed up.

    Attributes:
        seeds: number of finite scores.
        mean: their mean; None without any.
        variance: their sample variance (ddof 1); None with fewer than two.
        lost: runs without a finite score: diverged, failed.
    """

    seeds: int
    mean: float | None
    variance: float | None
    lost: int = 0


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
        candidate: its scores.
        baseline: its scores.
        p_regression: chance of so low a difference if the true one were just at the tolerance; None as for ``low``.
        further_seeds: how many more seeds on each side would probably settle an inconclusive one; None when it is
            settled, or when seeds will not do it (``reason`` says why).
        reason: one sentence.
    """

    env: str
    verdict: Verdict
    difference: float | None
    low: float | None
    high: float | None
    tolerance: float
    candidate: Side
    baseline: Side
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
    failed: int = 0,
) -> Judgement:
    """Judges one environment by itself.

    Args:
        env: its name.
        candidate: one score a seed. One that is not finite is a lost run: what is left may be the lucky part, so that
            the candidate does not pass.
        baseline: the same of the baseline, where lost runs are left out.
        tolerance: what may be lost.
        higher_is_better: whether more of the score is better.
        confidence: mass of the two-sided interval.
        failed: further runs of the candidate that ended without a score.
    """
    ours, theirs = _side(candidate, failed), _side(baseline)
    bound = tolerance.of(theirs.mean) if theirs.mean is not None else tolerance.absolute
    difference = None
    if ours.mean is not None and theirs.mean is not None:
        difference = (ours.mean - theirs.mean) * (1.0 if higher_is_better else -1.0)
    low = high = p_value = None
    verdict, further = Verdict.INCONCLUSIVE, None
    reason = "the tolerance lies inside the interval"
    error, freedom = _welch(ours, theirs)
    if difference is not None and error is not None:
        half = student_quantile(0.5 + confidence / 2.0, freedom) * error
        low, high = difference - half, difference + half
        p_value = student_cdf((difference + bound) / error, freedom) if error else _split(ours, theirs)
        if not error and difference >= -bound:
            p_value = 1.0
    fewest = min(ours.seeds, theirs.seeds)
    if fewest < LEAST_SEEDS or difference is None or low is None or high is None:
        further = LEAST_SEEDS - fewest
        reason = f"not enough data (n={fewest}, needs {LEAST_SEEDS})"
    elif high < -bound and not error and _split(ours, theirs) > (1.0 - confidence) / 2.0:
        further = 1
        reason = "runs of a side are all alike: so few may be so by chance"
    elif high < -bound:
        verdict, reason = Verdict.REGRESSION, "the whole interval lies below the tolerance"
    elif ours.lost:
        reason = f"{ours.lost} of {ours.lost + ours.seeds} runs of the candidate failed or diverged"
    elif low > -bound or (not error and difference >= -bound):
        verdict, reason = Verdict.PASS, "the whole interval lies above the tolerance"
    else:
        further = further_seeds(ours, theirs, difference + bound, confidence=confidence)
        if further is None:
            reason = (
                f"the tolerance lies inside the interval, so near that {MOST_FURTHER_SEEDS} more seeds may not tell"
            )
    return Judgement(env, verdict, difference, low, high, bound, ours, theirs, p_value, further, reason)


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
        if item.verdict is Verdict.REGRESSION and index not in kept and item.difference is not None:
            distance = item.difference + item.tolerance
            needed = further_seeds(item.candidate, item.baseline, distance, confidence=1.0 - 2.0 * level / len(ordered))
            reason = f"below the tolerance, but not after correction for {len(ordered)} comparisons"
            item = replace(item, verdict=Verdict.INCONCLUSIVE, reason=reason, further_seeds=needed)
        result.append(item)
    return result


def overall(judgements: Sequence[Judgement]) -> Verdict:
    """Returns the verdict over all environments: the worst of them, where REGRESSION is worse than INCONCLUSIVE."""
    verdicts = {item.verdict for item in judgements}
    if Verdict.REGRESSION in verdicts:
        return Verdict.REGRESSION
    return Verdict.PASS if verdicts == {Verdict.PASS} else Verdict.INCONCLUSIVE


def further_seeds(candidate: Side, baseline: Side, distance: float, *, confidence: float = CONFIDENCE) -> int | None:
    """Returns how many more seeds on each side would probably bring the interval off the tolerance.

    Few seeds know neither the spread nor the difference well. So the spread is taken at the upper end of what they
    allow (one in five is larger), and the seeds must do it with a power of 80 %. By simulation (``perf/verdicts.py``)
    seven to nine of ten comparisons are settled then; without both allowances it would be less than half.

    Args:
        candidate: scores so far, at least two.
        baseline: scores so far, at least two.
        distance: from the tolerance to the difference.
        confidence: mass of the interval.

    Returns:
        The number; None when it exceeds ``MOST_FURTHER_SEEDS``.
    """
    _, freedom = _welch(candidate, baseline)
    widened = math.sqrt(max(1.0, freedom / _chi_square_quantile(_DOUBT, freedom)))

    def settles(further: int) -> bool:
        more = (replace(side, seeds=side.seeds + further) for side in (candidate, baseline))
        error, freedom = _welch(*more)
        wanted = student_quantile(0.5 + confidence / 2.0, freedom) + student_quantile(_POWER, freedom)
        return error is not None and wanted * error * widened < abs(distance)

    if not settles(MOST_FURTHER_SEEDS):
        return None
    low, high = 0, MOST_FURTHER_SEEDS  # the interval only narrows with more seeds
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if settles(middle) else (middle, high)
    return high


def _chi_square_quantile(probability: float, freedom: float) -> float:
    """Approximates the quantile (Wilson and Hilferty, PNAS 17, 1931); within 2 % from two degrees of freedom on."""
    spread = 2.0 / (9.0 * freedom)
    return float(freedom * (1.0 - spread + NormalDist().inv_cdf(probability) * math.sqrt(spread)) ** 3)


def _side(scores: ArrayLike, failed: int = 0) -> Side:
    array: Values = np.asarray(scores, dtype=np.float64).ravel()
    finite = array[np.isfinite(array)]
    mean = float(finite.mean()) if finite.size else None
    variance = float(finite.var(ddof=1)) if finite.size > 1 else None
    if variance is not None and np.ptp(finite) == 0:
        variance = 0.0  # not the rounding of the mean
    return Side(int(finite.size), mean, variance, int(array.size - finite.size) + failed)


def _split(first: Side, second: Side) -> float:
    """Returns the chance that seeds fall into these two sides, where the runs of each side are all alike."""
    return 1.0 / math.comb(first.seeds + second.seeds, first.seeds)


def _welch(first: Side, second: Side) -> tuple[float | None, float]:
    """Returns the standard error of the difference of the means, and the degrees of freedom (Welch-Satterthwaite)."""
    if first.variance is None or second.variance is None:
        return None, 0.0
    parts = [(side.variance or 0.0) / side.seeds for side in (first, second)]
    total = sum(parts)
    if total == 0.0:
        return 0.0, float(first.seeds + second.seeds - 2)
    weights = [part / total for part in parts]  # squares of tiny variances would vanish
    freedom = 1.0 / sum(w * w / (side.seeds - 1) for w, side in zip(weights, (first, second), strict=True))
    return math.sqrt(total), freedom
