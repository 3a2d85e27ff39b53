"""Costs from tracking reports with their uncertainty, and from emissions tables of both generations."""

from __future__ import annotations

import csv
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from a2perf.errors import UserError
from a2perf.metrics.bootstrap import mean_interval
from a2perf.metrics.definition import provenance_over_runs
from a2perf.metrics.registry import rank, score
from a2perf.metrics.system_series import merge_on_time, report_of_table, seconds_of
from a2perf.records import Attempt
from a2perf.runs.bundles.attempts import with_earlier
from a2perf.runs.tracking_record import EnergyUncertainty, combined_uncertainty, read_tracking, summed
from tests.metrics.made_runs import runs_of
from tests.waiting import Child


def _report(
    kwh: float, quality: str = "measured", unsure: dict[str, float] | None = None, **more: Any
) -> dict[str, Any]:
    energy: dict[str, Any] = {
        "gross_kwh": kwh,
        "net_kwh": kwh / 2,
        "power_mean_w": 100.0,
        "quality": quality,
        "method": "rapl",
    }
    if unsure is not None:
        energy |= {"gross_uncertainty": unsure, "net_uncertainty": {name: value / 2 for name, value in unsure.items()}}
    return {"energy": energy, "rss_peak_bytes": 2e9, "cpu_seconds": 5.0, "wall_s": 60.0, **more}


def _uncertainty(model: float, sampling: float) -> dict[str, float]:
    expanded = 2 * math.hypot(model, sampling)
    return {
        "expanded_kwh": expanded,
        "coverage_factor": 2.0,
        "resolution_kwh": 0.0,
        "sampling_kwh": sampling,
        "attribution_kwh": 0.0,
        "model_kwh": model,
    }


def _fork_table(run_id: str = "a", rows: int = 4, **more: Any) -> dict[str, list[Any]]:
    """The earlier platform's generation: a row an interval, cumulative, with ram_process."""
    table: dict[str, list[Any]] = {
        "timestamp": [f"2023-11-01T00:00:{5 * k:02d}" for k in range(rows)],
        "run_id": [run_id] * rows,
        "duration": [5.0 * k for k in range(rows)],
        "energy_consumed": [0.1 * k for k in range(rows)],
        "cpu_energy": [0.06 * k for k in range(rows)],
        "cpu_power": [50.0] * rows,
        "gpu_power": [0.0] * rows,
        "ram_power": [3.0] * rows,
        "ram_process": [1.0 + k for k in range(rows)],
        "emissions": [0.01 * k for k in range(rows)],
    }
    return table | more


STOCK = {
    "timestamp": ["2024-07-01T10:00:00"],
    "run_id": ["x"],
    "duration": ["120.5"],
    "emissions": ["0.02"],
    "energy_consumed": ["0.05"],
    "cpu_energy": ["0.04"],
    "gpu_energy": ["0"],
    "ram_energy": ["0.01"],
    "cpu_power": ["42.5"],
    "gpu_power": ["0.0"],
    "ram_power": ["3.0"],
    "codecarbon_version": ["2.6.0"],
}


def _stacked(*tables: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: [value for table in tables for value in table[name]] for name in tables[0]}


def test_measured_and_estimated_together_are_marked_and_never_ranked() -> None:
    mixed = score(runs_of(tracking=[_report(1.0), _report(3.0, "estimated")]))["energy_gross"]
    assert mixed.provenance == "mixed"
    assert any(note.startswith("MIXED: 1 of 2 runs measured") for note in mixed.notes)
    measured = score(runs_of(tracking=[_report(1.0)]))["energy_gross"]
    estimated = score(runs_of(tracking=[_report(0.5, "estimated")]))["energy_gross"]
    with pytest.raises(UserError, match="measured and estimated"):
        rank({"a": measured, "b": estimated})
    with pytest.raises(UserError, match="measured and estimated"):
        rank({"a": mixed})
    assert provenance_over_runs(["measured", "measured"]) == "measured"


def test_emissions_are_estimated_even_where_energy_is_measured() -> None:
    report = _report(1.0, emissions={"kg_co2eq": 0.3, "method": "a2perf:rapl+factor:USA", "factor_source": "USA"})
    found = score(runs_of(tracking=[report]))["emissions"]
    assert (found.value, found.provenance) == (0.3, "estimated")
    assert "USA" in str(found.method)


