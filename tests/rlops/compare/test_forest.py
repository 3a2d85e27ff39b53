"""The forest plot of a comparison."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from a2perf.rlops.compare.figures import forest_chart
from a2perf.rlops.compare.verdict import Tolerance, judge


def test_differences_are_shown_in_standard_deviations_of_all_scores() -> None:
    comparison = SimpleNamespace(names=["baseline", "change"], request=SimpleNamespace(gate=False))
    judgement = judge("Walker", [9.0] * 5, [11.0] * 5, Tolerance())
    chart = forest_chart(cast("Any", comparison), cast("Any", SimpleNamespace(place=1, judgements=(judgement,))))
    assert chart is not None
    assert chart.description == "Walker: -2, worse"
    assert b"difference / SD of all scores" in chart.svg
