"""Judges a claimed number by repeating what it claims to measure, and stops as soon as it can.

A claim is a number (a threshold, a mean) or a sample (the episodes of a recorded run). Fresh values, *reruns*, arrive
one after the other. With the margin D (a claim that is inflated by so much must be found) the claim ``mean >= c`` is

* REFUTED once the mean of the reruns is known to be below ``c``;
* CONFIRMED once it is known to be above ``c - D``;
* INCONCLUSIVE if neither happens within ``max_reruns``.

An honest claim is refuted with a chance of at most 2.5 %, and one inflated by D confirmed with a chance of at most
2.5 %, however often one looks; ``sequential`` has the methods, ``perf/claims.py`` the measured rates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from a2perf.arrays import Values
from a2perf.metrics.sequential import NEVER, BettingEvidence, Evidence, PairedEvidence, RepeatedIntervals

Verdict = Literal["CONFIRMED", "REFUTED", "INCONCLUSIVE"]
Comparison = Literal[">=", "<=", "=="]
MARGIN = 0.05
"""Margin as a share of the score range."""
MAX_RERUNS = 5000
CONFIDENCE = 0.95
_BLOCKS = (1, 5)
"""Fresh values per value of a claimed sample: one each is quickest, more get further with a small sample."""


ROUNDING = 1e-3
"""How much better than the measured value a claim of a value without noise may be, as a share of it."""


def exact_verdict(claimed: float, measured: float) -> Verdict:
    """Judges a claim about a value that every repetition measures alike, such as the return of one placement.

    Higher is better: REFUTED if the claim is higher by more than ``ROUNDING``, else CONFIRMED.
    """
    return "REFUTED" if claimed - measured > ROUNDING * abs(measured) else "CONFIRMED"


@dataclass(frozen=True)
class ClaimResult:
    """What reruns say about a claim.

    Attributes:
        estimate: mean of the reruns, in units of the claim; NaN without any.
        low: lower end of the 95 % interval of that mean, valid whenever one stops. For a claimed sample it is the
            interval of the difference of both means, moved by the claimed mean. Infinite before the first look of a
            claim without bounds.
        needed: how many more would settle it in about eight of ten cases; None if it is settled or no number can be
            named.
    """

    verdict: Verdict
    estimate: float
    low: float
    high: float
    reruns: int
    needed: int | None
    reason: str


class SequentialClaim:
    """A claim that reruns confirm or refute, as few as possible of them.

    Reruns must be independent of one another and of the claim: fresh seeds. To compare reruns of the *same* seeds,
    claim that the mean of the differences is ``== 0``.

    Example:
        >>> claim = SequentialClaim(0.9, ">=", bounds=(0.0, 1.0))
        >>> found = claim.extend([0.85] * 100)
        >>> found.verdict, found.reruns
        ('REFUTED', 35)
    """

    def __init__(
        self,
        claimed: ArrayLike,
        comparison: Comparison = ">=",
        *,
        bounds: tuple[float, float] | None = None,
        margin: float | None = None,
        max_reruns: int = MAX_RERUNS,
        confidence: float = CONFIDENCE,
        seed: int = 0,
    ) -> None:
        """Prepares the test.

        Args:
            claimed: the claimed threshold or mean, one number; or the values of the claim, shape ``(m,)``, one per
                episode or seed. A sample of one value counts as a number.
            comparison: how the mean of the reruns compares with that of the claim: ``">="``, ``"<="``, or ``"=="``
                within the margin.
            bounds: least and greatest possible value of one rerun, None if unknown. With bounds the guarantees hold for
                every distribution; without, they rely on the central limit theorem.
            margin: deviation that must be found, in units of the claim. Default: 5 % of the range of ``bounds``;
                without bounds, of that of the claimed sample, else of the claimed number's absolute value.
            max_reruns: after so many the verdict is INCONCLUSIVE. Without bounds the claim is judged after 20, 30,
                45, ... reruns and after the last; fewer than 3 decide nothing.
            confidence: of the interval; each wrong verdict has a chance of at most half of the rest.
            seed: orders a claimed sample at random.

        Raises:
            ValueError: a value is not finite or outside the bounds, or an argument is out of range.
        """
        if comparison not in get_args(Comparison):
            raise ValueError(f"the comparison is {comparison!r}; valid are >=, <= and ==")
        if max_reruns < 1 or not 0.5 < confidence < 1.0:
            raise ValueError(f"max_reruns={max_reruns}, confidence={confidence}: need at least 1, and 0.5 to 1")
        self._bounds = _checked_bounds(bounds)
        sample = self._checked(claimed)
        if not sample.size:
            raise ValueError("the claim has no value")
        self.claimed = float(sample.mean())
        self.margin = _margin(sample, self._bounds) if margin is None else float(margin)
        if not (math.isfinite(self.margin) and self.margin > 0.0):
            raise ValueError(
                f"the margin is {self.margin}; it must be above 0. Hint: give margin= in units of the claim"
            )
        self.comparison, self.max_reruns = comparison, max_reruns
        self._own_size = sample.size if sample.size > 1 else 0
        self._evidence = self._prepared(sample, 1.0 - confidence, seed)
        self._values: Values = np.empty(0)
        self._result: ClaimResult | None = None

    def add(self, value: float) -> ClaimResult | None:
        """Takes one rerun; returns the final result once no further rerun is required, None before.

        Raises:
            ValueError: the value is not finite or outside the bounds. Count a failed rerun as the worst value, or the
                lucky ones alone decide.
        """
        return self.extend([value])

    def extend(self, values: ArrayLike) -> ClaimResult | None:
        """Takes several reruns in their order, shape ``(n,)``; as ``add`` of each, and quicker."""
        if self._result is not None:
            return self._result
        every = np.concatenate((self._values, self._checked(values)))[: self.max_reruns]
        refuted, confirmed = self._first(every, 0.0, refutes=True), self._first(every, self.margin, refutes=False)
        # What happened at once: the mean differs from the claim, and by less than the margin.
        verdict: Verdict = "CONFIRMED" if confirmed <= refuted else "REFUTED"
        end = min(refuted, confirmed)
        decided = end != NEVER
        self._values = every[: end + 1] if decided else every
        if decided or self._values.size >= self.max_reruns:
            self._result = self._summary(verdict if decided else "INCONCLUSIVE")
        return self._result

    def result(self) -> ClaimResult:
        """Returns the final result, or INCONCLUSIVE with what the reruns so far say."""
        return self._result or self._summary("INCONCLUSIVE")

    def _prepared(self, sample: Values, alpha: float, seed: int) -> Evidence:
        """Returns the method for this claim; it sees values less the claimed mean, or differences from the sample."""
        if self._bounds is None:
            return RepeatedIntervals(alpha, self.max_reruns, sample if self._own_size else None)
        low, high = self._bounds
        if not self._own_size:
            return BettingEvidence(low - self.claimed, high - self.claimed, self.margin, alpha)
        ordered = np.random.default_rng(seed).permutation(sample)
        blocks = tuple(block for block in _BLOCKS if block == 1 or self.max_reruns > sample.size)
        bets = BettingEvidence(low - high, high - low, self.margin, alpha / len(blocks))
        return PairedEvidence(ordered, blocks, bets)

    def _checked(self, given: ArrayLike) -> Values:
        values = np.asarray(given, dtype=np.float64).ravel()
        if not np.isfinite(values).all():
            raise ValueError("a value is NaN or infinite. Hint: count a failed rerun as the worst possible value")
        if self._bounds is not None and values.size:
            low, high = self._bounds
            if values.min() < low or values.max() > high:
                wrong = values[(values < low) | (values > high)][0]
                raise ValueError(f"the value {wrong:g} lies outside the bounds [{low:g}, {high:g}] of a rerun")
        return values

    def _excess(self, values: Values) -> Values:
        return values if self._own_size else values - self.claimed

    def _levels(self, margin: float, *, refutes: bool) -> list[tuple[float, bool]]:
        """Returns the levels, less the claimed mean, and sides (True: above) that prove one verdict."""
        if self.comparison == "==":
            return [(0.0, True), (0.0, False)] if refutes else [(-margin, True), (margin, False)]
        at_least = self.comparison == ">="
        if refutes:
            return [(0.0, not at_least)]
        if self._bounds is not None and not self._own_size:
            # A level beyond the bounds would be proven by nothing; a claim near them keeps half of its distance.
            end = self.claimed - self._bounds[0] if at_least else self._bounds[1] - self.claimed
            margin = min(margin, 0.5 * end) if end > 0.0 else margin
        return [(-margin, True)] if at_least else [(margin, False)]

    def _first(self, values: Values, margin: float, *, refutes: bool) -> int:
        """Returns the index of the rerun that proves a verdict; ``NEVER`` if none."""
        if not values.size:
            return NEVER
        excess = self._excess(values)
        found = [
            self._evidence.first(excess, level, above=above) for level, above in self._levels(margin, refutes=refutes)
        ]
        return min(found) if refutes else max(found)

    def _needed(self) -> int | None:
        refuting = self._levels(0.0, refutes=True)
        ways = [*([level] for level in refuting), self._levels(self.margin, refutes=False)]
        return self._evidence.further(self._excess(self._values), ways)

    def _summary(self, verdict: Verdict) -> ClaimResult:
        values = self._values
        estimate = float(values.mean()) if values.size else math.nan
        low, high = (end + self.claimed for end in self._evidence.interval(self._excess(values)))
        needed = self._needed() if verdict == "INCONCLUSIVE" and values.size else None
        return ClaimResult(verdict, estimate, low, high, int(values.size), needed, self._reason(verdict, needed))

    def _reason(self, verdict: Verdict, needed: int | None) -> str:
        claim = f"{self.comparison} {self.claimed:.6g}"
        if verdict == "CONFIRMED":
            return f"the mean of the reruns is {claim} within the margin of {self.margin:.6g}"
        if verdict == "REFUTED":
            return f"the mean of the reruns is not {claim}"
        if needed is not None:
            return f"both remain possible; about {needed} more reruns would probably settle it"
        if self._own_size and self._bounds is not None and self._values.size >= self._own_size * max(_BLOCKS):
            return f"both remain possible; the claim's own {self._own_size} values are too few to settle it"
        return "both remain possible; no number of further reruns can be named"


def _checked_bounds(bounds: tuple[float, float] | None) -> tuple[float, float] | None:
    if bounds is None:
        return None
    low, high = float(bounds[0]), float(bounds[1])
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"the bounds are {bounds}; two finite numbers, the lower first, are needed")
    return low, high


def _margin(sample: Values, bounds: tuple[float, float] | None) -> float:
    if bounds is not None:
        return MARGIN * (bounds[1] - bounds[0])
    return MARGIN * (float(np.ptp(sample)) or abs(float(sample[0])))
