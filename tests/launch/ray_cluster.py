"""A private Ray cluster for tests, with any number of nodes, all on this machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_ATTEMPTS = 2
_QUICK_HEALTH_CHECKS = {
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_failure_threshold": "8",
}


class RayCluster:
    """A running cluster: a head with one processor, to which nodes can be added.

    Attributes:
        address: what a launcher is given.
    """

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.address: str = cluster.address

    def add_node(self) -> Any:
        """Adds a node with one processor."""
        node = _patiently(lambda: self._cluster.add_node(num_cpus=1))
        self._cluster.wait_for_nodes()
        return node

    def lose_node(self, node: Any) -> None:
        """Takes a node away as a power failure does."""
        self._cluster.remove_node(node, allow_graceful=False)


def missing() -> str | None:
    """Says in a few words why no cluster can be started here, or returns None."""
    return None if importlib.util.find_spec("ray") else "no ray"


@contextmanager
def running_cluster() -> Iterator[RayCluster]:
    """Starts a cluster, and takes it away again."""
    # Short, because names of sockets are limited; private, or another launcher of this user would find the cluster.
    folder = tempfile.mkdtemp(prefix="a2perf-ray-")
    before = dict(os.environ)
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_TMPDIR=folder, **_QUICK_HEALTH_CHECKS)
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 * 2**20}
    try:
        cluster = _patiently(lambda: Cluster(initialize_head=True, head_node_args=head))
        try:
            yield RayCluster(cluster)
        finally:
            cluster.shutdown()
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)


def _patiently(start: Callable[[], Any]) -> Any:
    """Starts a node. Ray gives it 30 s, which cannot be changed; a test on a machine too busy for that is skipped."""
    for _ in range(_ATTEMPTS):
        try:
            return start()
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
    pytest.skip(f"this machine is too busy: a Ray node did not start within 30 s, {_ATTEMPTS} times")
