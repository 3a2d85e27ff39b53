"""Judges a change: a verdict per environment and overall, from the interval of the difference of the means.

The interval and the sign of the difference are those of ``metrics.difference``. The gate asks another question: is a
loss larger than the tolerance? Its chances are Welch's (Biometrika 34, 1947); scores without spread and scores of two
values are judged by exact tests (``exact.py``). With tolerance T (in units of the score) and the interval [low, high]
of candidate minus baseline:

* REGRESSION: high < -T. The candidate is worse by more than the tolerance.
* PASS: low > -T, and the candidate has enough seeds to show a failure of some of them: five seeds that look well say
  nothing about a fifth of the seeds that fail. Also a PASS: the same seeds give the same runs, bit for bit.
* INCONCLUSIVE: everything else, among it fewer than ``LEAST_SEEDS`` and lost runs of the candidate.

Over several environments a regression is called where it survives Holm's correction (S. Holm, Scandinavian Journal of
Statistics 6, 1979), or where all environments together show it (Stouffer's sum of standardised differences, 1949).
Both levels are chosen for a chance of any false alarm of at most ``1 - confidence`` over all looks at growing data
(``difference.at_any_look``); seeds of a PASS need no such correction, since a failure once seen stays seen. An overall
PASS needs every environment to pass, which needs no correction (it is an intersection-union test).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from a2perf.arrays import Values
from a2perf.metrics.difference import LEAST_SEEDS, Sign, at_any_look
from a2perf.metrics.difference import difference as difference_of
from a2perf.metrics.statistics import student_cdf
from a2perf.metrics.values import not_enough
from a2perf.rlops.compare import exact
from a2perf.rlops.compare.more_seeds import MOST_FURTHER_SEEDS, seeds_to_settle

CONFIDENCE = 0.95
_EACH, _TOGETHER = 0.4, 0.8
"""Shares of ``1 - confidence`` for each environment and for all together; many alarms coincide (perf/verdicts.py)."""
_MOST_GAIN = 0.99
"""A gain on one environment counts up to this probability, or it would hide a loss on all others."""


class Verdict(enum.StrEnum):
    """The verdict on a change; equal to its name as text."""

    PASS = "PASS"
    REGRESSION = "REGRESSION"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class Tolerance:
    """The largest acceptable loss; the larger of the first two fields counts.

    Attributes:
        relative: share of the baseline's mean, in absolute value.
        absolute: in units of the score.
        unseen: share of the candidate's seeds, in (0, 1], that may fail although none has. A PASS needs as many seeds
            as show one such failure: 17 for a fifth of them at 95 % confidence.
    """

    relative: float = 0.05
    absolute: float = 0.0
    unseen: float = 0.2

    def of(self, baseline_mean: float) -> float:
        """Returns the tolerance in units of the score."""
        return max(self.relative * abs(baseline_mean), self.absolute)


@dataclass(frozen=True)
class Side:
    """Summary of the scores of one side.

    Attributes:
        variance: their sample variance (ddof 1); None with fewer than two.
        lost: runs without a finite score: diverged, failed.
        scores: the finite scores, shape ``(seeds,)``, negated where less is better.
    """

    seeds: int
    mean: float | None
    variance: float | None
    lost: int = 0
    scores: Values = field(default_factory=lambda: np.empty(0), repr=False, compare=False)


@dataclass(frozen=True)
class Judgement:
    """The verdict on one environment with its numbers.

    Attributes:
        difference: mean of the candidate's scores less that of the baseline's; positive is better.
        low: lower end of its confidence interval; None with fewer than two seeds on a side.
        tolerance: in units of the score.
        p_regression: chance of so low a difference if the true one were just at the tolerance, or, where neither side
            has a spread, if there were none; None as for ``low``.
        further_seeds: how many more seeds on each side settle an inconclusive verdict in eight of ten simulations;
            None if it is settled or no number can be given (see ``reason``).
        further_seeds_low: the same in half of them; None as for ``further_seeds``.
        sign_reason: why it is not separated although the interval excludes 0; else empty.
        separating: if it is not separated, how many more units on each side would separate the sides in half and in
            eight of ten simulations; None if no number can be given.
        paired: the scores at one place of both sides belong together.
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
    further_seeds_low: int | None = None
    reason: str = ""
    sign: Sign = Sign.NOT_SEPARATED
    sign_reason: str = ""
    separating: tuple[int, int] | None = None
    paired: bool = False

    def is_alike(self) -> bool:
        """Returns whether neither side has a spread."""
        return not self.candidate.variance and not self.baseline.variance

    def withheld(self, reason: str) -> Judgement:
        """Returns the judgement if its numbers cannot decide."""
        return Judgement(
            self.env,
            Verdict.INCONCLUSIVE,
            self.difference,
            self.low,
            self.high,
            self.tolerance,
            self.candidate,
            self.baseline,
            reason=reason,
            sign_reason=reason,
        )

    def values(self) -> dict[str, Any]:
        """Returns verdict and numbers under the names that they have in records, tables and test cases."""
        own = ("difference", "low", "high", "tolerance", "p_regression", "further_seeds_low", "further_seeds")
        return {
            "verdict": self.verdict.value,
            "candidate_n": self.candidate.seeds,
            "baseline_n": self.baseline.seeds,
            "lost": self.candidate.lost,
            "candidate_mean": self.candidate.mean,
            "baseline_mean": self.baseline.mean,
            **{name: getattr(self, name) for name in own},
            "separating_seeds": None if self.separating is None else self.separating[1],
        }


