"""Folders of recorded runs for the tests of reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from a2perf.report import write_report
from a2perf.runs import read_runs
from tests.report.recorded_runs import RunMaker
from tests.report.rivals import write_rivals


@pytest.fixture
def runs(tmp_path: Path) -> RunMaker:
    """An empty folder of runs."""
    return RunMaker(tmp_path / "runs")


@pytest.fixture
def inference_run(runs: RunMaker) -> RunMaker:
    """One finished inference run with everything in it, at ``runs/gait``."""
    runs.complete("gait")
    return runs


@pytest.fixture(scope="session")
def rivals_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a report of three rivals with three seeds each, one with measured energy; ``../runs`` holds them."""
    top = tmp_path_factory.mktemp("rivals")
    write_rivals(top / "runs", 3, 3, measured=(0,), points=60)
    return write_report(read_runs([top / "runs"]), top / "out").page