def test_energy_of_the_earlier_generation_is_cumulative_per_process() -> None:
    found = report_of_table(_stacked(_fork_table("a"), _fork_table("b")))
    assert found.energy.gross_kwh == pytest.approx(0.6)
    assert found.energy.cpu.gross_kwh == pytest.approx(0.36)
    assert found.processes_peak == 2
    assert found.wall_s == 15.0
    assert found.energy.cpu.power_mean_w == 100.0
    assert found.rss_peak_bytes == 8 * 2**30
    assert found.rss_mean_bytes == 5 * 2**30
    assert found.energy.quality == "estimated"


def test_stock_codecarbon_has_totals_and_no_memory() -> None:
    scores = score(runs_of(emissions=[STOCK]))
    assert scores["energy_gross"].value == pytest.approx(0.05)
    assert scores["energy_gross"].provenance == "estimated"
    assert "codecarbon 2.6.0" in str(scores["energy_gross"].method)
    assert scores["wall_clock"].value == pytest.approx(120.5)
    assert scores["memory_rss_peak"].condition == "not recorded by any run"


def test_a_tracking_report_beats_the_table_beside_it() -> None:
    found = score(runs_of(tracking=[_report(1.0)], emissions=[_fork_table()]))["energy_gross"]
    assert found.per_run == [1.0]


def test_rows_whose_clock_ran_backwards_are_left_out() -> None:
    table = _fork_table(duration=[0.0, 10.0, 5.0, 15.0], energy_consumed=[0.0, 0.2, 0.9, 0.3])
    assert report_of_table(table).energy.gross_kwh == pytest.approx(0.3)


def test_missing_columns_and_garbage_cost_only_their_own_numbers() -> None:
    table = _fork_table(energy_consumed=["0.1", "", "n/a", "0.4"])
    del table["ram_process"]
    scores = score(runs_of(emissions=[table, {}, {"cpu_power": ["5"]}]))
    assert scores["energy_gross"].per_run == [pytest.approx(0.4), None, None]
    assert scores["memory_rss_peak"].per_run == []
    assert scores["power_cpu_mean"].per_run == [50.0, None, 5.0]


def test_processes_are_merged_within_the_tolerance_only() -> None:
    first = ([0.0, 10.0, 20.0, 30.0], [1.0, 1.0, 1.0, 1.0])
    second = ([9.0, 15.0], [4.0, 5.0])
    assert merge_on_time([first, second]).tolist() == [1, 5, 6, 1]


def test_timestamps_with_and_without_a_zone() -> None:
    times = seconds_of(["1970-01-01T00:01:00", "1970-01-01T01:01:00+01:00", "garbage"])
    assert times[:2].tolist() == [60.0, 60.0]
    assert math.isnan(times[2])


def test_latency_by_call_and_profile() -> None:
    runs = [np.arange(1, 101) * 1e-3, np.full(50, 2e-3)]
    data = runs_of(latency={"infer_once": runs, "round_trip": [runs[0]]}, latency_first={"infer_once": [0.5, 0.7]})
    scores = score(data)
    assert scores["latency_infer_once_median"].per_run == pytest.approx([0.0505, 0.002])
    assert scores["latency_infer_once_p99"].per_run[0] == pytest.approx(np.percentile(runs[0], 99))
    assert scores["latency_infer_once_first"].value == pytest.approx(0.6)
    assert scores["latency_infer_once_throughput"].per_run[1] == pytest.approx(500.0)
    assert scores["latency_infer_once_throughput"].direction == "max"
    assert "with transport" in str(scores["latency_round_trip_mean"].method)
    assert scores["latency_preprocess_observation_max"].value is None
    earlier = score(data, "upstream")["latency_infer_once_mean"]
    assert earlier.value == pytest.approx(np.concatenate(runs).mean())
    assert earlier.spread == pytest.approx(np.concatenate(runs).std())


def test_wall_clock_takes_the_evaluators_clock_first() -> None:
    data = runs_of(tracking=[_report(1.0), _report(1.0)], wall_clock=[42.0])
    assert score(data)["wall_clock"].per_run == [42.0, 60.0]


def test_reads_what_the_trackers_really_write(tmp_path: Path) -> None:
    from a2perf.metrics.trackers.sampler import Sampler

    child = Child([sys.executable, "-S", "-c", "while True: pass"])
    try:
        sampler = Sampler(tmp_path, interval_s=0.1, with_codecarbon=False)
        sampler.attach(child.pid)
        time.sleep(0.6)
        report = sampler.stop()
    finally:
        child.kill()
        child.wait(300)
    with (tmp_path / "train_emissions.csv").open() as file:
        rows = list(csv.DictReader(file))
    table = {name: [row[name] for row in rows] for name in rows[0]}
    tracked = score(runs_of(tracking=[msgspec.to_builtins(report)]))
    tabled = score(runs_of(emissions=[table]))
    assert tracked["cpu_time"].value == pytest.approx(report.cpu_seconds)
    assert tracked["energy_gross"].value == pytest.approx(report.energy.gross_kwh)
    assert tabled["energy_gross"].value == pytest.approx(report.energy.gross_kwh, rel=1e-6)
    assert tabled["energy_gross"].provenance == tracked["energy_gross"].provenance
    assert tabled["memory_rss_peak"].value == pytest.approx(report.rss_peak_bytes, rel=0.2)
    assert os.path.exists(tmp_path / "system_trace.csv")