def judge(
    env: str,
    candidate: ArrayLike,
    baseline: ArrayLike,
    tolerance: Tolerance,
    *,
    higher_is_better: bool = True,
    confidence: float = CONFIDENCE,
    failed: int = 0,
    baseline_failed: int = 0,
    identical: bool = False,
    further: bool = True,
    paired: bool = False,
) -> Judgement:
    """Judges one environment by itself.

    Args:
        candidate: one score per seed. One that is not finite is a lost run: the others may be the lucky part, and the
            candidate does not pass.
        baseline: the same of the baseline, where lost runs are left out.
        failed: further runs of the candidate that ended without a score. With lost runs a side is never the better one.
        baseline_failed: the same of the baseline.
        identical: the runs of both sides are equal bit for bit, seed by seed, and differ between seeds.
        further: simulate how many more seeds would settle an inconclusive one, or separate the sides.
        paired: scores at one place of both sides are those of one episode.
    """
    sign = 1.0 if higher_is_better else -1.0
    if paired:
        first, second = np.asarray(candidate, np.float64), np.asarray(baseline, np.float64)
        known = np.isfinite(first) & np.isfinite(second)
        failed += int(np.count_nonzero(~np.isfinite(first)))
        baseline_failed += int(np.count_nonzero(~np.isfinite(second)))
        candidate, baseline = first[known], second[known]
    ours, theirs = _side(candidate, sign, failed), _side(baseline, sign, baseline_failed)
    bound = tolerance.of(theirs.mean) if theirs.mean is not None else tolerance.absolute
    plain = Judgement(env, Verdict.INCONCLUSIVE, None, None, None, bound, ours, theirs, paired=paired)
    fewest = min(ours.seeds, theirs.seeds)
    look = at_any_look(confidence, fewest)
    if ours.mean is not None and theirs.mean is not None:
        plain = _with_interval(plain, look)
    if fewest < LEAST_SEEDS:
        reason = not_enough(fewest, LEAST_SEEDS, "shared episodes" if paired else "")
        return replace(plain, reason=reason, sign_reason=reason)
    if identical and not ours.lost:
        reason = "the same seeds give the same runs, bit for bit"
        return replace(
            plain,
            verdict=Verdict.PASS,
            low=0.0,
            high=0.0,
            p_regression=1.0,
            reason=reason,
            sign=Sign.NOT_SEPARATED,
            sign_reason=reason,
        )
    if further and plain.sign is Sign.NOT_SEPARATED and plain.difference is not None and not plain.sign_reason:
        found = seeds_to_settle(*_units(plain), plain.difference, confidence=confidence, needed=0)
        plain = replace(plain, separating=found)
    needed = exact.seeds_that_show(tolerance.unseen, (1.0 - confidence) / 2.0)
    return _decided(plain, tolerance.unseen, look, needed, confidence if further else None)


def _units(item: Judgement) -> tuple[Values, Values]:
    """Returns the scores of both sides, of pairs their differences and zeros."""
    ours, theirs = item.candidate.scores, item.baseline.scores
    return (ours - theirs, np.zeros_like(ours)) if item.paired else (ours, theirs)


