"""Folders of recorded runs for the tests of reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.recorded_runs import RunMaker


@pytest.fixture
def runs(tmp_path: Path) -> RunMaker:
    """An empty folder of runs."""
    return RunMaker(tmp_path / "runs")


@pytest.fixture
def inference_run(runs: RunMaker) -> RunMaker:
    """One finished inference run with everything in it, at ``runs/gait``."""
    runs.manifest("gait", "inference")
    runs.rollouts("gait", [120.0, 122.0, 124.0, 118.0, 40.0])
    runs.latency("gait")
    runs.costs("gait", "inference")
    runs.strip("gait")
    return runs
