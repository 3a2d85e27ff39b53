"""The sign of a difference: exact where it can be counted, consistent with its interval, and seldom wrong."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from a2perf.metrics.difference import Sign, at_any_look, difference, spread_of_all

DRAWS = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "lognormal": lambda rng, n: rng.lognormal(size=n),
    "bimodal": lambda rng, n: np.where(rng.random(n) < 0.2, -2.0, 0.5) + 0.25 * rng.standard_normal(n),
    "two values": lambda rng, n: np.where(rng.random(n) < 0.5, 0.0, 1.0),
    "constant": lambda _, n: np.full(n, 0.1),
}


@pytest.mark.parametrize("seeds", [(3, 3), (3, 5), (5, 5), (3, 10)])
@pytest.mark.parametrize("name", DRAWS)
def test_without_a_difference_each_sign_is_rare_and_agrees_with_the_interval(name: str, seeds: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    count = 1500
    found = [difference([(DRAWS[name](rng, seeds[0]), DRAWS[name](rng, seeds[1]))]) for _ in range(count)]
    for sign in (Sign.BETTER, Sign.WORSE):
        # 2.5 % and three standard errors of the simulation
        assert sum(one.sign is sign for one in found) / count <= 0.025 + 3 * (0.025 * 0.975 / count) ** 0.5
    for one in found:
        assert one.low is not None
        assert one.high is not None
        assert (one.low > 0, one.high < 0) == (one.sign is Sign.BETTER, one.sign is Sign.WORSE)
        assert one.low <= one.value <= one.high


def test_interval_holds_every_shift_that_the_permutation_test_does_not_reject() -> None:
    """All 252 exchanges of five scores against five, counted one by one at shifts around both ends."""
    rng = np.random.default_rng(0)
    ours, theirs = rng.lognormal(size=5), rng.lognormal(size=5)
    found = difference([(ours, theirs)], confidence=0.5)  # Welch's interval is the inner one here or there

    def chances(shift: float) -> tuple[float, float]:
        scores = np.concatenate((ours - shift, theirs))
        parts = [np.isin(range(10), chosen) for chosen in itertools.combinations(range(10), 5)]
        means = np.array([scores[part].mean() - scores[~part].mean() for part in parts])
        at = (ours - shift).mean() - theirs.mean()
        return float((means >= at - 1e-12).mean()), float((means <= at + 1e-12).mean())

    for end, side, outwards in ((found.low, 0, -1.0), (found.high, 1, 1.0)):
        assert chances(end + outwards * 1e-6)[side] <= 0.25
    assert min(chances(found.value)) > 0.25


def test_pairs_with_different_units_are_one_test() -> None:
    pairs = [
        (np.array([2.0, 3.0, 4.0]) * unit, np.array([1.0, 2.0, 3.0]) * unit) for unit in (1.0, 1e6, 1e-6, 7.0, 3.0)
    ]
    alone = difference(pairs[:1], [spread_of_all(*pairs[0])])
    together = difference(pairs, [spread_of_all(*pair) for pair in pairs])
    assert alone.value == pytest.approx(together.value)
    assert (alone.sign, together.sign) == ("not separated", "better")
    other = difference([pair[::-1] for pair in pairs], [spread_of_all(*pair) for pair in pairs])
    assert (other.sign, other.low) == ("worse", pytest.approx(-together.high))
    assert difference([]).sign == difference([([], [1.0])]).sign == "not separated"


def test_equal_means_of_another_shape_are_not_separated() -> None:
    """One side succeeds in 80 % of its seeds, the other always has 0.8."""
    rng = np.random.default_rng(5)
    for seeds in (3, 5, 10):
        found = [difference([((rng.random(seeds) < 0.8) * 1.0, np.full(seeds, 0.8))]).sign for _ in range(400)]
        assert found.count(Sign.BETTER) == 0
        assert found.count(Sign.WORSE) <= 20


def test_sides_without_spread_have_the_width_of_the_runs_that_were_not_seen() -> None:
    share = 1.0 - 0.025 ** (1.0 / 5.0)
    found = difference([(np.full(5, 500.0), np.full(5, 200.0))])
    assert (found.low, found.high) == pytest.approx((300 - 300 * share * 2**0.5, 300 + 300 * share * 2**0.5), abs=1e-10)
    assert difference([(np.full(5, 500.0), np.full(5, 500.0))]).low == 0.0


def test_pairs_of_episodes_show_what_their_spread_hides() -> None:
    rng = np.random.default_rng(6)
    hard = 10.0 * rng.standard_normal(100)
    ours, theirs = hard + 0.5 + rng.standard_normal(100), hard + rng.standard_normal(100)
    assert difference([(ours, theirs)]).sign == "not separated"
    found = difference([(ours, theirs)], paired=True)
    student = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
    assert found.sign == "better"
    assert found.low <= student.low + 1e-10
    assert found.high >= student.high - 1e-10
    assert found.high - found.low < 1.1 * (student.high - student.low)
    assert difference([(np.ones(5), np.zeros(5))], paired=True).sign == "not separated"  # sign test: 1 in 16
    assert difference([(np.ones(6), np.zeros(6))], paired=True).sign == "better"


def test_looks_at_growing_data_together_keep_the_confidence() -> None:
    """Five more seeds per look, six looks; and a difference of one standard deviation with 15 seeds."""
    rng = np.random.default_rng(7)
    looks, false, found = range(5, 31, 5), 0, 0
    for _ in range(300):
        ours, theirs = rng.standard_normal((2, 30))
        signs = [difference([(ours[:n], theirs[:n])], confidence=at_any_look(0.95, n)).sign for n in looks]
        false += any(sign != "not separated" for sign in signs)
        found += difference([(ours[:15] + 1.0, theirs[:15])], confidence=at_any_look(0.95, 15)).sign == "better"
    assert false <= 15
    assert found >= 90
    levels = [1.0 - at_any_look(0.95, n) for n in (3, 15, 30, 300)]
    assert levels == pytest.approx([0.006, 0.006, 0.006 / (1 + np.log(2) ** 2), 0.006 / (1 + np.log(20) ** 2)])
