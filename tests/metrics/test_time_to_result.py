"""Time to a result: hand-computed scores, the published convention, censoring, held-out variants, and intervals."""

from __future__ import annotations

import numpy as np
import pytest

from a2perf.arrays import Values
from a2perf.metrics.time_to_result import (
    ScoreRules,
    gated,
    median_time,
    performance_ratios,
    profile_score,
    score_times,
)

INF = np.inf


def _times(seed: int = 0, shape: tuple[int, ...] = (11, 8)) -> Values:
    generator = np.random.default_rng(seed)
    times = generator.lognormal(3.0, 0.6, shape)
    times[generator.random(shape) < 0.2] = INF
    return times


def _by_the_definition(times: Values, points: int) -> list[float]:
    """Computes scores with plain loops: ratios, shares at each tau, trapezoids."""
    taus = np.linspace(1.0, 4.0, points)
    scores = []
    for row in range(times.shape[0]):
        shares = []
        for tau in taus:
            solved = 0
            for column in range(times.shape[1]):
                best = min(times[:, column])
                solved += bool(np.isfinite(times[row, column]) and times[row, column] / best <= tau)
            shares.append(solved / times.shape[1])
        area = sum((shares[at] + shares[at + 1]) / 2 * (taus[at + 1] - taus[at]) for at in range(points - 1))
        scores.append(area / 3.0)
    return scores


def _scores(times: object, rules: ScoreRules | None = None, workloads: str = "") -> list[float]:
    values = np.asarray(times, np.float64)
    names = list(workloads) or [f"w{column}" for column in range(values.shape[1])]
    return [row.score for row in score_times(values, [f"s{row}" for row in range(len(values))], names, rules)]


def test_a_hand_computed_table() -> None:
    times = [[10.0, 40.0, INF], [20.0, 10.0, INF], [INF, 25.0, INF]]
    found = score_times(times, ["a", "b", "c"], ["x", "y", "z"], ScoreRules(points=None))
    # a: ratios 1 and 4, b: 2 and 1, c: none and 2.5; nobody solves z, which counts for all
    assert [row.score for row in found] == pytest.approx([(1 + 0) / 3, (2 / 3 + 1) / 3, (0.5) / 3])
    assert found[0].ratios == {"x": 1.0, "y": 4.0, "z": None}
    assert [row.exact for row in found] == [row.score for row in found]


@pytest.mark.parametrize("seed", range(3))
def test_the_default_is_the_trapezoid_rule_at_100_points(seed: int) -> None:
    times = _times(seed)
    assert _scores(times) == pytest.approx(_by_the_definition(times, 100), abs=1e-12)
    exact = np.array(_scores(times, ScoreRules(points=None)))
    difference = np.abs(exact - _scores(times))
    assert 0 < difference.max() <= 1 / (2 * 99)
    assert _scores(times, ScoreRules(points=100_001)) == pytest.approx(exact, abs=1e-5)


def test_a_ratio_on_a_point_of_the_grid_counts_from_that_point() -> None:
    assert np.linspace(1.0, 4.0, 100)[33] == 2.0
    on, beyond = profile_score(performance_ratios([[1.0], [2.0], [2.0 + 1e-9]]))[1:]
    assert on - beyond == pytest.approx(1 / 99)
    assert _scores([[1.0], [2.0]])[1] == pytest.approx(_by_the_definition(np.array([[1.0], [2.0]]), 100)[1])


def test_the_unit_of_a_workload_and_the_order_of_rows_and_columns_do_not_matter() -> None:
    times = _times(5)
    rules = ScoreRules(points=None)
    scores = np.array(_scores(times, rules))
    units = np.random.default_rng(0).lognormal(0.0, 3.0, 8)
    assert _scores(times * units, rules) == pytest.approx(scores, abs=1e-12)
    order = np.random.default_rng(1).permutation(11)
    assert _scores(times[order][:, ::-1], rules) == pytest.approx(scores[order], abs=1e-12)


def test_ties_and_a_single_submission_score_one() -> None:
    assert _scores([[3.0, 5.0], [3.0, 5.0]]) == [1.0, 1.0]
    assert _scores([[0.3]]) == [1.0]
    assert _scores([[INF, INF]]) == [0.0]


def test_the_median_counts_unfinished_studies_as_never() -> None:
    studies = [[1.0, 5.0, INF], [2.0, INF, INF], [1.0, 3.0, 8.0]]
    assert median_time(studies).tolist() == [5.0, INF, 3.0]
    assert median_time([[1.0, 3.0, 4.0, INF], [1.0, 3.0, INF, INF]]).tolist() == [3.5, INF]


def test_a_held_out_variant_gates_its_base_workload() -> None:
    times = [[10.0, INF, 7.0], [20.0, 30.0, 7.0]]
    gate = {"X": "x"}
    assert _scores(times, ScoreRules(held_out=gate), "xXy") == [0.5, 1.0]  # the time of the first is gone for both
    both = ScoreRules(held_out=gate, count_held_out=True)
    assert _scores(times, both, "xXy") == pytest.approx([1 / 3, 1.0])
    plain = _scores([[10.0, 7.0], [20.0, 7.0]], None, "xy")
    assert plain == pytest.approx([1.0, (66.5 / 99 + 1) / 2])


def test_a_variant_far_behind_the_fastest_counts_as_not_reached() -> None:
    times = np.array([[10.0, 10.0], [10.0, 41.0]])
    assert _scores(times, ScoreRules(held_out={"X": "x"}), "xX") == [1.0, 0.0]
    assert _scores(times, ScoreRules(held_out={"X": "x"}, held_out_limit=None), "xX") == [1.0, 1.0]
    # without held-out variants nothing is limited: beyond r_max a time adds nothing anyway
    np.testing.assert_array_equal(gated(times, {}), times)


def test_intervals_contain_the_score_and_one_study_has_none() -> None:
    times = np.random.default_rng(3).lognormal(0.0, 0.5, (6, 8, 3))
    names = [f"s{row}" for row in range(6)], [f"w{column}" for column in range(8)]
    found = score_times(times, *names, repetitions=300)
    for row in found:
        assert row.low is not None
        assert row.high is not None
        assert 0.0 <= row.low < row.score < row.high <= 1.0
    assert found == score_times(times, *names, repetitions=300)
    assert score_times(times[..., :1], *names)[0].low is None
    same = score_times(np.repeat(times[..., :1], 3, axis=-1), *names, repetitions=50)
    assert all(row.low == row.score == row.high for row in same)


@pytest.mark.slow
@pytest.mark.parametrize("studies", [3, 5, 10])
@pytest.mark.parametrize("spread", [0.05, 0.2, 0.5])
def test_intervals_cover_the_true_score(studies: int, spread: float) -> None:
    generator = np.random.default_rng(1)
    covered = []
    for _ in range(60):
        medians = np.exp(generator.normal(0.0, 0.4, (5, 8)))
        true = profile_score(performance_ratios(medians))
        noisy = medians[..., None] * np.exp(generator.normal(0.0, spread, (5, 8, studies)))
        found = score_times(noisy, list("abcde"), list("stuvwxyz"), repetitions=400)
        covered += [(row.low or 0.0) <= score <= (row.high or 0.0) for row, score in zip(found, true, strict=True)]
    assert np.mean(covered) >= 0.93
