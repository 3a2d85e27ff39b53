"""How many more seeds settle a comparison: simulated from the scores at hand.

A future is drawn for each side: a true mean and spread that are plausible after the scores so far (Student's and the
chi-square posterior of a normal sample), and further scores around that mean with the shape of the scores so far. For
scores of two values it is a plausible success rate on each side, or one of both (see ``_success_rates``). The
numbers are those of seeds at which half and eight of ten futures are settled. Where the scores lie near the tolerance
they are large, and where eight of ten futures stay open, no number is named.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a2perf.arrays import Values
from a2perf.metrics.difference import at_any_look

MOST_FURTHER_SEEDS = 200
"""More seeds than that are not worth naming."""
_FUTURES = 250
_HALF, _MOST = 0.5, 0.8
_COUNTS = np.concatenate((np.arange(1, 31), np.round(np.geomspace(32, MOST_FURTHER_SEEDS, 16)).astype(int)))


def seeds_to_settle(
    candidate: Values, baseline: Values, distance: float, *, confidence: float, needed: int
) -> tuple[int, int] | None:
    """Returns the range of further seeds on each side that settle a comparison.

    Args:
        candidate: scores so far, shape ``(n,)``, at least three.
        distance: from the tolerance (0 for better or worse) to the difference of the means, positive when better.
        confidence: over all looks (``difference.at_any_look``).
        needed: seeds of the candidate without which it does not pass.

    Returns:
        Numbers at which half and most of the simulated futures are settled; None when most are still open after
        ``MOST_FURTHER_SEEDS``, and without a spread.
    """
    if not np.ptp(candidate) and not np.ptp(baseline):
        return None
    from scipy.special import stdtrit

    # A fixed seed: the same scores must give the same report.
    generator = np.random.default_rng(0)
    sides = candidate, baseline
    values = np.unique(np.concatenate(sides))
    if values.size == 2:
        rates = _success_rates(candidate == values[1], baseline == values[1], generator)
        drawn = [values[(generator.random((_FUTURES, MOST_FURTHER_SEEDS)) < rate).astype(np.intp)] for rate in rates]
    else:
        drawn = [_further_scores(scores, generator) for scores in sides]
    means, variances = zip(*(_moments(*pair) for pair in zip(sides, drawn, strict=True)), strict=True)
    sizes = [scores.size + _COUNTS for scores in (candidate, baseline)]
    parts = [variance / size for variance, size in zip(variances, sizes, strict=True)]
    total = parts[0] + parts[1]
    weights = [part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True)]
    # The squares of tiny variances can underflow to 0.
    freedom = total**2 / np.maximum(weights[0] + weights[1], 1e-300)
    levels = np.array([at_any_look(confidence, int(least)) for least in np.minimum(*sizes)])
    half = stdtrit(freedom, 0.5 + levels / 2.0) * np.sqrt(total)
    away = distance + (means[0] - candidate.mean()) - (means[1] - baseline.mean())
    settled = (away + half < 0) | ((away - half > 0) & (sizes[0] >= needed))
    shares = settled.mean(axis=0)
    most = np.flatnonzero(shares >= _MOST)
    if not most.size:
        return None
    return int(_COUNTS[np.flatnonzero(shares >= _HALF)[0]]), int(_COUNTS[most[0]])


def _further_scores(scores: Values, generator: np.random.Generator) -> Values:
    """Returns the further scores of each future, shape ``(futures, MOST_FURTHER_SEEDS)``."""
    count, spread = scores.size, float(scores.std(ddof=1))
    spreads = spread * np.sqrt((count - 1) / generator.chisquare(count - 1, (_FUTURES, 1)))
    centres = scores.mean() + spreads / np.sqrt(count) * generator.standard_normal((_FUTURES, 1))
    shape = (scores - scores.mean()) / (scores.std() or 1.0)
    return np.asarray(centres + spreads * shape[generator.integers(0, count, (_FUTURES, MOST_FURTHER_SEEDS))])


def _success_rates(
    candidate: NDArray[np.bool_], baseline: NDArray[np.bool_], generator: np.random.Generator
) -> tuple[Values, Values]:
    """Returns plausible success rates of both sides, each of shape ``(futures, 1)``.

    Five successes do not prove a rate of 1, so the rates come from Jeffreys' posterior. The rates of both sides are
    equal with the probability that the outcomes leave to it if it was a half before: few outcomes of one rate often
    look different, and a forecast that takes the difference for true would then never come true.
    """
    from scipy.special import betaln, expit

    (good, bad), (others_good, others_bad) = (
        (np.count_nonzero(side) + 0.5, np.count_nonzero(~side) + 0.5) for side in (candidate, baseline)
    )
    common = good + others_good - 0.5, bad + others_bad - 0.5
    evidence = betaln(*common) + betaln(0.5, 0.5) - betaln(good, bad) - betaln(others_good, others_bad)
    size = (_FUTURES, 1)
    equal = generator.random(size) < expit(evidence)
    shared = generator.beta(*common, size)
    ours, theirs = generator.beta(good, bad, size), generator.beta(others_good, others_bad, size)
    return np.where(equal, shared, ours), np.where(equal, shared, theirs)


def _moments(scores: Values, further: Values) -> tuple[Values, Values]:
    """Returns mean and variance of the scores with each number of further ones, shape ``(futures, counts)``."""
    count = scores.size
    # Sums of deviations from the mean so far: those of the scores themselves would lose digits of small spreads.
    deviations = further - scores.mean()
    sums = np.cumsum(deviations, axis=1)[:, _COUNTS - 1]
    squares = np.cumsum(deviations**2, axis=1)[:, _COUNTS - 1] + (count - 1) * float(scores.var(ddof=1))
    sizes: NDArray[np.int64] = count + _COUNTS
    shifts = sums / sizes
    # Rounding can leave a small negative number.
    return scores.mean() + shifts, np.maximum(squares - sizes * shifts**2, 0.0) / (sizes - 1)
