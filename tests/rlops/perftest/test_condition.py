"""The arithmetic of performance tests."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from a2perf.errors import ConfigError
from a2perf.experiments.performance_test.condition import PassCondition, PerformanceVerdict


def condition(total: int = 3, succ: int = 2, **changes: object) -> PassCondition:
    return PassCondition(total_runs=total, succ_runs=succ, columns=("c",), values=(0.9,), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("statistic", "direction", "expected"),
    [
        ("last", ">=", 0.5),
        ("best", ">=", 0.8),
        ("best", "<=", 0.1),
        ("mean_last_n", ">=", (0.8 + 0.1 + 0.5) / 3),
    ],
)
def test_what_is_judged(statistic: str, direction: str, expected: float):
    values = np.array([0.3, np.nan, 0.8, 0.1, 0.5, 0.99])  # the budget is hit exactly; the NaN is not taken
    steps = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    tested = condition(statistic=statistic, direction=direction, max_steps=5)
    assert tested.judged(steps, values) == pytest.approx(expected)
    assert tested.judged(steps[:0], values[:0]) is None


@pytest.mark.parametrize("statistic", ["last", "best", "mean_last_n"])
@pytest.mark.parametrize("direction", [">=", "<="])
@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("max_steps", [None, 300, 250, 1000])
def test_a_run_that_ends_with_nan_or_infinity_misses(
    statistic: str, direction: str, broken: float, max_steps: int | None
):
    tested = condition(statistic=statistic, direction=direction, max_steps=max_steps)
    judged = tested.judged(np.array([100.0, 200.0, 300.0]), np.array([0.9, 0.9, broken]))
    assert judged is not None
    assert np.isnan(judged)
    assert not tested.is_met([judged])


def test_the_mean_takes_no_nan_among_its_values():
    steps, values = np.arange(1.0, 6.0), np.array([1.0, np.nan, 1.0, 1.0, 1.0])
    assert condition(statistic="mean_last_n").judged(steps, values) == 1.0
    assert not condition(statistic="mean_last_n", last_n=4).is_met(
        [condition(statistic="mean_last_n", last_n=4).judged(steps, values)]
    )


@pytest.mark.parametrize(
    ("steps", "value", "bound"),
    [
        ([2048.0], 1.0, 2048.0),
        ([1024.0, 2048.0, 3072.0], 2.0, 2048.0),
        ([1000.0, 2000.0, 2001.0], 2.0, 2000.0),
        ([500.0, 1500.0], 2.0, np.inf),
        ([2048.0, 2048.0, 4096.0], 2.0, 2048.0),
    ],
)
def test_the_first_value_at_or_after_the_budget_counts(steps: list[float], value: float, bound: float):
    tested = condition(max_steps=2000)
    assert tested.judged(np.array(steps), np.arange(1.0, len(steps) + 1)) == value
    assert tested.last_step(np.array(steps)) == bound


def test_every_column_has_to_be_met():
    tested = PassCondition(total_runs=1, succ_runs=1, columns=("a", "b"), values=(0.5, -160.0))
    assert tested.is_met([0.5, -160.0])
    assert not tested.is_met([0.5, -161.0])
    assert not tested.is_met([None, 0.0])


@pytest.mark.parametrize(("direction", "bound"), [(">=", 0.9), ("<=", 0.1), (">=", -160.3)])
def test_a_value_that_went_through_an_event_file_reaches_its_own_threshold(direction: str, bound: float):
    tested = PassCondition(total_runs=1, succ_runs=1, columns=("c",), values=(bound,), direction=direction)  # type: ignore[arg-type]
    assert tested.is_met([float(np.float32(bound))])
    assert not tested.is_met([bound - 1e-4 if direction == ">=" else bound + 1e-4])


@pytest.mark.parametrize(("total", "succ"), [(1, 1), (3, 2), (3, 3), (5, 1), (5, 3)])
def test_a_verdict_is_given_as_soon_as_it_is_certain_and_no_sooner(total: int, succ: int):
    tested = condition(total, succ)
    for outcomes in itertools.product([True, False], repeat=total):
        final = sum(outcomes) >= succ
        for count in range(total + 1):
            met = sum(outcomes[:count])
            verdict = tested.verdict(met, count - met)
            rest = [sum(outcomes[:count]) + extra >= succ for extra in range(total - count + 1)]
            certain = len(set(rest)) == 1
            assert (verdict is not PerformanceVerdict.OPEN) == certain
            if certain:
                assert verdict is (PerformanceVerdict.PASSED if final else PerformanceVerdict.FAILED)


def test_time_ends_only_what_is_open():
    tested = condition()
    assert tested.verdict(1, 0, out_of_time=True) is PerformanceVerdict.OUT_OF_TIME
    assert tested.verdict(2, 0, out_of_time=True) is PerformanceVerdict.PASSED


@pytest.mark.parametrize(("rate", "chance"), [(0.8, 0.896), (0.5, 0.5), (1.0, 1.0), (0.0, 0.0)])
def test_how_probably_the_gate_passes(rate: float, chance: float):
    assert condition().pass_probability(rate) == pytest.approx(chance)


def test_the_probability_is_that_of_simulated_gates():
    rng = np.random.default_rng(0)
    passed = (rng.random((20_000, 5)) < 0.7).sum(axis=1) >= 3
    assert condition(5, 3).pass_probability(0.7) == pytest.approx(passed.mean(), abs=0.01)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"total_runs": 2, "succ_runs": 3}, "can never be met"),
        ({"values": (1.0, 2.0)}, "1 eval_columns but 2 values"),
        ({"direction": ">"}, "neither '>=' nor '<='"),
        ({"statistic": "median"}, "statistic = 'median'"),
        ({"max_steps": 0}, "leaves no step"),
        ({"values": (float("nan"),)}, "eval_value = nan is not a finite number"),
        ({"values": (float("-inf"),)}, "eval_value = -inf is not a finite number"),
    ],
)
def test_a_condition_that_makes_no_sense(changes: dict[str, object], words: str):
    given = {"total_runs": 3, "succ_runs": 2, "columns": ("c",), "values": (0.9,), **changes}
    with pytest.raises(ConfigError, match=words):
        PassCondition(**given)  # type: ignore[arg-type]
