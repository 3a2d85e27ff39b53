"""``a2perf.time_to_result``: a mapping of times becomes one table; errors name what is valid."""

from __future__ import annotations

import math
from typing import Any

import pytest

import a2perf
from a2perf.errors import ConfigError, UserError
from a2perf.metrics.time_to_result import score_times


def test_a_table_with_a_held_out_variant() -> None:
    times = {
        "adam": {"x": 120, "z": 80, "y_variant": 300},
        "shampoo": {"x": 100, "y": 200, "z": 50, "y_variant": 210},
        "sgd": {"x": math.inf, "y": 260, "z": math.nan, "y_variant": None},
    }
    table = a2perf.time_to_result(times, held_out={"y_variant": "y"}, points=None)
    assert list(table["submission"]) == ["shampoo", "adam", "sgd"]
    assert table["score"].tolist() == pytest.approx([1.0, ((4 - 1.2) / 3 + (4 - 1.6) / 3) / 3, 0.0])
    assert list(table["solved"]) == [3, 2, 0]
    assert list(table["workloads"]) == [3, 3, 3]
    counted = a2perf.time_to_result(times, held_out={"y_variant": "y"}, count_held_out=True)
    assert list(counted["workloads"]) == [4, 4, 4]


def test_missing_studies_count_as_not_reached_and_equal_scores_share_a_rank() -> None:
    table = a2perf.time_to_result({"a": {"x": [10, 10, 10]}, "b": {"x": 5}})
    assert dict(zip(table["submission"], table["score"], strict=True)) == {"a": 1.0, "b": 0.0}
    assert math.isfinite(table["low"][0])
    single = a2perf.time_to_result({"a": {"x": 1}, "c": {"x": None}, "b": {"x": 1}})
    assert list(single["rank"]) == ["1", "1", "3"]
    assert all(math.isnan(low) for low in single["low"])


def test_the_table_holds_the_numbers_of_the_formula() -> None:
    times = {"a": {"x": [1.0, 2.0, 3.0], "y": [5.0, 4.0, 6.0]}, "b": {"x": [2.0, 2.5, 4.0], "y": [4.0, 5.0, 4.5]}}
    table = a2perf.time_to_result(times)
    array = [[list(of) for of in given.values()] for given in times.values()]
    scores = {row.submission: row for row in score_times(array, ["a", "b"], ["x", "y"])}
    for name, *numbers in zip(*(table[key] for key in ("submission", "score", "low", "high", "exact")), strict=True):
        row = scores[name]
        assert numbers == [row.score, row.low, row.high, row.exact]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"times": {"a": {"x": 0}}}, "times of 'a' on 'x': 0 is not a number above zero"),
        ({"times": {"a": {"x": -math.inf}}}, "-inf is not a number above zero"),
        ({"times": {"a": {"x": ["1h"]}}}, "'1h' is not a number above zero"),
        ({"times": {}}, "times are empty"),
        ({"r_max": 0.5}, "r_max is 0.5"),
        ({"points": 1}, "points is 1"),
        ({"held_out_limit": 0.5}, "held_out_limit is 0.5"),
        ({"held_out": {"q": "x"}}, "'q' is not a workload"),
        ({"held_out": {"x": "y", "y": "x"}}, "held-out variant itself"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        a2perf.time_to_result(**{"times": {"a": {"x": 1.0, "y": 2.0}}, **arguments})


@pytest.mark.parametrize("times", ["times.csv", 3, {"a": 1.0}])
def test_files_and_folders_are_no_longer_read(times: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        a2perf.time_to_result(times)
    assert raised.value.message == "times are not a mapping of mappings"
    assert "read_csv" in raised.value.hint
