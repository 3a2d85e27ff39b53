"""Consistency, robustness and predictability: cases by hand, and plain definitions that take longer."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from a2perf.metrics import registry
from a2perf.metrics.runs_in_mode import ScoredRuns
from a2perf.records import ActionRecord, Episode
from a2perf.runs.run import Run, RunIdentity
from a2perf_agents.reliability import consistency, predictability

TIGHT = {"rel": 1e-12, "abs": 1e-12}


def episode(index: int, success: bool | None, **given: object) -> Episode:
    values = {"seed": index, "episode_return": 1.0, "length": 4, "terminated": True, "truncated": False, **given}
    return Episode(index=index, success=success, **values)


def run_of(scored: list[Episode], further: list[Episode] = []) -> Run:  # noqa: B006 -- not changed
    return Run(RunIdentity(mode="inference"), episodes={"task": scored}, further={"task": further} if further else {})


def score(*runs: Run, **given: float) -> dict:
    return registry.score(ScoredRuns(runs, "inference", **given), names=["reliability"])


# --- Formulas


def test_divergence_is_the_square_of_the_distance_of_scipy() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        p, q = random.random(6) * (random.random(6) < 0.7) + 1e-9 * np.eye(6)[0], random.random(6)
        found = consistency.jensen_shannon_divergence(dict(enumerate(p)), dict(enumerate(q)))
        assert found == pytest.approx(jensenshannon(p, q, base=2) ** 2, **TIGHT)
    assert consistency.jensen_shannon_divergence({"a": 3}, {"b": 5}) == 1.0
    # p = (1, 0), q = (1/2, 1/2): m = (3/4, 1/4)
    by_hand = 0.5 * math.log2(4 / 3) + 0.5 * (0.5 * math.log2(2 / 3) + 0.5 * math.log2(2))
    assert consistency.jensen_shannon_divergence({0: 1}, {0: 2, 1: 2}) == pytest.approx(by_hand, **TIGHT)


def plain_edit_distance(a: list[int], b: list[int]) -> int:
    if not a or not b:
        return len(a) + len(b)
    return min(
        plain_edit_distance(a[1:], b) + 1,
        plain_edit_distance(a, b[1:]) + 1,
        plain_edit_distance(a[1:], b[1:]) + (a[0] != b[0]),
    )


def test_edit_distance_is_the_recursive_definition() -> None:
    random = np.random.default_rng(1)
    for _ in range(30):
        a, b = (random.integers(0, 3, random.integers(0, 6)).tolist() for _ in range(2))
        assert consistency.edit_distance(a, b) == plain_edit_distance(a, b), (a, b)
    kitten, sitting = ([ord(letter) for letter in word] for word in ("kitten", "sitting"))
    assert consistency.normalised_edit_distance(kitten, sitting) == pytest.approx(3 / 7, **TIGHT)


def test_resource_consistency_leaves_out_what_has_no_variation_coefficient() -> None:
    # (1, 2, 3): standard deviation 1, mean 2; (4, 4, 4): 0
    resources = {"time": [1, 2, 3], "actions": [4, 4, 4], "cost": [0, 0, 0]}
    assert consistency.resource_consistency(resources) == pytest.approx(math.exp(-0.25), **TIGHT)
    assert math.isnan(consistency.resource_consistency({"time": [1.0]}))


def test_robustness_is_capped_and_undefined_without_a_success() -> None:
    assert consistency.robustness(0.3, 0.6) == pytest.approx(0.5, **TIGHT)
    assert consistency.robustness(0.9, 0.6) == 1.0
    assert math.isnan(consistency.robustness(0.5, 0.0))


def test_pass_k_is_the_share_of_all_subsets_of_k_repeats() -> None:
    for n, c in ((5, 3), (8, 7), (4, 0)):
        outcomes = [True] * c + [False] * (n - c)
        for k in range(1, n + 1):
            subsets = list(itertools.combinations(outcomes, k))
            assert consistency.pass_all_k(c, n, k) == pytest.approx(np.mean([all(s) for s in subsets]), **TIGHT)
            assert consistency.pass_at_k(c, n, k) == pytest.approx(np.mean([any(s) for s in subsets]), **TIGHT)
        assert math.isnan(consistency.pass_all_k(c, n, n + 1))


def test_calibration_error_by_hand_with_edges_in_the_lower_bin() -> None:
    # bin (0.2, 0.3]: one success of two at mean 0.3; bin (0.9, 1]: one success at 0.95; bin [0, 0.1]: a failure at 0
    error = predictability.expected_calibration_error([0.3, 0.3, 0.95, 0.0], [1, 0, 1, 0])
    assert error == pytest.approx((2 * 0.2 + 0.05 + 0.0) / 4, **TIGHT)
    # 0.3 belongs to the bin below its edge, 0.31 to the one above
    assert predictability.expected_calibration_error([0.3, 0.31], [1, 0]) == pytest.approx((0.7 + 0.31) / 2, **TIGHT)


def test_auroc_is_the_share_of_ordered_pairs() -> None:
    random = np.random.default_rng(2)
    confidence, success = np.round(random.random(40), 1), random.integers(0, 2, 40)
    pairs = [
        (high > low) + 0.5 * (high == low) for high in confidence[success == 1] for low in confidence[success == 0]
    ]
    assert predictability.auroc(confidence, success) == pytest.approx(np.mean(pairs), **TIGHT)
    assert math.isnan(predictability.auroc([0.5, 0.6], [1, 1]))


def test_risk_coverage_of_ties_is_the_mean_over_their_orders() -> None:
    coverage, risk = predictability.risk_coverage_curve([0.9, 0.5, 0.7], [1, 0, 0])
    assert coverage.tolist() == pytest.approx([1 / 3, 2 / 3, 1.0], **TIGHT)
    assert risk.tolist() == pytest.approx([0.0, 0.5, 2 / 3], **TIGHT)
    confidence, success = [0.9, 0.5, 0.5, 0.5, 0.1], [0, 1, 0, 0, 1]
    risks = []
    for order in itertools.permutations([1, 2, 3]):
        errors = [1 - success[place] for place in (0, *order, 4)]
        risks.append(np.cumsum(errors) / np.arange(1, 6))
    assert predictability.risk_coverage_curve(confidence, success)[1] == pytest.approx(np.mean(risks, axis=0), **TIGHT)
    area = predictability.area_under_risk_coverage(confidence, success)
    assert area == pytest.approx(np.mean(risks), **TIGHT)


# --- Metrics of recorded runs


def repeated_run() -> Run:
    """Two tasks with three repeats: three and one successes."""
    actions = [ActionRecord(sha256="", sequence=sequence) for sequence in ([1, 2], [1, 2], [1, 3])]

    def one(task: int, repeat: int, success: bool) -> Episode:
        return episode(
            2 * repeat + task,
            success,
            task_index=task,
            repeat=repeat,
            actions=actions[repeat],
            wall_s=1.0,
            policy_cpu_s=float(repeat + 1),
            confidence=0.8 if success else 0.4,
        )

    perturbed = [episode(6 + n, n == 0, task_index=n, perturbation="wording", actions=actions[0]) for n in range(2)]
    return run_of(
        [one(0, 0, True), one(1, 0, True)],
        [one(0, 1, True), one(1, 1, False), one(0, 2, True), one(1, 2, False), *perturbed],
    )


def test_metrics_of_a_repeated_run() -> None:
    found = score(repeated_run())
    values = {name: value.value for name, value in found.items()}
    assert values["outcome_consistency"] == pytest.approx((1 + 1 / 9) / 2, **TIGHT)
    assert values["pass_all_1"] == pytest.approx((1 + 1 / 3) / 2, **TIGHT)
    assert values["pass_all_2"] == pytest.approx(0.5, **TIGHT)
    assert values["pass_any_2"] == pytest.approx((1 + 2 / 3) / 2, **TIGHT)
    assert values["trajectory_consistency_sequence"] == pytest.approx(1 - (0 + 0.5 + 0.5) / 3, **TIGHT)
    # (1/2, 1/2, 0) against (1/2, 0, 1/2): divergence 1/2
    assert values["trajectory_consistency_distribution"] == pytest.approx(1 - (0 + 0.5 + 0.5) / 3, **TIGHT)
    assert values["resource_consistency"] == pytest.approx(math.exp(-(0.5 + 0 + 0) / 3), **TIGHT)
    assert values["robustness"] == values["robustness_wording"] == pytest.approx(0.5 / (4 / 6), **TIGHT)
    # bin (0.7, 0.8]: four successes at 0.8; bin (0.3, 0.4]: two failures at 0.4
    assert values["calibration"] == pytest.approx(1 - (4 * 0.2 + 2 * 0.4) / 6, **TIGHT)
    assert values["discrimination"] == 1.0
    assert values["brier_reliability"] == pytest.approx(1 - (4 * 0.04 + 2 * 0.16) / 6, **TIGHT)
    assert found["robustness_order"].value is None
    assert found["pass_all_4"].condition == "fewer than 4 repeats"
    assert found["risk_coverage_area"].direction == "min"
    low, high = found["outcome_consistency"].interval
    assert 0.0 <= low < values["outcome_consistency"] < high <= 1.0
    assert any("over tasks" in note for note in found["outcome_consistency"].notes)


def test_several_runs_have_an_interval_over_runs() -> None:
    steady = run_of([episode(0, True, task_index=0)], [episode(1, True, task_index=0, repeat=1)])
    found = score(repeated_run(), steady)["outcome_consistency"]
    assert found.per_run == pytest.approx([5 / 9, 1.0], **TIGHT)
    assert found.value == pytest.approx((5 / 9 + 1.0) / 2, **TIGHT)
    assert found.n == 2


def test_fewer_than_two_successes_are_no_trajectory_but_a_reason() -> None:
    actions = ActionRecord(sha256="", sequence=[1])
    run = run_of(
        [episode(0, True, task_index=0, actions=actions)],
        [episode(1, False, task_index=0, repeat=1, actions=actions)],
    )
    found = score(run)["trajectory_consistency_sequence"]
    assert found.value is None
    assert "fewer than two successes" in found.condition


def test_a_return_counts_as_success_from_the_threshold_on_where_the_environment_reports_none() -> None:
    returns = [3.0, 5.0]
    run = run_of(
        [episode(0, None, task_index=0, episode_return=returns[0])],
        [episode(1, None, task_index=0, repeat=1, episode_return=returns[1])],
    )
    assert score(run, success_return=4.0)["outcome_consistency"].value == 0.0
    assert "reports no success" in score(run)["outcome_consistency"].condition
    assert score(run)["resource_consistency"].value is not None


def test_runs_without_repeats_confidences_or_perturbations_get_no_number_and_no_line() -> None:
    found = score(run_of([episode(0, True), episode(1, False)]))
    mine = [name for name in found if name[0].islower()]
    assert len(mine) > 20
    for name in mine:
        assert found[name].value is None
        assert found[name].n == 0, name
