"""Time and energy until a threshold: when it counts as reached, whose clock, and when there is no number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from a2perf.metrics.efficiency import WINDOW, first_reached
from a2perf.metrics.registry import score
from a2perf.metrics.runs_in_mode import ScoredRuns
from a2perf.metrics.values import MetricValue
from tests.metrics.made_runs import runs_of

RAMP = np.arange(21.0)  # reaches 10 at point 10; the mean of the last five points does at point 12


def _table(seconds: int = 40, *, kwh_per_s: float = 0.01, run_id: str = "a", at: int = 0) -> dict[str, list[Any]]:
    return {
        "timestamp": [f"2026-01-01T00:00:{at + second:02d}" for second in range(1, seconds + 1)],
        "run_id": [run_id] * seconds,
        "duration": [float(second) for second in range(1, seconds + 1)],
        "energy_consumed": [kwh_per_s * second for second in range(1, seconds + 1)],
        "quality": ["measured"] * seconds,
    }


def _report(wall_s: float = 40.0, kwh: float = 0.4) -> dict[str, Any]:
    return {"wall_s": wall_s, "energy": {"gross_kwh": kwh, "quality": "measured"}}


def _values(data: ScoredRuns) -> tuple[MetricValue, MetricValue]:
    found = score(data, names=["time_to_threshold", "energy_to_threshold"])
    return found["time_to_threshold"], found["energy_to_threshold"]


def test_a_lucky_point_is_not_reaching() -> None:
    assert first_reached(np.array([0.0, 0.0, 9.0, 0.0, 0.0, 0.0, 0.0]), 2.0) is None
    assert first_reached(np.array([0.0, 0.0, 2.0, 2.0, 2.0, 2.0, 2.0]), 2.0) == 6
    assert first_reached(np.full(WINDOW - 1, 5.0), 2.0) is None


def test_logged_times_and_the_energy_at_that_time() -> None:
    data = runs_of(
        curves=[(RAMP * 100, RAMP)],
        curve_times=[(RAMP * 1.5, "start")],
        threshold=10.0,
        tracking=[_report()],
        emissions=[_table()],
    )
    seconds, energy = _values(data)
    assert seconds.value == pytest.approx(12 * 1.5)
    assert energy.value == pytest.approx(12 * 1.5 * 0.01)
    assert (seconds.unit, energy.unit, energy.direction) == ("s", "kWh", "min")
    assert (seconds.provenance, energy.provenance) == ("recorded", "measured")


def test_clocks_of_the_epoch_are_set_against_the_start_of_the_tracking() -> None:
    start = 1767225600.0  # 2026-01-01 00:00:00 UTC
    data = runs_of(
        curves=[(RAMP, RAMP)], curve_times=[(start + 2.0 + RAMP, "epoch")], threshold=10.0, emissions=[_table()]
    )
    seconds, energy = _values(data)
    assert seconds.value == pytest.approx(14.0)
    assert energy.value == pytest.approx(0.14)


def test_processes_that_start_later_add_their_energy_from_then_on() -> None:
    first, second = _table(), _table(20, run_id="b", at=10)
    both = {name: first[name] + second[name] for name in first}
    data = runs_of(curves=[(RAMP, RAMP)], curve_times=[(RAMP, "start")], threshold=10.0, emissions=[both])
    assert _values(data)[1].value == pytest.approx(0.12 + 0.02)


def test_points_without_a_time_are_spread_evenly_and_that_is_an_estimate() -> None:
    without = runs_of(curves=[(RAMP, RAMP)], threshold=10.0, tracking=[_report()], emissions=[_table()])
    impossible = runs_of(
        curves=[(RAMP, RAMP)],
        curve_times=[(RAMP * 1000, "start")],
        threshold=10.0,
        tracking=[_report()],
        emissions=[_table()],
    )
    for data in (without, impossible):
        seconds, energy = _values(data)
        assert seconds.value == pytest.approx(40.0 * 12 / 20)
        assert energy.value == pytest.approx(0.4 * 12 / 20)
        assert (seconds.provenance, energy.provenance) == ("estimated", "estimated")
        assert any("evenly" in note for note in seconds.notes)


def test_every_run_must_reach_it() -> None:
    low = (RAMP, np.full(21, 3.0))
    times = [(RAMP, "start")] * 2
    never, _ = _values(runs_of(curves=[low, low], curve_times=times, threshold=10.0, tracking=[_report()] * 2))
    assert never.condition == "threshold 10 never reached by 2 run(s)"
    some, _ = _values(runs_of(curves=[low, (RAMP, RAMP)], curve_times=times, threshold=10.0, tracking=[_report()] * 2))
    assert some.value is None
    assert some.condition == "threshold 10 reached by 1 of 2 runs only"
    assert some.per_run == [None, 12.0]
    missing, _ = _values(
        runs_of(curves=[None, (RAMP, RAMP)], curve_times=[None, *times[:1]], threshold=10.0, tracking=[_report()] * 2)
    )
    assert missing.condition == "threshold 10 reached by 1 of 2 runs only"


def test_what_is_missing_is_said() -> None:
    assert "names no threshold" in (_values(runs_of(curves=[(RAMP, RAMP)]))[0].condition or "")
    assert _values(runs_of(threshold=1.0))[0].condition == "not enough data (n=0 training curves, needs 1)"
    short = runs_of(curves=[([1, 2], [9.0, 9.0])], threshold=1.0)
    assert _values(short)[0].condition == "a curve has 2 point(s), needs 5"
    clockless = runs_of(curves=[(RAMP, RAMP)], threshold=10.0)
    assert _values(clockless)[0].condition == "neither the curve nor the trackers recorded a time"
    timed = runs_of(curves=[(RAMP, RAMP)], curve_times=[(RAMP, "start")], threshold=10.0)
    seconds, energy = _values(timed)
    assert seconds.value == 12.0
    assert energy.condition == "energy was not recorded by every run"


def test_values_that_are_not_finite_are_left_out() -> None:
    values = RAMP.copy()
    values[3] = np.nan
    data = runs_of(curves=[(RAMP, values)], curve_times=[(RAMP, "start")], threshold=10.0, tracking=[_report()])
    assert _values(data)[0].value == 12.0
