"""``tracking.json`` is typed to the leaves; what is missing or damaged is NaN or empty and costs only itself."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from a2perf.runs.tracking_record import (
    ComponentEnergy,
    PhaseCost,
    TrackedEnergy,
    TrackingReport,
    nothing_tracked,
    read_tracking,
    recorded,
    summed,
)

WRITTEN = TrackingReport(
    mode="train",
    cpu_seconds=1.5,
    rss_peak_bytes=300,
    wall_s=2.0,
    cpu_method="cgroup v2",
    notes=["a note"],
    energy=TrackedEnergy(
        cpu=ComponentEnergy(gross_kwh=0.25, quality="measured", scope="machine", method="rapl"),
        gross_kwh=0.25,
        net_kwh=0.125,
        quality="measured",
        method="cpu=rapl",
    ),
    phases={"load": PhaseCost(wall_s=1.0)},
)


def test_what_trackers_write_is_read_as_it_was() -> None:
    problems: list[str] = []
    assert read_tracking(msgspec.to_builtins(WRITTEN), problems) == WRITTEN
    assert problems == []


def test_a_file_of_an_older_version_has_fewer_fields() -> None:
    report = read_tracking({"energy": {"gross_kwh": 1}, "of_a_later_version": 3})
    assert report.energy.gross_kwh == 1
    assert math.isnan(report.energy.cpu.gross_kwh)
    assert (report.energy.quality, report.gpu.count, report.pss_peak_bytes, report.phases) == ("", 0, None, {})
    assert recorded(report.wall_s) is None
    assert recorded(report.energy.gross_kwh) == 1.0


@pytest.mark.parametrize("damage", ["text", True, [1], {"a": 1}])
def test_a_damaged_number_costs_only_itself(damage: Any) -> None:
    content = msgspec.to_builtins(WRITTEN)
    content["energy"]["net_kwh"] = damage
    problems: list[str] = []
    report = read_tracking(content, problems)
    assert math.isnan(report.energy.net_kwh)
    assert report.energy.gross_kwh == 0.25
    assert [problem.partition(":")[0] for problem in problems] == ["energy.net_kwh"]


@pytest.mark.parametrize("content", [[], "text", 3, {"energy": []}, {"phases": 3}, {"cpu_seconds": 10**400}])
def test_a_damaged_section_is_stated(content: Any) -> None:
    problems: list[str] = []
    assert math.isnan(read_tracking(content, problems).cpu_seconds)
    assert len(problems) == 1


def test_tasks_sum_and_what_no_task_recorded_stays_unknown() -> None:
    total = summed([WRITTEN, read_tracking({"cpu_seconds": 0.5, "cpu_method": "cgroup v2"})])
    assert total is not None
    assert (total.cpu_seconds, total.rss_peak_bytes, total.cpu_method) == (2.0, 300, "cgroup v2")
    assert (total.energy.quality, total.energy.cpu.gross_kwh) == ("measured", 0.25)
    assert total.energy.method == "cpu=rapl; sum over 1 tasks; tasks side by side share machine-wide counters"
    assert math.isnan(total.wall_s)
    assert total.energy.gpu.quality == "none"
    assert summed([]) is None


def test_a_run_without_trackers_has_an_empty_report() -> None:
    assert math.isnan(nothing_tracked().energy.cpu.gross_kwh)
