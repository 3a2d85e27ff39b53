"""What repetitions say about a recorded return if they are not bit-equal: one comparison of two samples.

Three comparisons exist, one per kind of repetition: the differences of episodes with equal seeds; all repeated
episodes against the recorded ones, if further episodes were asked for; and training runs against training runs, if
those were repeated. The interval of repeated minus recorded knows the spread of both sides. A result is REFUTED if the
interval excludes 0, CONFIRMED if it lies within the margin, and otherwise open.

Further episodes are a second look at one result. They are played in doublings of the recorded number, and look k
spends the share ``1 / (k (k + 1))`` of the chance of an error, so all looks together err in at most 5 %
(C. Jennison and B. Turnbull, Journal of the Royal Statistical Society B 51, 1989).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from a2perf.arrays import Values
from a2perf.metrics import protocol as protocols
from a2perf.metrics.bootstrap import mean_interval
from a2perf.metrics.difference import LEAST_SEEDS, difference
from a2perf.runs.reproduction import Outcome, ReturnComparison, Unit
from a2perf.runs.run import Run

ERROR = 0.05
"""Chance that an honest result is refuted, over all looks."""
MARGIN = 0.05
"""Deviation within which results count as equal, as a share of the distance from random policy to expert."""
_MOST_PERMUTED = 2000
"""Above this number of episodes Welch's interval stands alone: permutations say the same and take seconds."""


def returns_of(run: Run) -> Values:
    """Returns the mean return over the tasks of each episode, shape ``(episodes,)``."""
    by_task = run.returns.get(run.mode, {})
    count = min((len(values) for values in by_task.values()), default=0)
    return np.mean([values[:count] for values in by_task.values()], axis=0) if count else np.empty(0)


def margin_of(recorded: Run) -> float:
    """Returns the margin of a recorded result, in units of the return.

    Without references of a protocol it is a share of the range of the recorded returns, and of their mean if they are
    all equal.
    """
    found = protocols.scored_task(recorded.identity.task, recorded.identity.fingerprint)
    if found is not None:
        return MARGIN * abs(found.task.reference("expert").mean - found.task.reference("random").mean)
    values = returns_of(recorded)
    return MARGIN * (float(np.ptp(values)) or abs(float(values[0])) or 1.0)


def looks_for(episodes: int | None, recorded: int) -> int:
    """Returns the number of the look at which so many repeated episodes are compared; 1 without further ones."""
    return 1 if episodes is None or episodes <= recorded else 1 + math.ceil(math.log2(episodes / recorded))


def confidence_of(look: int) -> float:
    """Returns the confidence of the interval of one look, counted from 1."""
    return 1.0 - ERROR / (look * (look + 1))


def compare_episodes(recorded: Run, repeated: Sequence[Run], look: int) -> ReturnComparison:
    """Compares the returns of repeated episodes with the recorded ones.

    Args:
        repeated: the first has the recorded seeds; with a ``look`` above 1 further ones have fresh seeds.
    """
    before, confidence = returns_of(recorded), confidence_of(look)
    unit: Unit = "episodes of equal seeds" if look == 1 else "episodes"
    if look == 1:
        pairs = _paired(recorded, repeated[0])
        after = returns_of(repeated[0])
        low, high = mean_interval(pairs, confidence=confidence) if pairs.size > 1 else (-math.inf, math.inf)
        spread = float(before.std(ddof=1)) if before.size > 1 else math.nan
    else:
        after = np.concatenate([returns_of(run) for run in repeated])
        low, high = _interval(after, before, confidence)
        spread = float(np.concatenate((before, after)).std(ddof=1))
    found = _compared(unit, before, after, low, high, confidence, margin_of(recorded))
    found.look, found.needed = look, episodes_needed(before.size, spread, found.margin, after=look)
    return found


def compare_trainings(pairs: Sequence[tuple[Run, Run]]) -> ReturnComparison:
    """Compares repeated with recorded training runs, one pair per seed, each by the mean return of its evaluation."""
    before, after = (np.array([float(returns_of(pair[at]).mean()) for pair in pairs]) for at in (0, 1))
    low, high = _interval(after, before, 1.0 - ERROR)
    return _compared("training runs", before, after, low, high, 1.0 - ERROR, margin_of(pairs[0][0]))