def _with_interval(item: Judgement, confidence: float) -> Judgement:
    """Adds the difference with its interval and sign, and the chance of so low a difference."""
    ours, theirs = item.candidate, item.baseline
    found = difference_of([(ours.scores, theirs.scores)], confidence=confidence, paired=item.paired)
    item = replace(item, difference=found.value, low=found.low, high=found.high, sign=found.sign)
    if item.paired:
        between = _side(ours.scores - theirs.scores, 1.0)
        error = None if between.variance is None else math.sqrt(between.variance / between.seeds)
        freedom = float(between.seeds - 1)
    else:
        error, freedom = _welch(ours, theirs)
    if error is None or found.value is None:
        return item
    for side, name, better in ((ours, "candidate", Sign.BETTER), (theirs, "baseline", Sign.WORSE)):
        if side.lost and item.sign is better:
            reason = f"{side.lost} of {side.lost + side.seeds} runs of the {name} failed or diverged"
            item = replace(item, sign=Sign.NOT_SEPARATED, sign_reason=reason)
    if error:
        chance = student_cdf((found.value + item.tolerance) / error, freedom)
    elif found.value < -item.tolerance:
        chance = exact.chance_of_split(item.candidate.seeds, item.baseline.seeds)
    else:
        chance = 1.0
    if (counted := _counted(item)) is not None:
        chance = counted[0]
    return replace(item, p_regression=chance)


def _counted(item: Judgement) -> tuple[float, float] | None:
    """Returns the exact chances of so low and so high a difference for scores of two values with a spread."""
    ours, theirs = item.candidate.scores, item.baseline.scores
    values = exact.two_values(ours, theirs)
    too_many = (ours.size + 1) * (theirs.size + 1) > exact.MOST_TABLES
    if item.paired or values is None or too_many or not (item.candidate.variance or item.baseline.variance):
        return None
    # The difference of the two values is one success, so this is a difference of success rates.
    margin = item.tolerance / (values[1] - values[0])
    low, high = exact.chances(ours.size, theirs.size, margin)
    at = int(np.count_nonzero(ours == values[1])), int(np.count_nonzero(theirs == values[1]))
    return float(low[at]), float(high[at])


def _decided(item: Judgement, unseen: float, look: float, needed: int, confidence: float | None) -> Judgement:
    """Returns the judgement of enough seeds with its verdict and reason.

    Args:
        look: confidence of this look.
        needed: seeds that show that ``unseen`` of them fail.
        confidence: over all looks, for further seeds; None to leave them out.
    """
    level, ours = (1.0 - look) / 2.0, item.candidate
    assert item.difference is not None
    assert item.low is not None
    assert item.high is not None
    assert item.p_regression is not None
    counted = _counted(item)
    lower = item.difference < -item.tolerance
    if lower and item.p_regression <= level and (counted is not None or item.high < -item.tolerance):
        reason = "the whole interval lies below the tolerance"
        if counted is not None:
            reason = "scores of two values: chance does not explain the loss (exact test)"
        elif item.is_alike():
            reason = "runs of each side are all alike, and chance does not explain the loss"
        return replace(item, verdict=Verdict.REGRESSION, reason=reason)
    if ours.lost:
        return replace(item, reason=f"{ours.lost} of {ours.lost + ours.seeds} runs of the candidate failed or diverged")
    alike = item.is_alike()
    held = counted[1] <= level if counted is not None else item.low > -item.tolerance or (alike and not lower)
    if held and ours.seeds >= needed:
        return replace(item, verdict=Verdict.PASS, reason="the whole interval lies above the tolerance")
    if held:
        few = f"{ours.seeds} seeds may not show that {unseen:.0%} of them fail"
        reason = f"no loss seen, but {few}: a PASS needs {needed}"
    elif alike:
        return replace(item, reason="runs of each side are all alike: so few may be so by chance")
    elif counted is not None:
        reason = "scores of two values: chance may explain the difference (exact test)"
    else:
        reason = "the tolerance lies inside the interval"
    return replace(item, reason=reason) if confidence is None else _with_further(item, reason, confidence, needed)


def _with_further(item: Judgement, reason: str, confidence: float, needed: int) -> Judgement:
    """Adds how many more seeds would settle it, or that no number can be named."""
    assert item.difference is not None
    distance = item.difference + item.tolerance
    found = seeds_to_settle(*_units(item), distance, confidence=confidence, needed=needed)
    if item.is_alike():
        # Equal scores so far do not imply that the next one is equal, too.
        return replace(item, reason=f"{reason}, {needed - item.candidate.seeds} more if all are alike")
    if found is None:
        reason += "; no number of further seeds can be named"
        return replace(item, reason=reason, further_seeds=None, further_seeds_low=None)
    return replace(item, reason=reason, further_seeds=found[1], further_seeds_low=found[0])


