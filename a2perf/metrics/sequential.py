"""Evidence about a mean that stays valid however often one looks: betting, and repeated intervals.

Both answer the same questions about values that arrive one after the other: from which value on is the mean known to
lie above (or below) a level, which interval holds it now, and how many more values would probably be enough.

``BettingEvidence`` is for values with known bounds. A bet on every value that the mean is higher than the level wins
nothing on average if it is not; its capital therefore exceeds ``1 / alpha`` at any time with a chance of at most
``alpha`` (Ville's inequality), for every distribution. I. Waudby-Smith and A. Ramdas, "Estimating means of bounded
random variables by betting", Journal of the Royal Statistical Society B 86 (2024).

``RepeatedIntervals`` is for values without known bounds, where no test of a mean is valid for every distribution
(R. Bahadur and L. Savage, Annals of Mathematical Statistics 27, 1956). It looks at a growing number of values, with an
interval for few and skewed values, and spends a part of ``alpha`` at each look (C. Jennison and B. Turnbull, Journal of
the Royal Statistical Society B 51, 1989). Its error rates are measured in ``perf/claims.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from a2perf.arrays import Values
from a2perf.metrics.bootstrap import mean_interval, small_sample_ends

NEVER = 2**62
"""Index of a value that has not come yet."""
LEAST_VALUES = 5
"""A number of further values is named from so many on: fewer say too little about their spread."""
_LARGEST_BET = 0.9
"""Share of the capital that one value can lose; all of it would end the bet for good."""
_FIRST_LOOK, _GROWTH = 20, 1.5
"""With fewer values a long tail goes unseen: 9 % of honest claims of lognormal values were refuted from 5 on."""
_FEWEST = 3
_LIKELY = 0.8
_FUTURES = 400
_FARTHEST = 100
"""A forecast reaches at most so many times as far as the values at hand."""
Ways = Sequence[Sequence[tuple[float, bool]]]
"""Ways to settle a question, any of which is enough: levels and sides (True: above) that all have to be proven."""


class Evidence(Protocol):
    """What values say about their mean; every method takes all values so far, shape ``(n,)``."""

    def first(self, values: Values, level: float, *, above: bool) -> int:
        """Returns the index of the value that proves that the mean lies above (below) the level; ``NEVER`` if none."""
        ...

    def interval(self, values: Values) -> tuple[float, float]:
        """Returns the interval of the mean after all of the values."""
        ...

    def further(self, values: Values, ways: Ways) -> int | None:
        """Returns how many more values settle it in eight of ten cases; None if no number can be named."""
        ...


@dataclass(frozen=True)
class BettingEvidence:
    """Bets on values between known bounds.

    ``gap`` is the difference of the mean from a level that is to be found soonest, in units of the values.
    """

    low: float
    high: float
    gap: float
    alpha: float

    @property
    def _enough(self) -> float:
        """Logarithm of the capital that rejects one side."""
        return math.log(2.0 / self.alpha)

    def first(self, values: Values, level: float, *, above: bool) -> int:
        """See ``Evidence``."""
        if not values.size:
            return NEVER
        # The bounds alone prove this, whatever the values are.
        if level < self.low if above else level > self.high:
            return 0
        reached = np.cumsum(self._gains(values, level, above)) >= self._enough
        return int(reached.argmax()) if reached.any() else NEVER

    def interval(self, values: Values) -> tuple[float, float]:
        """See ``Evidence``."""
        if not values.size:
            return self.low, self.high
        mean = float(values.mean())
        return self._end(values, mean, above=True), self._end(values, mean, above=False)

    def further(self, values: Values, ways: Ways) -> int | None:
        """See ``Evidence``."""
        if values.size < LEAST_VALUES:
            return None
        rng = np.random.default_rng(0)
        guess = rng.standard_normal(_FUTURES)
        settled = np.min(
            [np.max([self._times(values, *target, guess, rng) for target in way], axis=0) for way in ways], 0
        )
        found = float(np.quantile(settled, _LIKELY, method="higher"))
        return max(1, math.ceil(found)) if found <= _FARTHEST * values.size else None

    def _times(self, values: Values, level: float, above: bool, guess: Values, rng: np.random.Generator) -> Values:
        """Returns how many more values prove it in each possible future, infinity where they never do.

        The logarithm of the capital is a random walk, which reaches a height after a time with an inverse Gaussian
        distribution. ``guess`` is the error of the present mean in standard errors, shape ``(futures,)``.
        """
        gains = self._won(values, level, above, np.full(values.size, float(self._bets(values)[-1])))
        missing = max(self._enough - float(self._gains(values, level, above).sum()), 0.0)
        spread = float(gains.std(ddof=1))
        drift = float(gains.mean()) + (guess if above else -guess) * spread / math.sqrt(values.size)
        times = np.full(drift.shape, np.inf)
        moving = drift > 0.0
        times[moving] = missing / drift[moving]
        if spread > 1e-9 and missing:
            times[moving] = rng.wald(times[moving], (missing / spread) ** 2)
        return times

    def _end(self, values: Values, mean: float, *, above: bool) -> float:
        """Returns the level between the bound and the mean that is just not rejected."""
        refused, kept = (self.low, mean) if above else (self.high, mean)
        if self._gains(values, refused, above).sum() < self._enough:
            return refused
        for _ in range(40):
            middle = 0.5 * (refused + kept)
            if self._gains(values, middle, above).sum() >= self._enough:
                refused = middle
            else:
                kept = middle
        return refused

    def _bets(self, values: Values) -> Values:
        """Returns the stake on each value, from the values before it: best for this gap and their variance."""
        shares = (values - self.low) / (self.high - self.low)
        gap = self.gap / (self.high - self.low)
        seen = np.arange(2, shares.size + 2)
        means = (0.5 + np.cumsum(shares)) / seen
        variances = (0.25 + np.cumsum((shares - means) ** 2)) / seen
        before = np.concatenate(([0.25], variances[:-1]))
        return np.asarray(gap / (before + gap**2))

    def _gains(self, values: Values, level: float, above: bool) -> Values:
        return self._won(values, level, above, self._bets(values))

    def _won(self, values: Values, level: float, above: bool, bets: Values) -> Values:
        """Returns how much each value changes the logarithm of the capital."""
        width = self.high - self.low
        shares = (values - self.low if above else self.high - values) / width
        middle = max((level - self.low if above else self.high - level) / width, 1e-12)
        return np.log1p(np.minimum(bets, _LARGEST_BET / middle) * (shares - middle))


@dataclass(frozen=True)
class PairedEvidence:
    """Bets on the difference of fresh values from those of a fixed sample; each of the sample serves once per block.

    Attributes:
        sample: the fixed sample in random order, shape ``(m,)``.
        blocks: numbers of fresh values; the mean of each number is compared with one value of the sample.
        bets: the bets on the differences; the bounds are those of a difference, and ``alpha`` is that of one block.
    """

    sample: Values
    blocks: tuple[int, ...]
    bets: BettingEvidence

    def _differences(self, values: Values, block: int) -> Values:
        count = min(values.size // block, self.sample.size)
        means = values[: count * block].reshape(count, block).mean(axis=1)
        return np.asarray(means - self.sample[:count])

    def first(self, values: Values, level: float, *, above: bool) -> int:
        """See ``Evidence``."""
        by_block = {
            block: self.bets.first(self._differences(values, block), level, above=above) for block in self.blocks
        }
        return min(NEVER if at == NEVER else (at + 1) * block - 1 for block, at in by_block.items())

    def interval(self, values: Values) -> tuple[float, float]:
        """See ``Evidence``."""
        ends = [self.bets.interval(self._differences(values, block)) for block in self.blocks]
        return max(low for low, _ in ends), min(high for _, high in ends)

    def further(self, values: Values, ways: Ways) -> int | None:
        """See ``Evidence``."""
        counts = []
        for block in self.blocks:
            differences = self._differences(values, block)
            found = self.bets.further(differences, ways)
            if found is not None and differences.size + found <= self.sample.size:
                counts.append((differences.size + found) * block - values.size)
        return min(counts, default=None)


@dataclass(frozen=True)
class RepeatedIntervals:
    """Intervals of the mean at a growing number of values; with a sample, of the difference from its mean.

    One instance serves one growing series of values.

    Attributes:
        alpha: chance that one of the intervals misses the mean.
        last: number of values of the last look.
        sample: a fixed sample, shape ``(m,)``, ``m >= 2``; its mean is subtracted. None for none.
    """

    alpha: float
    last: int
    sample: Values | None = None
    _known: dict[int, tuple[float, float]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def first(self, values: Values, level: float, *, above: bool) -> int:
        """See ``Evidence``."""
        for number, count in enumerate(self._looks(values.size), 1):
            low, high = self._ends(values[:count], number)
            if low > level if above else high < level:
                return count - 1
        return NEVER

    def interval(self, values: Values) -> tuple[float, float]:
        """See ``Evidence``; the interval of the last look."""
        looks = self._looks(values.size)
        if not looks:
            return -math.inf, math.inf
        return self._ends(values[: looks[-1]], len(looks))

    def further(self, values: Values, ways: Ways) -> int | None:
        """See ``Evidence``."""
        if values.size < LEAST_VALUES:
            return None
        spread = 0.0 if np.ptp(values) == 0.0 else float(values.std(ddof=1))
        mean = float(values.mean()) - (0.0 if self.sample is None else float(self.sample.mean()))
        guess = np.random.default_rng(0).standard_normal(_FUTURES)
        for number, count in enumerate(_looks(_FARTHEST * values.size), 1):
            if count <= values.size:
                continue
            # Variance of the later mean if the present one is known with its standard error.
            later = mean + guess * spread * math.sqrt((count - values.size) / (values.size * count))
            error = math.sqrt(spread**2 / count + _squared_error(self.sample))
            low, high = small_sample_ends(0.0, error, 0.0, count, count - 1, 1.0 - self._level(number))
            proven = [
                np.all([later + low > level if above else later + high < level for level, above in way], axis=0)
                for way in ways
            ]
            if np.any(proven, axis=0).mean() >= _LIKELY:
                return count - values.size
        return None

    def _looks(self, size: int) -> list[int]:
        """Returns the numbers of values, up to ``size``, of which the intervals are computed."""
        planned = [count for count in _looks(self.last) if count < self.last] + [max(self.last, _FEWEST)]
        return [count for count in planned if count <= size]

    def _level(self, look: int) -> float:
        """Returns the part of ``alpha`` of a look; the parts of endless looks add up to it."""
        return self.alpha / (look * (look + 1))

    def _ends(self, values: Values, look: int) -> tuple[float, float]:
        # Values are only added, so the interval of a look stays.
        if look not in self._known:
            self._known[look] = self._computed(values, look)
        return self._known[look]

    def _computed(self, values: Values, look: int) -> tuple[float, float]:
        # The last look spends what the looks before it have left: all of it if it is the only one.
        spent = self.alpha / look if values.size >= self.last else self._level(look)
        confidence = 1.0 - spent
        if self.sample is None:
            return mean_interval(values, confidence=confidence)
        counts = values.size, self.sample.size
        difference = float(values.mean() - self.sample.mean())
        # An honest claim has one distribution on both sides, which all values together describe better than a few
        # fresh ones, which can miss a long tail. Where the sides differ, the larger error counts.
        pooled = np.concatenate((values - values.mean(), self.sample - self.sample.mean()))
        variance = float((pooled**2).sum()) / (pooled.size - 2)
        ours, theirs = _squared_error(values), _squared_error(self.sample)
        error = math.sqrt(max(ours + theirs, variance * (1.0 / counts[0] + 1.0 / counts[1])))
        if error == 0.0:
            return difference, difference
        third = float((pooled**3).mean()) * (1.0 / counts[0] ** 2 - 1.0 / counts[1] ** 2)
        freedom = sum(counts) - 2.0
        if ours + theirs:  # at most Welch's, from the squared errors of both sides
            freedom = min(freedom, (ours + theirs) ** 2 / (ours**2 / (counts[0] - 1) + theirs**2 / (counts[1] - 1)))
        return small_sample_ends(difference, error, third / error**3, min(counts), freedom, confidence)


def _looks(most: int) -> list[int]:
    """Returns growing numbers of values up to ``most``."""
    found, count = [], _FIRST_LOOK
    while count <= most:
        found.append(count)
        count = math.ceil(count * _GROWTH)
    return found


def _squared_error(values: Values | None) -> float:
    """Returns the squared standard error of the mean."""
    if values is None or np.ptp(values) == 0.0:
        return 0.0
    return float(values.var(ddof=1)) / values.size
