"""Coordinate descent on the exact cost: each node in turn goes to the best of the places around it.

Soft macros look at their neighbourhood, hard macros at all free cells of the grid. The engine of the benchmark probes
every candidate incrementally, which takes a fraction of a full evaluation.
"""

from __future__ import annotations

from a2perf_placement.benchmark import Benchmark
from a2perf_placement.placers import coordinate_descent_placement

SHARE_OF_TIME = 0.8  # of the limit; the first call also compiles the engine


def place(benchmark: Benchmark):
    """Returns the centres of all nodes and their orientations."""
    limit = SHARE_OF_TIME * benchmark.time_limit_s if benchmark.time_limit_s else 600.0
    return coordinate_descent_placement(benchmark, sweeps=6, time_s=limit, seed=benchmark.seed).named()
