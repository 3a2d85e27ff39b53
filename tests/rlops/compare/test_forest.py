"""The forest plot of a comparison."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from a2perf.rlops.compare.forest import forest_chart
from a2perf.rlops.compare.verdict import Tolerance, judge


def _comparison() -> Any:
    return SimpleNamespace(names=["baseline", "change"])


def test_differences_are_shown_in_units_of_the_tolerance() -> None:
    judgement = judge("Walker", [90.0, 91.0, 89.0] * 6, [100.0, 101.0, 99.0] * 6, Tolerance(relative=0.05))
    chart = forest_chart(_comparison(), cast("Any", SimpleNamespace(place=1, judgements=(judgement,))))
    assert chart is not None
    assert chart.description == "Walker: -2, REGRESSION"
    assert b"difference / tolerance" in chart.svg


def test_without_a_tolerance_there_is_no_plot() -> None:
    judgement = judge("Walker", [1.0, 2.0, 3.0], [1.0, 2.0, 3.0], Tolerance(relative=0.0))
    assert forest_chart(_comparison(), cast("Any", SimpleNamespace(place=1, judgements=(judgement,)))) is None
