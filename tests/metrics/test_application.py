"""Returns, success and generalization per task and overall, in both profiles."""

from __future__ import annotations

import math

import numpy as np
import pytest

from a2perf.metrics.application import per_task
from a2perf.metrics.registry import score
from tests.metrics.made_runs import runs_of

ONE_TASK = runs_of(returns={"pace": [[1.0, 3.0], [5.0, 7.0, 9.0]]}, successes={"pace": [[0, 1], [1, 1, 1]]})
TASKS = runs_of(returns={"pace": [[1.0, 3.0], [5.0, 7.0]], "trot": [[10.0], [30.0]]})


def test_returns_pool_episodes_or_take_each_run_first() -> None:
    earlier, corrected = score(ONE_TASK, "upstream")["returns"], score(ONE_TASK)["returns"]
    assert earlier.value == 5.0
    assert earlier.spread == pytest.approx(np.std([1, 3, 5, 7, 9], ddof=1))
    assert corrected.per_run == [2.0, 7.0]
    assert corrected.value == 4.5
    assert corrected.spread == pytest.approx(np.std([2, 7], ddof=1))
    assert corrected.n == earlier.n == 2
    assert corrected.interval is not None
    assert corrected.interval == pytest.approx(
        (4.5 - 12.7062 * 2.5, 4.5 + 12.7062 * 2.5), rel=1e-5
    )  # Student's, one degree


def test_success_is_a_share_in_percent_and_absent_where_not_reported() -> None:
    assert score(ONE_TASK)["success_rate"].value == pytest.approx(75.0)
    assert score(ONE_TASK, "upstream")["success_rate"].value == pytest.approx(80.0)
    assert score(TASKS)["success_rate"].value is None
    both = runs_of(returns=TASKS.returns, successes={"pace": [[1, 1]], "trot": [[0, 1]]})
    assert score(both)["success_rate"].value == pytest.approx(75.0)


def test_generalization_sums_tasks_as_the_earlier_platform_or_averages_them() -> None:
    earlier, corrected = score(TASKS, "upstream")["generalization"], score(TASKS)["generalization"]
    assert earlier.value == pytest.approx((2 + 6) / 2 + (10 + 30) / 2)
    assert earlier.per_run == [12.0, 36.0]
    assert corrected.value == pytest.approx(12.0)
    assert corrected.interval is not None
    assert "pace, trot" in corrected.notes[-1]
    assert score(ONE_TASK)["generalization"].condition == "not enough data (n=1 tasks, needs 2)"


def test_tasks_are_kept_apart() -> None:
    found = per_task(TASKS, "corrected")
    assert found["pace"]["returns"].value == 4.0
    assert found["trot"]["returns"].value == 20.0
    assert "task by task" in str(score(TASKS)["returns"].condition)
    assert "task by task" in str(score(TASKS)["IqrAcrossRollouts"].condition)


def test_a_task_without_episodes_is_named() -> None:
    data = runs_of(returns={"pace": [[1.0]], "trot": [[], [math.nan]]})
    found = score(data)["generalization"]
    assert found.value is None
    assert found.condition == "not enough data (no finished episode of trot)"
    assert per_task(data, "corrected")["pace"]["returns"].value == 1.0


def test_returns_that_are_not_finite_are_left_out_and_said() -> None:
    found = score(runs_of(returns={"pace": [[1.0, math.nan, 3.0]]}))["returns"]
    assert found.value == 2.0
    assert found.notes[0] == "run 0: 1 of 3 values are not finite and left out"
    assert found.interval is None


def test_different_numbers_of_runs_leave_no_value_per_run() -> None:
    found = score(runs_of(returns={"pace": [[2.0], [4.0]], "trot": [[10.0]]}))["generalization"]
    assert found.value == pytest.approx(6.5)
    assert found.per_run == []
    assert found.n == 1