# --- uncertainty of energies ------------------------------------------------------------------------------------------


def test_one_run_has_the_interval_of_its_measurement() -> None:
    found = score(runs_of(tracking=[_report(10.0, unsure=_uncertainty(0.3, 0.4))]))
    assert found["energy_gross"].uncertainty == pytest.approx(1.0)
    assert found["energy_gross"].interval == pytest.approx((9.0, 11.0))
    assert found["energy_net"].uncertainty == pytest.approx(0.5)
    # a mean power is as uncertain as the energy it is made of
    assert found["power_mean"].uncertainty == pytest.approx(10.0)
    assert found["power_peak"].uncertainty is None


def test_what_all_runs_share_does_not_average_out() -> None:
    energies = [10.0, 10.4, 9.8, 10.2]
    found = score(runs_of(tracking=[_report(kwh, unsure=_uncertainty(0.3, 0.4)) for kwh in energies]))["energy_gross"]
    expected = math.hypot(2 * 0.3, 2 * 0.4 / math.sqrt(4))
    assert found.uncertainty == pytest.approx(expected)
    low, high = mean_interval(np.array(energies))
    mean = np.mean(energies)
    assert found.interval == pytest.approx(
        (mean - math.hypot(mean - low, expected), mean + math.hypot(high - mean, expected))
    )
    assert (
        score(runs_of(tracking=[_report(1.0, unsure=_uncertainty(0.1, 0.1))]), profile="upstream")[
            "energy_gross"
        ].interval
        is None
    )


def test_record_without_an_uncertainty_keeps_its_numbers_and_it_stays_unknown() -> None:
    old = score(runs_of(tracking=[_report(1.0), _report(3.0)]))["energy_gross"]
    assert (old.value, old.uncertainty) == (2.0, None)
    assert old.interval == pytest.approx(mean_interval(np.array([1.0, 3.0])))
    one_old = score(runs_of(tracking=[_report(1.0), _report(3.0, unsure=_uncertainty(0.1, 0.1))]))["energy_gross"]
    assert one_old.uncertainty is None


def test_sums_of_one_instrument_keep_its_error_and_different_instruments_are_independent() -> None:
    part = EnergyUncertainty(model_kwh=0.3, sampling_kwh=0.4, expanded_kwh=1.0)
    together = combined_uncertainty([part, part], same_instrument=True)
    assert (together.model_kwh, together.sampling_kwh) == pytest.approx((0.6, 0.4 * math.sqrt(2)))
    assert together.expanded_kwh == pytest.approx(2 * math.hypot(0.6, 0.4 * math.sqrt(2)))
    apart = combined_uncertainty([part, part])
    assert apart.expanded_kwh == pytest.approx(math.sqrt(2))
    total = summed([read_tracking(_report(1.0, unsure=_uncertainty(0.3, 0.4)))] * 2)
    assert total is not None
    assert total.energy.gross_uncertainty.expanded_kwh == pytest.approx(together.expanded_kwh)
    unknown = summed([read_tracking(_report(1.0)), read_tracking(_report(1.0, unsure=_uncertainty(0.3, 0.4)))])
    assert unknown is not None
    assert math.isnan(unknown.energy.gross_uncertainty.expanded_kwh)


def test_earlier_attempts_get_the_uncertainty_of_the_last_in_proportion() -> None:
    first = Attempt(number=1, started_at="", host="a", pid=1, boot_id="b", gross_kwh=3.0, net_kwh=1.0)
    last = Attempt(number=2, started_at="", host="a", pid=2, boot_id="b")
    report = with_earlier(_report(1.0, unsure=_uncertainty(0.03, 0.04)), [first, last])
    assert report["energy"]["gross_kwh"] == 4.0
    assert report["energy"]["gross_uncertainty"]["expanded_kwh"] == pytest.approx(4 * 0.1)
    assert report["energy"]["gross_uncertainty"]["coverage_factor"] == 2.0
