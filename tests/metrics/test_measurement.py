"""Uncertainty of energies: from the record of a run to the mean, its interval and what may be ordered by it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from a2perf.metrics.bootstrap import mean_interval
from a2perf.metrics.registry import score
from a2perf.records import Attempt
from a2perf.runs.attempts import with_earlier
from a2perf.runs.tracking_record import EnergyUncertainty, combined_uncertainty, read_tracking, summed
from tests.metrics.made_runs import runs_of


def _uncertainty(model: float, sampling: float) -> dict[str, float]:
    expanded = 2 * math.hypot(model, sampling)
    return {"expanded_kwh": expanded, "coverage_factor": 2.0, "resolution_kwh": 0.0, "sampling_kwh": sampling,
            "attribution_kwh": 0.0, "model_kwh": model}  # fmt: skip


def _report(kwh: float, unsure: dict[str, float] | None) -> dict[str, Any]:
    energy: dict[str, Any] = {"gross_kwh": kwh, "net_kwh": kwh / 2, "power_mean_w": 100.0, "quality": "measured",
                              "method": "rapl"}  # fmt: skip
    if unsure is not None:
        energy |= {"gross_uncertainty": unsure, "net_uncertainty": {name: value / 2 for name, value in unsure.items()}}
    return {"energy": energy, "wall_s": 60.0}


def test_one_run_has_the_interval_of_its_measurement() -> None:
    found = score(runs_of(tracking=[_report(10.0, _uncertainty(0.3, 0.4))]))
    assert found["energy_gross"].uncertainty == pytest.approx(1.0)
    assert found["energy_gross"].interval == pytest.approx((9.0, 11.0))
    assert found["energy_net"].uncertainty == pytest.approx(0.5)
    # a mean power is as uncertain as the energy it is made of
    assert found["power_mean"].uncertainty == pytest.approx(10.0)
    assert found["power_peak"].uncertainty is None


def test_what_all_runs_share_does_not_average_out() -> None:
    energies = [10.0, 10.4, 9.8, 10.2]
    found = score(runs_of(tracking=[_report(kwh, _uncertainty(0.3, 0.4)) for kwh in energies]))["energy_gross"]
    expected = math.hypot(2 * 0.3, 2 * 0.4 / math.sqrt(4))
    assert found.uncertainty == pytest.approx(expected)
    low, high = mean_interval(np.array(energies))
    mean = np.mean(energies)
    assert found.interval == pytest.approx(
        (mean - math.hypot(mean - low, expected), mean + math.hypot(high - mean, expected))
    )
    assert (
        score(runs_of(tracking=[_report(1.0, _uncertainty(0.1, 0.1))]), profile="upstream")["energy_gross"].interval
        is None
    )


def test_record_without_an_uncertainty_keeps_its_numbers_and_it_stays_unknown() -> None:
    old = score(runs_of(tracking=[_report(1.0, None), _report(3.0, None)]))["energy_gross"]
    assert (old.value, old.uncertainty) == (2.0, None)
    assert old.interval == pytest.approx(mean_interval(np.array([1.0, 3.0])))
    one_old = score(runs_of(tracking=[_report(1.0, None), _report(3.0, _uncertainty(0.1, 0.1))]))["energy_gross"]
    assert one_old.uncertainty is None


def test_sums_of_one_instrument_keep_its_error_and_different_instruments_are_independent() -> None:
    part = EnergyUncertainty(model_kwh=0.3, sampling_kwh=0.4, expanded_kwh=1.0)
    together = combined_uncertainty([part, part], same_instrument=True)
    assert (together.model_kwh, together.sampling_kwh) == pytest.approx((0.6, 0.4 * math.sqrt(2)))
    assert together.expanded_kwh == pytest.approx(2 * math.hypot(0.6, 0.4 * math.sqrt(2)))
    apart = combined_uncertainty([part, part])
    assert apart.expanded_kwh == pytest.approx(math.sqrt(2))
    total = summed([read_tracking(_report(1.0, _uncertainty(0.3, 0.4)))] * 2)
    assert total is not None
    assert total.energy.gross_uncertainty.expanded_kwh == pytest.approx(together.expanded_kwh)
    unknown = summed([read_tracking(_report(1.0, None)), read_tracking(_report(1.0, _uncertainty(0.3, 0.4)))])
    assert unknown is not None
    assert math.isnan(unknown.energy.gross_uncertainty.expanded_kwh)


def test_earlier_attempts_get_the_uncertainty_of_the_last_in_proportion() -> None:
    first = Attempt(number=1, started_at="", host="a", pid=1, boot_id="b", gross_kwh=3.0, net_kwh=1.0)
    last = Attempt(number=2, started_at="", host="a", pid=2, boot_id="b")
    report = with_earlier(_report(1.0, _uncertainty(0.03, 0.04)), [first, last])
    assert report["energy"]["gross_kwh"] == 4.0
    assert report["energy"]["gross_uncertainty"]["expanded_kwh"] == pytest.approx(4 * 0.1)
    assert report["energy"]["gross_uncertainty"]["coverage_factor"] == 2.0
