"""Time to a result: one score over many workloads from the times at which submissions reached their targets.

The construction of MLCommons' AlgoPerf (Dahl et al. 2023, "Benchmarking Neural Network Training Algorithms",
section 5) on performance profiles (Dolan and Moré 2002): the performance ratio of a submission on a workload is its
time divided by the shortest time of any submission, the profile rho(tau) is the share of workloads with a ratio of at
most tau, and the score is the normalised integral of rho from 1 to ``R_MAX``. Times may be seconds, samples or joules.

Arrays end in ``(submissions, workloads)``, or in ``(submissions, workloads, studies)``. Infinity stands for a target
that was not reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from a2perf.arrays import Values
from a2perf.metrics.bootstrap import freedom_of_sum, resample, small_sample_interval
from a2perf.metrics.statistics import chunk_sizes

R_MAX = 4.0
"""Performance ratio from which on a workload adds nothing to a score."""
GRID_POINTS = 100
"""Points of the trapezoid rule behind the scores that AlgoPerf publishes."""
REPETITIONS = 2000
CONFIDENCE = 0.95
_MOST_DRAWN = 20_000_000  # times in memory at once


@dataclass(frozen=True)
class ScoreRules:
    """How times become scores; the defaults are those of AlgoPerf's published scores.

    Attributes:
        r_max: upper end of the integral, above 1.
        points: equally spaced points of the trapezoid rule; None for the exact integral of the step function. The two
            differ by at most ``1 / (2 * (points - 1))``.
        held_out: name of a held-out variant -> name of its base workload.
        count_held_out: count the variants as workloads too; by default they only gate their base workloads.
        held_out_limit: with held-out variants, a time beyond this multiple of the shortest time of its workload counts
            as not reached before the variants gate; None for no limit.
    """

    r_max: float = R_MAX
    points: int | None = GRID_POINTS
    held_out: Mapping[str, str] = field(default_factory=dict)
    count_held_out: bool = False
    held_out_limit: float | None = R_MAX

    def __post_init__(self) -> None:
        if not (np.isfinite(self.r_max) and self.r_max > 1.0):
            raise ValueError(f"r_max is {self.r_max}; it must be a finite number above 1")
        if self.points is not None and self.points < 2:
            raise ValueError(f"points is {self.points}; it must be at least 2, or None for the exact integral")
        if self.held_out_limit is not None and not self.held_out_limit >= 1.0:
            raise ValueError(f"held_out_limit is {self.held_out_limit}; it must be at least 1, or None")


class ResultScore(msgspec.Struct, kw_only=True, frozen=True):
    """The score of one submission.

    Attributes:
        score: in [0, 1], by ``ScoreRules.points``.
        exact: the exact integral of the step function, in [0, 1].
        low: lower end of the 95 % interval of ``score`` over studies; None with one study.
        ratios: performance ratio by counted workload, None if it does not count: not reached, or a held-out variant
            was not reached.
    """

    submission: str
    score: float
    exact: float
    low: float | None = None
    high: float | None = None
    ratios: dict[str, float | None]


def median_time(times: ArrayLike) -> Values:
    """Returns the median over the last axis, the studies; a study that did not reach the target counts as infinity.

    With an even number of studies it is the mean of the middle two, and infinity if one of these is.
    """
    return np.asarray(np.median(np.asarray(times, np.float64), axis=-1))


def gated(times: ArrayLike, gates: Mapping[int, Sequence[int]], limit: float | None = R_MAX) -> Values:
    """Returns the times with infinity on each base workload that has a held-out variant that was not reached.

    ``gates`` maps the column of a base workload to those of its held-out variants; without any nothing changes. The
    limit is that of ``ScoreRules.held_out_limit`` and applies first.
    """
    values = np.array(times, np.float64)
    if not gates:
        return values
    if limit is not None:
        with np.errstate(over="ignore"):
            values[values > limit * values.min(axis=-2, keepdims=True)] = np.inf
    for base, variants in gates.items():
        failed = np.isinf(values[..., list(variants)]).any(axis=-1)
        values[..., base][failed] = np.inf
    return values


def performance_ratios(times: ArrayLike) -> Values:
    """Returns each time divided by the shortest one of its workload: 1 for the fastest, infinity if not reached."""
    values = np.asarray(times, np.float64)
    best = values.min(axis=-2, keepdims=True)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(np.isinf(values), np.inf, values / best)


def profile_score(ratios: ArrayLike, r_max: float = R_MAX, points: int | None = GRID_POINTS) -> Values:
    """Returns the normalised integral of the performance profile from 1 to ``r_max``, shape ``(..., submissions)``.

    A workload that no submission solved has no finite ratio, and lowers the scores of all.
    """
    return np.asarray(workload_scores(ratios, r_max, points).mean(axis=-1))


def workload_scores(ratios: ArrayLike, r_max: float = R_MAX, points: int | None = GRID_POINTS) -> Values:
    """Returns what each workload adds to a score: the integral of its step of the profile, in [0, 1]."""
    values = np.asarray(ratios, np.float64)
    if points is None:
        # The integral of a step from its ratio to r_max is the distance between the two.
        return np.asarray(np.maximum((r_max - values) / (r_max - 1.0), 0.0))
    grid = np.linspace(1.0, r_max, points)
    # The trapezoid rule gives each point the weight 1, and the two end points one half.
    weights = np.ones(points)
    weights[[0, -1]] = 0.5
    from_point = np.append(np.cumsum(weights[::-1])[::-1], 0.0) / (points - 1)
    return np.asarray(from_point[np.searchsorted(grid, values, side="left")])


def score_times(
    times: ArrayLike,
    submissions: Sequence[str],
    workloads: Sequence[str],
    rules: ScoreRules | None = None,
    *,
    repetitions: int = REPETITIONS,
) -> list[ResultScore]:
    """Scores submissions by their times to the target.

    The studies of each submission on each workload are resampled, and all scores are computed again, because the
    fastest submission of a resample may be another one. The interval is that for few runs
    (``bootstrap.small_sample_interval``): noisy times make the shortest one shorter, which lowers the scores of the
    resamples, and a percentile interval of them can miss the score itself.

    Args:
        times: above zero, infinity if not reached; shape ``(submissions, workloads)``, or ``(submissions, workloads,
            studies)`` with infinity for a study that was not finished.
        workloads: their names, held-out variants included.
        rules: by default those of AlgoPerf, without held-out variants.
        repetitions: resamples.

    Raises:
        ValueError: shape and names do not match, or a held-out variant or its base is not among the workloads.
    """
    rules = rules or ScoreRules()
    values = np.asarray(times, np.float64)
    values = values[..., None] if values.ndim == 2 else values
    if values.shape[:2] != (len(submissions), len(workloads)) or values.ndim != 3 or values.size == 0:
        raise ValueError(
            f"times have shape {np.shape(times)} for {len(submissions)} submissions and {len(workloads)} workloads"
        )
    counted, gates = _columns(workloads, rules)

    def ratios_of(medians: Values) -> Values:
        return performance_ratios(gated(medians, gates, rules.held_out_limit)[..., counted])

    ratios = ratios_of(median_time(values))
    scores = profile_score(ratios, rules.r_max, rules.points)
    exact = profile_score(ratios, rules.r_max, None)
    ends = _intervals(values, scores, ratios_of, rules, repetitions)
    return [
        ResultScore(
            submission=name,
            score=float(scores[row]),
            exact=float(exact[row]),
            low=None if ends is None else ends[row][0],
            high=None if ends is None else ends[row][1],
            ratios={
                workloads[column]: float(ratio) if np.isfinite(ratio) else None
                for column, ratio in zip(counted, ratios[row], strict=True)
            },
        )
        for row, name in enumerate(submissions)
    ]


def _columns(workloads: Sequence[str], rules: ScoreRules) -> tuple[list[int], dict[int, list[int]]]:
    """Returns the columns of the workloads that count, and those of the held-out variants by their base workload."""
    places = {name: place for place, name in enumerate(workloads)}
    if len(places) < len(workloads):
        raise ValueError("two workloads have the same name")
    gates: dict[int, list[int]] = {}
    for variant, base in rules.held_out.items():
        for name in (variant, base):
            if name not in places:
                raise ValueError(f"held-out variant {variant!r} of {base!r}: {name!r} is not a workload")
        if base in rules.held_out:
            raise ValueError(f"held-out variant {variant!r} of {base!r}, which is a held-out variant itself")
        gates.setdefault(places[base], []).append(places[variant])
    return [place for name, place in places.items() if rules.count_held_out or name not in rules.held_out], gates


def _intervals(
    values: Values, scores: Values, ratios_of: Callable[[Values], Values], rules: ScoreRules, repetitions: int
) -> list[tuple[float, float]] | None:
    """Returns the interval of each score; None with one study."""
    submissions, workloads, studies = values.shape
    if studies < 2:
        return None
    generator = np.random.default_rng(0)
    cells = submissions * workloads
    columns = np.ascontiguousarray(values.reshape(cells, studies).T)
    means = []
    total: Values | float = 0.0
    squares: Values | float = 0.0
    for size in chunk_sizes(repetitions, min(512, max(1, _MOST_DRAWN // values.size))):
        samples = resample(columns, size, generator)
        medians = median_time(np.moveaxis(samples, 1, -1)).reshape(size, submissions, workloads)
        drawn = workload_scores(ratios_of(medians), rules.r_max, rules.points)
        means.append(drawn.mean(axis=-1))
        total, squares = total + drawn.sum(axis=0), squares + (drawn**2).sum(axis=0)
    sample = np.concatenate(means)  # (repetitions, submissions)
    variances = np.maximum(squares / repetitions - (total / repetitions) ** 2, 0.0)
    ends = []
    for row in range(submissions):
        freedom = freedom_of_sum(variances[row], studies)
        low, high = small_sample_interval(sample[:, row], scores[row], studies, freedom, CONFIDENCE)
        ends.append((max(0.0, float(low)), min(1.0, float(high))))
    return ends