def verdict_of(found: ReturnComparison) -> tuple[Outcome, str]:
    """Returns the verdict that follows from a comparison, and the reason."""
    count, unit = found.repeated_n, found.unit
    if unit == "training runs" and count < LEAST_SEEDS:
        seeds = "one seed" if count == 1 else f"{count} seeds"
        return "INCONCLUSIVE", f"no statement: {seeds}; the spread of training runs takes {LEAST_SEEDS}"
    if found.low is None or found.high is None:
        return "INCONCLUSIVE", f"no statement: {count} {unit} have no spread to compare with"
    if max(-found.low, found.high) <= found.margin:
        return "CONFIRMED", f"{count} {unit} agree within the margin"
    if found.low > 0.0 or found.high < 0.0:
        return "REFUTED", f"{count} {unit} differ by {found.repeated - found.recorded:+.6g}"
    if found.needed is not None:
        return (
            "INCONCLUSIVE",
            f"not separated, nor equal within the margin; about {found.needed} episodes would settle it",
        )
    return "INCONCLUSIVE", f"{count} {unit} are neither separated nor equal within the margin"


def episodes_needed(recorded: int, spread: float, margin: float, *, after: int = 0) -> int | None:
    """Returns how many repeated episodes would show that equal results agree within the margin.

    Args:
        recorded: number of recorded episodes.
        spread: standard deviation of the return of one episode.
        after: number of looks so far; the number returned belongs to a later one.

    Returns:
        The recorded number times a power of two; None if no number is enough, because the recorded mean is too
        uncertain itself, or if the spread is unknown.
    """
    if not spread > 0.0:
        return None
    for look in range(max(after, 1) + 1, 12):
        count: int = recorded * 2 ** (look - 1)
        quantile = statistics.NormalDist().inv_cdf(0.5 + confidence_of(look) / 2.0)
        if quantile * spread * math.sqrt(1.0 / recorded + 1.0 / count) <= margin:
            return count
    return None


def by_training(evaluations: Mapping[str, tuple[Run, Run]]) -> dict[tuple[str, ...], list[str]]:
    """Groups evaluations, by label, that differ in the training seed alone."""
    found: dict[tuple[str, ...], list[str]] = {}
    for label, (recorded, _) in evaluations.items():
        manifest = recorded.manifest
        assert manifest is not None
        key = (
            manifest.submission.sha256,
            manifest.domain,
            manifest.task,
            str(manifest.env_id),
            str(manifest.env_kwargs),
            manifest.mode,
            str(sorted(manifest.participant_args.items())),
        )
        found.setdefault(key, []).append(label)
    return found


def _paired(recorded: Run, repeated: Run) -> Values:
    """Returns repeated minus recorded return per episode of the same seed, meaned over the tasks."""
    by_task = []
    for task, episodes in recorded.episodes.items():
        found = {episode.seed: episode for episode in repeated.episodes.get(task, [])}
        pairs = [(episode, found[episode.seed]) for episode in episodes if episode.seed in found]
        by_task.append(np.array([after.episode_return - before.episode_return for before, after in pairs]))
    count = min(map(len, by_task), default=0)
    return np.mean([values[:count] for values in by_task], axis=0) if count else np.empty(0)


def _interval(after: Values, before: Values, confidence: float) -> tuple[float, float]:
    """Returns the interval of the difference of two means."""
    if after.size + before.size <= _MOST_PERMUTED:
        found = difference([(after, before)], confidence=confidence)
        return (-math.inf if found.low is None else found.low), (math.inf if found.high is None else found.high)
    error = math.sqrt(float(after.var(ddof=1)) / after.size + float(before.var(ddof=1)) / before.size)
    half = statistics.NormalDist().inv_cdf(0.5 + confidence / 2.0) * error
    return float(after.mean() - before.mean()) - half, float(after.mean() - before.mean()) + half


def _compared(
    unit: Unit, before: Values, after: Values, low: float, high: float, confidence: float, margin: float
) -> ReturnComparison:
    """Returns the record of a comparison; an infinite end is unknown."""
    return ReturnComparison(
        unit=unit,
        recorded=float(before.mean()),
        repeated=float(after.mean()),
        recorded_n=before.size,
        repeated_n=after.size,
        low=low if math.isfinite(low) else None,
        high=high if math.isfinite(high) else None,
        confidence=confidence,
        margin=margin,
    )
