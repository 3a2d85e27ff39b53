"""Verdicts: the t distribution, the three outcomes, corrections, lost runs, and what more seeds would do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from a2perf.rlops.compare.student import student_cdf, student_quantile
from a2perf.rlops.compare.verdict import Tolerance, Verdict, corrected, further_seeds, judge, overall

NONE = Tolerance(0.0, 0.0)


@pytest.mark.parametrize("freedom", [0.7, 1.0, 1.3, 2.0, 3.7, 10.0, 100.0, 1e6])
def test_t_distribution_is_that_of_scipy(freedom: float) -> None:
    for probability in (0.025, 0.5, 0.6, 0.975, 0.995, 0.99999):
        quantile = student_quantile(probability, freedom)
        assert quantile == pytest.approx(float(stats.t.ppf(probability, freedom)), rel=1e-8, abs=1e-12)
        assert student_cdf(quantile, freedom) == pytest.approx(probability, rel=1e-9)


def test_interval_and_chance_are_those_of_welchs_test() -> None:
    rng = np.random.default_rng(3)
    candidate, baseline = 9 + rng.standard_normal(4), 10 + 3 * rng.standard_normal(7)
    found = judge("A", candidate, baseline, NONE)
    test = stats.ttest_ind(candidate, baseline, equal_var=False, alternative="less")
    both = stats.ttest_ind(candidate, baseline, equal_var=False).confidence_interval(0.95)
    assert found.p_regression == pytest.approx(float(test.pvalue), rel=1e-9)
    assert (found.low, found.high) == (pytest.approx(float(both.low)), pytest.approx(float(both.high)))
    assert found.difference == pytest.approx(candidate.mean() - baseline.mean())


@pytest.mark.parametrize(
    ("candidate", "verdict"),
    [([99, 100, 101], Verdict.PASS), ([140, 150, 160], Verdict.PASS), ([50, 51, 52], Verdict.REGRESSION),
     ([92, 100, 108], Verdict.INCONCLUSIVE)],
)  # fmt: skip
def test_three_outcomes(candidate: list[float], verdict: Verdict) -> None:
    found = judge("A", candidate, [100, 101, 99], Tolerance(0.05))
    assert found.tolerance == pytest.approx(5.0)
    assert found.verdict is verdict
    assert (found.further_seeds is not None) == (verdict is Verdict.INCONCLUSIVE)


def test_larger_tolerance_counts_and_negative_scores_have_one() -> None:
    assert Tolerance(0.1, 3.0).of(-100.0) == 10.0
    assert Tolerance(0.1, 30.0).of(-100.0) == 30.0
    assert judge("A", [-103, -104, -105], [-100, -101, -99], Tolerance(0.1)).verdict is Verdict.PASS


def test_less_can_be_better() -> None:
    worse = judge("A", [9, 9.1, 9.2], [4, 4.1, 4.2], NONE, higher_is_better=False)
    assert worse.verdict is Verdict.REGRESSION
    assert worse.difference == pytest.approx(-5.0)
    assert judge("A", [9, 9.1, 9.2], [4, 4.1, 4.2], NONE).verdict is Verdict.PASS


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_three_seeds_tell_nothing(count: int) -> None:
    found = judge("A", [1.0, 1.1][:count], [100, 101, 102, 103], NONE)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.further_seeds == 3 - count
    assert f"n={count}, needs 3" in found.reason


def test_lost_runs_never_pass_but_a_regression_stays_one() -> None:
    good, baseline = [110, 111, 112], [100, 101, 99]
    assert judge("A", good, baseline, NONE).verdict is Verdict.PASS
    diverged = judge("A", [*good, float("nan")], baseline, NONE)
    assert diverged.verdict is Verdict.INCONCLUSIVE
    assert diverged.reason == "1 of 4 runs of the candidate failed or diverged"
    assert judge("A", good, baseline, NONE, failed=2).candidate.lost == 2
    assert judge("A", good, baseline, NONE, failed=2).verdict is Verdict.INCONCLUSIVE
    assert judge("A", [1, 2, float("inf"), 1.5], baseline, NONE).verdict is Verdict.REGRESSION
    assert judge("A", good, [*baseline, float("nan")], NONE).verdict is Verdict.PASS


def test_runs_that_are_all_alike() -> None:
    assert judge("A", [500] * 3, [500] * 3, NONE).verdict is Verdict.PASS
    assert judge("A", [501] * 3, [500] * 3, NONE).verdict is Verdict.PASS
    # three and three that fall apart by chance do so once in 20 times, four and four once in 70
    split = judge("A", [9] * 3, [500] * 3, NONE)
    assert (split.verdict, split.p_regression) == (Verdict.INCONCLUSIVE, pytest.approx(1 / 20))
    assert judge("A", [9] * 4, [500] * 4, NONE).verdict is Verdict.REGRESSION
    assert judge("A", [0.1 + 0.2] * 3, [0.1 + 0.2] * 3, NONE).verdict is Verdict.PASS


def test_holm_takes_back_what_is_only_just_significant() -> None:
    rng = np.random.default_rng(5)
    good = [judge(f"E{i}", 100 + rng.standard_normal(5), 100 + rng.standard_normal(5), NONE) for i in range(9)]
    candidates = (judge("bad", 100 - shift + 2 * np.arange(5), 100 + 2 * np.arange(5), NONE) for shift in range(1, 60))
    weak = next(item for item in candidates if item.verdict is Verdict.REGRESSION)
    assert corrected([weak]) == [weak]
    taken = corrected([*good, weak])[-1]
    assert taken.verdict is Verdict.INCONCLUSIVE
    assert "after correction for 10" in taken.reason
    assert 1 <= (taken.further_seeds or 0) <= 60
    strong = judge("bad", 50 + np.arange(5), 100 + np.arange(5), NONE)
    assert corrected([*good, strong])[-1].verdict is Verdict.REGRESSION


def test_overall_is_the_worst() -> None:
    good, bad = judge("A", [1, 1, 1], [1, 1, 1], NONE), judge("B", [1, 2, 3], [91, 92, 93], NONE)
    open_ = judge("C", [1], [1, 1, 1], NONE)
    assert overall([good, good]) is Verdict.PASS
    assert overall([good, open_]) is Verdict.INCONCLUSIVE
    assert overall([good, open_, bad]) is Verdict.REGRESSION
    assert overall([]) is Verdict.INCONCLUSIVE


def test_seeds_that_are_said_to_settle_it_mostly_do() -> None:
    rng = np.random.default_rng(0)
    named = settled = 0
    while named < 60:
        candidate, baseline = 88 + 10 * rng.standard_normal(5), 100 + 10 * rng.standard_normal(5)
        found = judge("A", candidate, baseline, Tolerance(0.05))
        if found.verdict is Verdict.INCONCLUSIVE and found.further_seeds is not None:
            more = [mean + 10 * rng.standard_normal(found.further_seeds) for mean in (88, 100)]
            later = judge("A", [*candidate, *more[0]], [*baseline, *more[1]], Tolerance(0.05))
            named, settled = named + 1, settled + (later.verdict is not Verdict.INCONCLUSIVE)
    assert settled / named >= 0.75  # 88 % over many


def test_number_of_further_seeds_is_the_least_that_has_the_power() -> None:
    found = judge("A", np.linspace(80, 110, 8), np.linspace(90, 110, 8), Tolerance(0.0, 10.0))
    further = found.further_seeds
    assert further is not None
    chances = []
    for count in (8 + further - 1, 8 + further):
        parts = [(side.variance or 0.0) / count for side in (found.candidate, found.baseline)]
        freedom = sum(parts) ** 2 / sum(part**2 / (count - 1) for part in parts)
        now = sum((side.variance or 0.0) / 8 for side in (found.candidate, found.baseline)) ** 2 / sum(
            ((side.variance or 0.0) / 8) ** 2 / 7 for side in (found.candidate, found.baseline)
        )
        error = np.sqrt(sum(parts) * now / stats.chi2.ppf(0.2, now))
        needed = (stats.t.ppf(0.975, freedom) + stats.t.ppf(0.8, freedom)) * error
        chances.append(needed < abs((found.difference or 0.0) + 10.0))
    assert chances == [False, True]


def test_difference_just_at_the_tolerance_needs_more_seeds_than_are_worth_naming() -> None:
    found = judge("A", [80, 95, 110], [85, 100, 115], Tolerance(0.0, 5.0))
    assert further_seeds(found.candidate, found.baseline, 0.0) is None
    assert found.further_seeds is None
    assert "200 more seeds may not tell" in found.reason


def test_gate_is_honest_over_synthetic_experiments() -> None:
    """A small part of ``perf/verdicts.py``: three seeds, three environments, a fifth of the seeds fails."""
    rng = np.random.default_rng(0)

    def draw() -> np.ndarray:
        return np.where(rng.random(3) < 0.2, 80.0, 105.0) + 2.5 * rng.standard_normal(3)

    called = found = 0
    for _ in range(150):
        called += overall(corrected([judge("A", draw(), draw(), Tolerance()) for _ in range(3)])) is Verdict.REGRESSION
        losses = (70.0, 0.0, 0.0)
        judged = corrected([judge("A", draw() - loss, draw(), Tolerance()) for loss in losses])
        found += overall(judged) is Verdict.REGRESSION
    assert called / 150 <= 0.05
    assert found / 150 >= 0.7  # 80.6 % over 1,000
