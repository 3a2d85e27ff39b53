"""Formulas of the consistency of repeated episodes: outcomes, trajectories, resources, and pass^k.

Each function takes the repeats of one task. A task is one start of an episode: an environment with one episode seed. A
value that the data do not define is NaN. The definitions are those of arXiv 2602.16666; pass^k is that of Yao et al.
2024 (tau-bench), pass@k that of Chen et al. 2021.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from a2perf.arrays import Values

Distribution = Mapping[Hashable, float]
"""Probability, or count, of each action."""
T = TypeVar("T")


def outcome_consistency(successes: ArrayLike) -> float:
    """Returns (2p - 1)^2 of the successes (0 or 1) of one task, in [0, 1]; NaN without a repeat.

    It is 1 if all repeats agree, and 0 if half of them succeed.
    """
    outcomes = np.asarray(successes, np.float64)
    return math.nan if outcomes.size == 0 else (2.0 * float(outcomes.mean()) - 1.0) ** 2


def jensen_shannon_divergence(first: Distribution, second: Distribution) -> float:
    """Returns the Jensen-Shannon divergence to base 2, in [0, 1]; the divergence, not its square root.

    The probabilities or counts of each distribution are normalised to a sum of 1.

    Raises:
        ValueError: a distribution has no mass.
    """
    actions = list({**first, **second})
    p, q = (_normalised(given, actions) for given in (first, second))
    middle = 0.5 * (p + q)
    divergence = 0.5 * (_relative_entropy(p, middle) + _relative_entropy(q, middle))
    return min(max(divergence, 0.0), 1.0)  # rounding can leave the range by one unit in the last place


def _normalised(given: Distribution, actions: Sequence[Hashable]) -> Values:
    mass = np.array([float(given.get(action, 0.0)) for action in actions])
    if not mass.size or mass.min() < 0.0 or not mass.sum() > 0.0:
        raise ValueError("a distribution needs probabilities of 0 or more with a positive sum")
    return np.asarray(mass / mass.sum())


def _relative_entropy(p: Values, q: Values) -> float:
    there = p > 0.0
    return float(np.sum(p[there] * np.log2(p[there] / q[there])))


def edit_distance(first: Sequence[int], second: Sequence[int]) -> int:
    """Returns the Levenshtein distance of two sequences: the least number of insertions, deletions and substitutions.

    Takes O(n m) operations in n steps of NumPy.
    """
    a, b = np.asarray(first, np.int64), np.asarray(second, np.int64)
    if np.array_equal(a, b):
        return 0
    columns = np.arange(b.size + 1)
    row = columns.copy()
    for number, symbol in enumerate(a, start=1):
        following = np.empty_like(row)
        following[0] = number
        following[1:] = np.minimum(row[1:] + 1, row[:-1] + (b != symbol))
        # An insertion continues from the best entry to the left; without it, a running minimum replaces the inner loop.
        row = np.minimum.accumulate(following - columns) + columns
    return int(row[-1])


def normalised_edit_distance(first: Sequence[int], second: Sequence[int]) -> float:
    """Returns the edit distance divided by the length of the longer sequence, in [0, 1]; 0 for two empty ones."""
    longest = max(len(first), len(second))
    return edit_distance(first, second) / longest if longest else 0.0


def trajectory_consistency_distributions(distributions: Sequence[Sequence[Distribution]]) -> float:
    """Returns 1 minus the mean pairwise Jensen-Shannon divergence of successful repeats of one task, in [0, 1].

    Each repeat has an action distribution per dimension, one for discrete actions; the divergence of two repeats is the
    mean over dimensions. NaN with fewer than two repeats.
    """

    def divergence(first: Sequence[Distribution], second: Sequence[Distribution]) -> float:
        return float(np.mean([jensen_shannon_divergence(p, q) for p, q in zip(first, second, strict=True)]))

    return 1.0 - _mean_over_pairs(distributions, divergence)


def trajectory_consistency_sequences(sequences: Sequence[Sequence[int]]) -> float:
    """Returns 1 minus the mean pairwise normalised edit distance of the actions of successful repeats of one task.

    In [0, 1]; NaN with fewer than two repeats.
    """
    return 1.0 - _mean_over_pairs(sequences, normalised_edit_distance)


def _mean_over_pairs(items: Sequence[T], distance: Callable[[T, T], float]) -> float:
    pairs = [distance(first, second) for first, second in itertools.combinations(items, 2)]
    return float(np.mean(pairs)) if pairs else math.nan


def coefficient_of_variation(values: ArrayLike) -> float:
    """Returns the standard deviation (ddof 1) divided by the mean; NaN with fewer than two values or a mean of 0."""
    given = np.asarray(values, np.float64)
    if given.size < 2 or given.mean() == 0.0:
        return math.nan
    # Equal values can have a standard deviation of one rounding error.
    return 0.0 if np.ptp(given) == 0.0 else float(given.std(ddof=1) / abs(given.mean()))


def resource_consistency(resources: Mapping[str, ArrayLike]) -> float:
    """Returns exp(-mean coefficient of variation) over the resources of one task, in [0, 1].

    Each resource (cost, time, number of actions) has one use per repeat. A resource without a coefficient of variation
    does not count. NaN if none has one.
    """
    found = [coefficient_of_variation(values) for values in resources.values()]
    known = [value for value in found if math.isfinite(value)]
    return math.exp(-float(np.mean(known))) if known else math.nan


def robustness(accuracy_under_perturbation: float, accuracy: float) -> float:
    """Returns min(accuracy under perturbation / accuracy, 1); NaN for an accuracy of 0."""
    return math.nan if accuracy == 0.0 else min(accuracy_under_perturbation / accuracy, 1.0)


def pass_all_k(successes: int, repeats: int, k: int) -> float:
    """Returns the unbiased estimate C(c, k) / C(n, k) of pass^k of one task: all of k repeats succeed.

    NaN with fewer than k repeats.
    """
    return math.nan if k > repeats else math.comb(successes, k) / math.comb(repeats, k)


def pass_at_k(successes: int, repeats: int, k: int) -> float:
    """Returns the unbiased estimate 1 - C(n - c, k) / C(n, k) of pass@k of one task: one of k repeats succeeds."""
    return math.nan if k > repeats else 1.0 - math.comb(repeats - successes, k) / math.comb(repeats, k)


def mean_over_tasks(values: ArrayLike) -> float:
    """Returns the mean over the tasks with a value; NaN without one."""
    given: NDArray[np.float64] = np.asarray(values, np.float64)
    known = given[~np.isnan(given)]
    return float(known.mean()) if known.size else math.nan
