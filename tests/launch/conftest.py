"""Engines and clusters of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from a2perf.launch.queue import Queue
from tests.launch import ray_cluster as rays
from tests.launch import slurm_cluster as clusters


@pytest.fixture(scope="session")
def _slurm_cluster() -> Iterator[clusters.SlurmCluster]:
    with clusters.running_cluster() as cluster:
        yield cluster


@pytest.fixture
def slurm_cluster(_slurm_cluster: clusters.SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> clusters.SlurmCluster:
    """A private cluster of two nodes, both up and free; the Slurm programs find it."""
    for name, value in _slurm_cluster.environment.items():
        monkeypatch.setenv(name, value)
    _slurm_cluster.restore()
    return _slurm_cluster


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[rays.RayCluster]:
    """A private Ray cluster of one processor."""
    with rays.running_cluster() as cluster:
        yield cluster


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    """An open queue that tries again without a pause."""
    with Queue(tmp_path / "queue.sqlite", retry_delay_s=0.0) as opened:
        yield opened
