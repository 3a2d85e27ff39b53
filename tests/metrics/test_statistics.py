"""Statistics against plain definitions, and bootstrap intervals: reproducible, and covering what they promise."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from a2perf.metrics.bootstrap import (
    aggregate_iqm,
    aggregate_mean,
    bootstrap,
    mean_interval,
    performance_profile,
    probability_of_improvement,
    profile_values,
)
from a2perf.metrics.statistics import (
    cvar,
    iqm,
    iqr,
    mad,
    ranks,
    std,
)
from tests.metrics import plain_reliability as plain

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30)


@given(NUMBERS)
def test_dispersion_equals_its_plain_definition(values: list[float]) -> None:
    assert iqr(values) == pytest.approx(plain.iqr(values), rel=1e-9, abs=1e-6)
    assert mad(values) == pytest.approx(plain.mad(values), rel=1e-9, abs=1e-6)
    assert std(values) == pytest.approx(plain.std(values), rel=1e-9, abs=1e-6)


@given(NUMBERS)
def test_tails_lie_beyond_their_quantile(values: list[float]) -> None:
    low, high = cvar(values, 0.05, "lower"), cvar(values, 0.05, "upper")
    slack = 1e-9 * max(1.0, max(abs(v) for v in values))
    assert min(values) - slack <= low <= np.percentile(values, 5) + slack
    assert np.percentile(values, 95) - slack <= high <= max(values) + slack
    assert cvar(np.negative(values), 0.05, "lower") == pytest.approx(-high, rel=1e-9, abs=1e-6)


@given(st.integers(2, 12), st.integers(0, 10_000))
def test_quantiles_along_an_axis_are_those_of_numpy(length: int, seed: int) -> None:
    matrix = np.random.default_rng(seed).normal(size=(length, 6)).round(2)
    low, high = np.percentile(matrix, (25, 75), axis=0)
    np.testing.assert_array_equal(iqr(matrix, axis=0), high - low)
    middle = np.median(np.abs(matrix - np.median(matrix, axis=0)), axis=0)
    np.testing.assert_allclose(mad(matrix, axis=0), middle, rtol=1e-14, atol=1e-15)


def test_cvar_keeps_its_tail_when_neighbours_are_equal() -> None:
    values = np.array([0.1 + 0.2] * 7 + [0.3])
    assert cvar(values, 0.05, "lower") == pytest.approx(0.3)
    assert cvar(np.full(5, 1 / 3), 0.05, "upper") == pytest.approx(1 / 3)


def test_cvar_refuses_a_tail_that_is_none() -> None:
    for alpha in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="alpha"):
            cvar([1.0, 2.0], alpha)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40))
def test_interquartile_mean_cuts_a_quarter_at_each_end(values: list[float]) -> None:
    cut = len(values) // 4
    middle = sorted(values)[cut : len(values) - cut]
    assert iqm(values) == pytest.approx(sum(middle) / len(middle), rel=1e-9, abs=1e-9)


def test_interquartile_mean_of_runs_and_tasks_together() -> None:
    scores = np.random.default_rng(1).normal(size=(6, 10, 4))
    before = scores.copy()
    np.testing.assert_allclose(aggregate_iqm(scores), [iqm(one.ravel()) for one in scores], rtol=1e-12)
    np.testing.assert_array_equal(scores, before)


def test_ranks_share_ties_and_put_nan_last() -> None:
    assert ranks([3.0, 5.0, 5.0, 1.0]).tolist() == [3, 1.5, 1.5, 4]
    assert ranks([3.0, 5.0, math.nan], best="min").tolist() == [1, 2, 3]
    assert ranks([[1.0, 9.0], [2.0, 8.0]]).tolist() == [[2, 1], [1, 2]]


# --- bootstrap --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["percentile", "small"])
def test_same_seed_gives_the_same_bits(method: str) -> None:
    scores = np.random.default_rng(0).normal(size=(10, 3))
    np.random.seed(1)
    first = bootstrap(scores, repetitions=700, method=method, seed=5)  # type: ignore[arg-type]
    np.random.seed(2)
    again = bootstrap(scores, repetitions=700, method=method, seed=5)  # type: ignore[arg-type]
    assert first == again
    assert bootstrap(scores, repetitions=700, method=method, seed=6) != first  # type: ignore[arg-type]
    assert first.low < first.value < first.high
    assert (first.n, first.tasks, first.repetitions) == (10, 3, 700)


def test_interval_of_a_mean_is_that_of_theory() -> None:
    values = np.random.default_rng(3).normal(size=200)
    found = bootstrap(values, aggregate_mean, repetitions=20_000)
    half = 1.96 * values.std() / math.sqrt(200)
    assert found.high - found.value == pytest.approx(half, rel=0.05)
    assert found.value - found.low == pytest.approx(half, rel=0.05)


def test_resampling_stays_within_tasks() -> None:
    scores = np.tile([0.0, 100.0, 7.0], (6, 1))
    for aggregate in (aggregate_mean, aggregate_iqm):
        found = bootstrap(scores, aggregate, repetitions=200)
        assert found.low == found.high == pytest.approx(found.value)


def test_one_run_has_no_interval_and_bad_scores_are_refused() -> None:
    single = bootstrap([[1.0, 2.0]])
    assert (single.value, single.low, single.high, single.n) == (1.5, None, None, 1)
    for bad in ([], [[math.nan]], np.zeros((2, 2, 2))):
        with pytest.raises(ValueError, match=r"shape|NaN"):
            bootstrap(bad)
    with pytest.raises(ValueError, match="method"):
        bootstrap([1.0, 2.0], method="exact")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="confidence"):
        bootstrap([1.0, 2.0], confidence=95)


def test_performance_profile_counts_what_exceeds_each_threshold() -> None:
    scores = np.random.default_rng(6).normal(size=(8, 5)).round(1)
    thresholds = np.linspace(-2, 2, 41)
    found = performance_profile(scores, thresholds, repetitions=300)
    np.testing.assert_allclose(found.value, [(scores > t).mean() for t in thresholds])
    assert all(low <= value <= high for low, value, high in zip(found.low, found.value, found.high, strict=True))
    stacked = profile_values(np.stack([scores, scores + 1]), thresholds)
    np.testing.assert_allclose(stacked[1], [(scores + 1 > t).mean() for t in thresholds])
    with pytest.raises(ValueError, match="increasing"):
        performance_profile(scores, [1.0, 0.0])


def test_probability_of_improvement_counts_pairs_and_half_ties() -> None:
    first, second = np.array([[1.0], [2.0], [3.0]]), np.array([[2.0], [2.0]])
    wins = [(a > b) + 0.5 * (a == b) for a in (1, 2, 3) for b in (2, 2)]
    found = probability_of_improvement(first, second, repetitions=500)
    assert found.value == pytest.approx(np.mean(wins))
    assert (found.low, found.high) == (None, None)  # fewer than ten runs
    many = probability_of_improvement(np.arange(10.0), np.arange(10.0) + 2.5, repetitions=500)
    assert many.low <= many.value <= many.high
    other = probability_of_improvement(second, first, repetitions=500)
    assert found.value + other.value == pytest.approx(1.0)
    with pytest.raises(ValueError, match="tasks"):
        probability_of_improvement(first, np.zeros((3, 2)))


# --- coverage ---------------------------------------------------------------------------------------------------------

DRAWS: dict[str, tuple[Callable[..., np.ndarray], float]] = {
    "normal": (lambda g, size: g.normal(size=size), 0.0),
    "gamma, skewness 1": (lambda g, size: g.gamma(4.0, size=size), 4.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", DRAWS)
def test_interval_of_the_interquartile_mean_over_tasks_covers_it(kind: str) -> None:
    draw, _ = DRAWS[kind]
    truth = iqm(draw(np.random.default_rng(0), 4_000_000))
    covered = 0
    for trial in range(1500):
        scores = draw(np.random.default_rng([8, trial]), (10, 26))
        found = bootstrap(scores, repetitions=1000, seed=trial)
        covered += found.low <= truth <= found.high
    assert 0.92 <= covered / 1500 <= 0.975


def test_small_sample_interval_is_wider_than_the_percentile_one() -> None:
    values = np.random.default_rng(9).normal(size=6)
    low, high = mean_interval(values)
    narrow = bootstrap(values, aggregate_mean, repetitions=20_000)
    assert low < narrow.low < narrow.high < high
    student = stats.t.interval(0.95, 5, values.mean(), values.std(ddof=1) / np.sqrt(6))
    assert low <= student[0] + 1e-12
    assert high >= student[1] - 1e-12
    of_resamples = bootstrap(values, aggregate_mean, repetitions=20_000, method="small")
    assert (of_resamples.low, of_resamples.high) == (pytest.approx(low, abs=0.05), pytest.approx(high, abs=0.05))


def test_small_sample_interval_takes_out_the_skewness() -> None:
    symmetric = mean_interval(np.array([-2.0, -1.0, 0.0, 1.0, 2.0]))
    assert symmetric == pytest.approx(stats.t.interval(0.95, 4, 0.0, np.sqrt(0.5)))
    skewed = np.array([1.0, 1.1, 1.2, 1.3, 5.0])
    low, high = mean_interval(skewed)
    plain = stats.t.interval(0.95, 4, skewed.mean(), skewed.std(ddof=1) / np.sqrt(5))
    assert low == pytest.approx(plain[0])
    assert high == pytest.approx(plain[1] + 0.3 * (plain[1] - skewed.mean()))  # no farther than 1.3 times
    mirrored = mean_interval(-skewed)
    assert mirrored == pytest.approx((-high, -low))
    # Hall's polynomial of the found statistic is the quantile again
    mild = np.array([1.0, 2.0, 3.0, 4.0, 5.5])
    error = mild.std(ddof=1) / np.sqrt(5)
    skew, statistic = stats.skew(mild, bias=False) / np.sqrt(5), (mild.mean() - mean_interval(mild)[1]) / error
    transformed = statistic + skew * statistic**2 / 3 + skew**2 * statistic**3 / 27 + skew / 6
    assert transformed == pytest.approx(-stats.t.ppf(0.975, 4))


@pytest.mark.parametrize(("successes", "count"), [(10, 10), (0, 3), (3, 5), (1, 10)])
def test_interval_of_successes_is_the_exact_one(successes: int, count: int) -> None:
    values = np.repeat([1.0, 0.0], [successes, count - successes])
    exact = stats.binomtest(successes, count).proportion_ci(0.95, "exact")
    assert mean_interval(values) == pytest.approx((exact.low, exact.high), abs=1e-10)


def test_equal_values_have_the_width_of_the_runs_that_were_not_seen() -> None:
    share = 1.0 - 0.025 ** (1.0 / 5.0)
    assert mean_interval(np.full(5, 500.0)) == pytest.approx((500 - 500 * share, 500 + 500 * share), abs=1e-10)
    alone = bootstrap(np.full(5, 500.0), repetitions=50, method="small")
    assert (alone.low, alone.high) == pytest.approx(mean_interval(np.full(5, 500.0)))


@pytest.mark.parametrize("runs", [3, 5, 10])
@pytest.mark.parametrize(
    ("draw", "truth", "least"),
    [
        (lambda g, size: g.normal(size=size), 0.0, 0.94),
        (lambda g, size: g.lognormal(0.0, 0.5, size), np.exp(0.125), 0.92),
        (lambda g, size: g.lognormal(0.0, 1.0, size), np.exp(0.5), 0.84),
    ],
    ids=["normal", "lognormal, sigma 0.5", "lognormal, sigma 1"],
)
def test_interval_of_few_runs_covers_the_mean(
    draw: Callable[..., np.ndarray], truth: float, least: float, runs: int
) -> None:
    """``perf/verdicts.py`` draws more: 96, 96, 96 %; 94, 93, 94 %; 86, 86, 88 %."""
    generator = np.random.default_rng([11, runs])
    ends = np.array([mean_interval(draw(generator, runs)) for _ in range(1500)])
    assert ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean() >= least


def test_interval_of_a_score_over_tasks_covers_it() -> None:
    generator, covered = np.random.default_rng(12), 0
    for trial in range(300):
        scores = np.arange(4) + generator.normal(size=(3, 4)) * [0.1, 1.0, 1.0, 2.0]
        found = bootstrap(scores, aggregate_mean, repetitions=300, method="small", seed=trial)
        covered += found.low <= 1.5 <= found.high
    assert covered / 300 >= 0.92