def corrected(
    judgements: Sequence[Judgement], *, confidence: float = CONFIDENCE, further: bool = True
) -> list[Judgement]:
    """Applies Holm's correction: of several regressions only those stay that survive it.

    Args:
        confidence: that of the intervals; a false alarm is a matter of one tail.
    """
    # A single environment has no test of all together, so it takes the whole tail.
    share = _EACH if len(judgements) > 1 else 0.5
    level = (1.0 - _look_of(judgements, confidence)) * share
    ordered = sorted(
        (index for index, item in enumerate(judgements) if item.p_regression is not None),
        key=lambda index: judgements[index].p_regression or 0.0,
    )
    kept: set[int] = set()
    for rank, index in enumerate(ordered):
        # Holm's procedure ends at the first chance above its bound, even if a later one is below its own.
        if (judgements[index].p_regression or 0.0) > level / (len(ordered) - rank):
            break
        kept.add(index)
    result = []
    for index, item in enumerate(judgements):
        if item.verdict is Verdict.REGRESSION and index not in kept:
            reason = f"below the tolerance, but not after correction for {len(ordered)} comparisons"
            item = replace(item, verdict=Verdict.INCONCLUSIVE)
            if item.is_alike() or not further:
                item = replace(item, reason=reason)
            else:
                # A two-sided interval of this confidence has the corrected level in one tail.
                corrected_to = 1.0 - 2.0 * share * (1.0 - confidence) / len(ordered)
                item = _with_further(item, reason, corrected_to, MOST_FURTHER_SEEDS)
        result.append(item)
    return result


def _look_of(judgements: Sequence[Judgement], confidence: float) -> float:
    """Returns the confidence of one look at several environments: that of the one with the most seeds."""
    fewest = [min(item.candidate.seeds, item.baseline.seeds) for item in judgements]
    return at_any_look(confidence, max(fewest, default=0))


def pooled_chance(judgements: Sequence[Judgement]) -> float | None:
    """Returns the chance of so low a difference over all environments together if each were just at its tolerance.

    The standardised differences of the environments are summed (Stouffer): a loss that is too small to be seen on any
    of them is seen on many. It is valid for any spread and number of seeds of each. An environment without spread or
    with equal runs and without loss counts as neither.

    Returns:
        None with fewer than two environments that have ``LEAST_SEEDS`` on both sides.
    """
    usable = [
        item
        for item in judgements
        if item.p_regression is not None and min(item.candidate.seeds, item.baseline.seeds) >= LEAST_SEEDS
    ]
    if len(usable) < 2:
        return None
    normal, total = NormalDist(), 0.0
    for item in usable:
        chance = 0.5 if item.is_alike() and item.p_regression == 1.0 else item.p_regression or 0.0
        # The quantile of 0 does not exist, and rounding can give a chance of 0.
        total += normal.inv_cdf(min(max(chance, 1e-15), _MOST_GAIN))
    return normal.cdf(total / math.sqrt(len(usable)))


def pooled_level(judgements: Sequence[Judgement], confidence: float = CONFIDENCE, candidates: int = 1) -> float:
    """Returns the level of the test over all environments together, of one look at the judgements of a candidate."""
    return (1.0 - _look_of(judgements, confidence)) * _TOGETHER / candidates


def overall(judgements: Sequence[Judgement], *, confidence: float = CONFIDENCE, candidates: int = 1) -> Verdict:
    """Returns the verdict over all environments of one candidate.

    Args:
        judgements: one per environment, corrected.
        candidates: how many candidates are judged together; the level is divided by it.

    Returns:
        REGRESSION where one environment or all together show it; else the worst of them.
    """
    verdicts = {item.verdict for item in judgements}
    together = pooled_chance(judgements)
    if Verdict.REGRESSION in verdicts or (
        together is not None and together <= pooled_level(judgements, confidence, candidates)
    ):
        return Verdict.REGRESSION
    return Verdict.PASS if verdicts == {Verdict.PASS} else Verdict.INCONCLUSIVE


def _side(scores: ArrayLike, sign: float, failed: int = 0) -> Side:
    array: Values = np.asarray(scores, dtype=np.float64).ravel()
    finite = array[np.isfinite(array)]
    mean = float(finite.mean()) if finite.size else None
    variance = float(finite.var(ddof=1)) if finite.size > 1 else None
    if variance is not None and np.ptp(finite) == 0:
        variance = 0.0  # not the rounding of the mean
    return Side(int(finite.size), mean, variance, int(array.size - finite.size) + failed, sign * finite)


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
