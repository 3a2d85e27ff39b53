"""Verdicts: the t distribution, the three outcomes, corrections, lost runs, and what more seeds would do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from a2perf.metrics.statistics import student_cdf, student_quantile
from a2perf.rlops.compare import exact
from a2perf.rlops.compare.more_seeds import seeds_to_settle
from a2perf.rlops.compare.verdict import (
    Tolerance,
    Verdict,
    corrected,
    judge,
    overall,
    pooled_chance,
    pooled_level,
)

NONE = Tolerance(0.0, 0.0, unseen=1.0)
"""Any loss counts, and the spread at hand is believed to be the whole one."""


@pytest.mark.parametrize("freedom", [0.7, 1.0, 1.3, 2.0, 3.7, 10.0, 100.0, 1e6])
def test_t_distribution_is_that_of_scipy(freedom: float) -> None:
    for probability in (0.025, 0.5, 0.6, 0.975, 0.995, 0.99999):
        quantile = student_quantile(probability, freedom)
        assert quantile == pytest.approx(float(stats.t.ppf(probability, freedom)), rel=1e-8, abs=1e-12)
        assert student_cdf(quantile, freedom) == pytest.approx(probability, rel=1e-9)


def test_chance_is_that_of_welchs_test_and_the_interval_holds_its_interval() -> None:
    rng = np.random.default_rng(3)
    candidate, baseline = 9 + rng.standard_normal(4), 10 + 3 * rng.standard_normal(7)
    found = judge("A", candidate, baseline, NONE)
    test = stats.ttest_ind(candidate, baseline, equal_var=False, alternative="less")
    both = stats.ttest_ind(candidate, baseline, equal_var=False).confidence_interval(0.95)
    assert found.p_regression == pytest.approx(float(test.pvalue), rel=1e-9)
    assert found.low <= float(both.low) + 1e-9
    assert found.high >= float(both.high) - 1e-9
    assert found.difference == pytest.approx(candidate.mean() - baseline.mean())


def test_larger_tolerance_counts_and_negative_scores_have_one() -> None:
    assert Tolerance(0.1, 3.0).of(-100.0) == 10.0
    assert Tolerance(0.1, 30.0).of(-100.0) == 30.0
    found = judge("A", [-103, -104, -105], [-100, -101, -99], Tolerance(0.1, unseen=1.0))
    assert (found.verdict, found.further_seeds) == (Verdict.PASS, None)


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


def test_constant_scores_that_fall_apart_are_a_verdict() -> None:
    # three and three fall apart by chance once in 64 times at most, four and four once in 256
    split = judge("A", [200] * 3, [500] * 3, Tolerance())
    assert (split.verdict, split.p_regression, split.further_seeds) == (Verdict.INCONCLUSIVE, 1 / 64, None)
    # five and five do once in 1024 times, less than the share of one look
    assert judge("A", [200] * 5, [500] * 5, Tolerance()).sign == "worse"
    more = judge("A", [200] * 6, [500] * 6, Tolerance())
    assert (more.verdict, more.p_regression) == (Verdict.REGRESSION, 1 / 4096)
    assert judge("A", [480] * 3, [500] * 3, Tolerance()).verdict is Verdict.INCONCLUSIVE
    assert judge("A", [200] * 2, [500] * 2, Tolerance()).verdict is Verdict.INCONCLUSIVE
    better = judge("A", [200] * 6, [500] * 6, Tolerance(unseen=1.0), higher_is_better=False)
    assert better.verdict is Verdict.PASS


def test_constant_scores_that_agree_pass_with_enough_seeds_only() -> None:
    few = judge("A", [500] * 5, [500] * 5, Tolerance())
    assert (few.verdict, few.further_seeds_low, few.further_seeds) == (Verdict.INCONCLUSIVE, None, None)
    assert few.reason.endswith("5 seeds may not show that 20% of them fail: a PASS needs 17, 12 more if all are alike")
    assert judge("A", [500] * 17, [500] * 3, Tolerance()).verdict is Verdict.PASS
    assert judge("A", [500] * 6, [500] * 3, Tolerance(unseen=0.5)).verdict is Verdict.PASS
    assert judge("A", [0.1 + 0.2] * 3, [0.1 + 0.2] * 3, NONE).verdict is Verdict.PASS


@pytest.mark.parametrize(("share", "seeds"), [(1.0, 1), (0.5, 6), (0.3, 11), (0.2, 17), (0.1, 36)])
def test_seeds_of_a_pass_show_one_failure(share: float, seeds: int) -> None:
    assert exact.seeds_that_show(share, 0.025) == seeds
    assert (1 - share) ** seeds <= 0.025
    assert share == 1.0 or (1 - share) ** (seeds - 1) > 0.025


@pytest.mark.parametrize(("seeds", "power"), [(5, 0.0), (10, 0.40), (20, 0.84)])
def test_successes_and_failures_are_counted(seeds: int, power: float) -> None:
    """Every outcome of every success rate: false alarms without a loss and at the tolerance, and power (0.9 to 0.3)."""

    def verdict(ours: int, theirs: int) -> Verdict:
        scores = [[1.0] * count + [0.0] * (seeds - count) for count in (ours, theirs)]
        return judge("A", *scores, Tolerance(unseen=1.0), further=False).verdict

    verdicts = np.array([[verdict(ours, theirs) for theirs in range(seeds + 1)] for ours in range(seeds + 1)])

    def chance(of: Verdict, candidate: float, baseline: float) -> float:
        successes = np.arange(seeds + 1)
        table = np.outer(stats.binom.pmf(successes, seeds, candidate), stats.binom.pmf(successes, seeds, baseline))
        return float(table[verdicts == of].sum())

    rates = np.linspace(0.0, 1.0, 41)
    assert max(chance(Verdict.REGRESSION, rate, rate) for rate in rates) <= 0.025
    assert max(chance(Verdict.REGRESSION, 0.95 * rate, rate) for rate in rates) <= 0.03
    assert chance(Verdict.REGRESSION, 0.3, 0.9) >= power


def test_exact_chances_are_those_of_counting() -> None:
    low, high = exact.chances(4, 5, 0.0)
    assert low[0, 5] == pytest.approx(exact.chance_of_split(4, 5), rel=1e-3)
    assert high[4, 0] == pytest.approx(low[0, 5])
    assert low[4, 0] == pytest.approx(1.0)
    # the one-sided level of Barnard's test in SciPy, which orders outcomes by the pooled instead of the separate spread
    assert low[0, 4] == pytest.approx(float(stats.barnard_exact([[0, 4], [4, 1]], alternative="less").pvalue), abs=0.01)


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


def test_small_losses_on_every_environment_are_a_regression_together() -> None:
    baseline = np.array([90.0, 95, 100, 105, 110])
    weak = [judge(f"E{at}", baseline - 12 - at, baseline, Tolerance()) for at in range(5)]
    assert {item.verdict for item in weak} == {Verdict.INCONCLUSIVE}
    chances = [item.p_regression for item in weak]
    together = pooled_chance(weak)
    assert together == pytest.approx(float(stats.combine_pvalues(chances, method="stouffer").pvalue), rel=1e-6)
    assert together is not None
    assert together <= pooled_level(weak) == pytest.approx(0.12 * 0.04)
    assert overall(weak) is Verdict.REGRESSION
    assert overall(weak, candidates=100_000) is Verdict.INCONCLUSIVE
    assert pooled_chance(weak[:1]) is None
    assert pooled_chance([judge("A", [1, 2], [3, 4], NONE)] * 3) is None


def test_gain_or_ceiling_on_one_environment_hides_no_loss_on_others() -> None:
    baseline = np.array([90.0, 95, 100, 105, 110])
    weak = [judge(f"E{at}", baseline - 18, baseline, Tolerance()) for at in range(5)]
    gain = judge("gain", baseline + 1000, baseline, Tolerance())
    ceiling = judge("ceiling", [500] * 5, [500] * 5, Tolerance())
    assert overall(corrected([*weak, gain])) is Verdict.REGRESSION
    assert overall(corrected([*weak, ceiling, ceiling])) is Verdict.REGRESSION
    lost = [judge("E", [200] * 5, [500] * 5, Tolerance())] * 3
    assert overall(corrected([*lost, ceiling, ceiling])) is Verdict.REGRESSION


def test_loss_of_all_environments_is_found_at_least_as_often_as_by_each() -> None:
    """1.2 standard deviations on five environments."""
    rng = np.random.default_rng(4)

    def share(seeds: int, loss: float, experiments: int) -> float:
        called = 0
        for _ in range(experiments):
            sides = 100 + 10 * rng.standard_normal((2, 5, seeds))
            judged = [
                judge("E", ours - loss, theirs, Tolerance(), further=False) for ours, theirs in zip(*sides, strict=True)
            ]
            called += overall(corrected(judged, further=False)) is Verdict.REGRESSION
        return called / experiments

    assert share(5, 12.0, 80) >= 0.2
    assert share(10, 12.0, 80) >= 0.7
    assert share(5, 0.0, 80) <= 0.05


DRAWS: dict[str, Callable[[np.random.Generator, int, bool], np.ndarray]] = {
    "normal": lambda rng, size, lost: 100 - 12 * lost + 10 * rng.standard_normal(size),
    "lognormal": lambda rng, size, lost: 100 - 12 * lost + 10 * (rng.lognormal(size=size) - np.exp(0.5)) / 2.161,
    "success": lambda rng, size, lost: 1.0 * (rng.random(size) < (0.1 if lost else 0.8)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_seeds_that_are_said_to_settle_it_mostly_do(name: str) -> None:
    rng, draw = np.random.default_rng(0), DRAWS[name]
    named = settled = 0
    while named < 30:
        candidate, baseline = draw(rng, 5, True), draw(rng, 5, False)
        found = judge("A", candidate, baseline, Tolerance())
        if found.verdict is Verdict.INCONCLUSIVE and found.further_seeds is not None:
            assert 1 <= (found.further_seeds_low or 0) <= found.further_seeds <= 200
            more = draw(rng, found.further_seeds, True), draw(rng, found.further_seeds, False)
            later = judge("A", [*candidate, *more[0]], [*baseline, *more[1]], Tolerance(), further=False)
            named, settled = named + 1, settled + (later.verdict is not Verdict.INCONCLUSIVE)
    assert settled / named >= (0.4 if name == "lognormal" else 0.7)  # long tails hold more surprises


def test_few_successes_that_chance_explains_name_no_number() -> None:
    for ours, theirs in ((5, 3), (3, 5), (5, 5), (4, 5)):
        scores = [[1.0] * good + [0.0] * (5 - good) for good in (ours, theirs)]
        assert judge("A", *scores, Tolerance()).further_seeds is None
    apart = judge("A", [1.0] + [0.0] * 9, [1.0] * 5 + [0.0] * 5, Tolerance())
    assert apart.verdict is Verdict.INCONCLUSIVE


def test_no_number_is_named_where_none_can_be() -> None:
    assert judge("A", [80, 95], [85, 100], Tolerance()).further_seeds is None
    near = judge("A", [80, 95, 110, 90, 87, 99, 105, 94], [85, 100, 115, 95, 92, 104, 110, 99], Tolerance(0.0, 5.0))
    assert near.verdict is Verdict.INCONCLUSIVE
    assert (near.further_seeds_low, near.further_seeds) == (None, None)
    assert "no number of further seeds can be named" in near.reason
    assert seeds_to_settle(np.ones(3), np.ones(4), 1.0, confidence=0.95, needed=17) is None


def test_range_of_further_seeds_narrows_and_does_not_depend_on_units() -> None:
    scores = np.array([88.0, 95, 110, 82, 77]), np.array([99.0, 100, 112, 93, 104])
    plain = seeds_to_settle(*scores, -10.0, confidence=0.95, needed=17)
    first, second = (side / 1024 for side in scores)
    scaled = seeds_to_settle(first, second, -10 / 1024, confidence=0.95, needed=17)
    assert plain is not None
    assert plain == scaled
    farther = seeds_to_settle(*scores, -30.0, confidence=0.95, needed=17)
    assert farther is not None
    assert farther[1] < plain[1]


def test_gate_is_honest_over_synthetic_experiments() -> None:
    """A small part of ``perf/verdicts.py``: three seeds, three environments, a fifth of the seeds fails."""
    rng = np.random.default_rng(0)

    def draw() -> np.ndarray:
        return np.where(rng.random(3) < 0.2, 80.0, 105.0) + 2.5 * rng.standard_normal(3)

    called = found = 0
    for _ in range(150):
        for losses in ((0.0, 0.0, 0.0), (70.0, 0.0, 0.0)):
            judged = [judge("A", draw() - loss, draw(), Tolerance(), further=False) for loss in losses]
            regression = overall(corrected(judged, further=False)) is Verdict.REGRESSION
            called, found = called + (regression and not any(losses)), found + (regression and any(losses))
    assert called / 150 <= 0.05
    assert found / 150 >= 0.2
