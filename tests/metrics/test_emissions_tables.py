"""Costs of emissions tables as other tools leave them: sessions one after the other, rows without empty columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from a2perf.metrics.system_series import report_of_table
from a2perf.runs.bundles.files import BundleFiles
from a2perf.runs.bundles.tables import read_emissions
from a2perf.runs.tracking_record import TrackingReport

HEAD = (
    "timestamp,project_name,run_id,duration,emissions,emissions_rate,cpu_power,gpu_power,ram_power,cpu_energy,"
    "gpu_energy,ram_energy,energy_consumed,country_name,country_iso_code,region,cloud_provider,cloud_region,os"
)


def row(run: str, at: str, duration: float, watts: float, kwh: float, end: str = "Testland,TST,,,,Linux") -> str:
    return f"2030-01-01T{at},p,{run},{duration},0.1,0.1,{watts},0,0,{kwh},0,0,{kwh},{end}"


def report(folder: Path, *rows: str) -> tuple[TrackingReport, list[str]]:
    (folder / "emissions.csv").write_text("\n".join([HEAD, *rows]) + "\n")
    columns, conditions = read_emissions(BundleFiles(folder), ["emissions.csv"])
    return report_of_table(columns), conditions


def test_sessions_one_after_the_other_are_not_parallel_workers(tmp_path: Path) -> None:
    sessions = [
        row(run, f"{hour}:00:{second:02d}", second, 5.0, second * 1e-6)
        for run, hour in (("a", 10), ("b", 11), ("c", 12))
        for second in (10, 20)
    ]
    found, _ = report(tmp_path, *sessions)
    assert found.energy.cpu.power_mean_w == pytest.approx(5.0)
    assert found.energy.gross_kwh == pytest.approx(60e-6)
    assert found.wall_s == pytest.approx(30.0)  # from the first to the last row of each
    assert found.processes_peak == 1


def test_workers_at_the_same_time_add_up_their_powers(tmp_path: Path) -> None:
    workers = [row(run, f"10:00:{at}", at - 10, 5.0, 1e-6 * (at - 10)) for run in "ab" for at in (20, 30)]
    found, _ = report(tmp_path, *workers)
    assert found.energy.cpu.power_mean_w == pytest.approx(10.0)
    assert (found.wall_s, found.processes_peak) == (pytest.approx(10.0), 2)


def test_rows_without_their_empty_columns_count_with_their_energies(tmp_path: Path) -> None:
    short = "Testland,TST,,Linux"
    found, conditions = report(
        tmp_path,
        row("a", "10:00:10", 10, 20.0, 0.001),
        row("a", "10:00:20", 20, 20.0, 0.002, short),
        row("b", "10:00:20", 10, 20.0, 0.004, short),
    )
    assert found.energy.gross_kwh == pytest.approx(0.006)
    assert any("2 row(s) without their empty columns" in text for text in conditions)


def test_a_run_that_cannot_be_read_leaves_no_partial_sum(tmp_path: Path) -> None:
    torn = "2030-01-01T10:00:10,p,b,10,0.1,0.1,20,0,0,0.004,Testland,TST,,,,Linux"
    found, conditions = report(tmp_path, row("a", "10:00:10", 10, 20.0, 0.001), torn)
    assert found.energy.gross_kwh != pytest.approx(0.001)
    assert any("no costs: those of 1 run(s)" in text for text in conditions)
