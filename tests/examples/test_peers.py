"""Peers' programs: the published intervals, the comparison, and what is kept of an evaluation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.scripts import load_script


def test_intervals_are_those_of_the_published_spread_and_count(repository: Path, monkeypatch) -> None:
    peers = load_script(repository / "results" / "peers.py", monkeypatch)
    runs = peers.Published("CartPole-v1", 500_000, 490.04, 6.12, 3, "runs")
    assert runs.interval() == pytest.approx((474.837, 505.243), abs=1e-3)  # Student: 4.3027 * 6.12 / sqrt(3)
    episodes = peers.Published("Pendulum-v1", 20_000, -157.0, 89.0, 750, "episodes")
    assert episodes.interval() == pytest.approx((-163.38, -150.62), abs=1e-2)
    assert peers.cells(np.array([485.0, 489.0, 492.0]), runs)[-1] == "yes"
    assert peers.cells(np.array([400.0, 402.0, 401.0]), runs)[-1] == "no"
    assert peers.cells(np.array([500.0]), runs)[-1] == "one seed"  # which has no interval


def test_only_the_episodes_of_an_evaluation_are_kept(repository: Path, monkeypatch, tmp_path: Path) -> None:
    zoo = load_script(repository / "examples" / "peers" / "zoo" / "zoo.py", monkeypatch)
    monitor, table = tmp_path / "0.monitor.csv", tmp_path / "evaluation.csv"
    monitor.write_text('#{"t_start": 1.0, "env_id": "CartPole-v1"}\nr,l,t\n500.0,500,0.1\n20.5,21,0.2\n')
    assert zoo.write_evaluation(monitor, table) == [500.0, 20.5]
    assert table.read_text().split() == ["step,evaluation_return", "500,500.0", "521,20.5"]
