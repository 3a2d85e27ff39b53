"""Partitions a hypergraph with Mt-KaHyPar, the open partitioner that takes the place of hMETIS.

Its deterministic preset gives the same parts for the same hypergraph, whatever the number of threads.
(L. Gottesbüren, T. Heuer, N. Maas, P. Sanders and S. Schlag, "Scalable high-quality hypergraph partitioning", 2024.)
"""

from __future__ import annotations

import functools
import importlib
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.errors import MissingDependency

Ints = NDArray[np.int64]

PARTITIONER = "mtkahypar"


def partition(starts: Ints, pins: Ints, vertices: int, parts: int, fixed: Ints, *, imbalance: float, seed: int) -> Ints:
    """Returns the part of each vertex; few nets have vertices of several parts.

    Args:
        starts: where each net starts in ``pins``, shape (nets + 1,).
        parts: number of parts, at least 1.
        fixed: part of each vertex that is fixed, -1 for the others, shape (vertices,).
        imbalance: how much larger than the mean a part may be.

    Raises:
        MissingDependency: Mt-KaHyPar is not installed.
    """
    if parts < 2:
        return np.zeros(vertices, np.int64)
    library = _library()
    library.set_seed(seed)
    initializer = _initializer()
    context = initializer.context_from_preset(library.PresetType.DETERMINISTIC)
    context.set_partitioning_parameters(parts, imbalance, library.Objective.CUT)
    context.logging = False
    ends = pins.tolist()
    edges = [ends[start:end] for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)]
    graph = initializer.create_hypergraph(context, vertices, len(edges), edges, [1] * vertices, [1] * len(edges))
    if (fixed >= 0).any():
        graph.add_fixed_vertices(fixed.tolist(), parts)
    return np.array(graph.partition(context).get_partition(), dtype=np.int64)


def _library() -> Any:
    try:
        return importlib.import_module(PARTITIONER)
    except ImportError:
        raise MissingDependency(
            "grouping standard cells needs Mt-KaHyPar, which is not installed",
            hint="pip install -e packages/placement, in a checkout",
        ) from None


@functools.cache
def _initializer() -> Any:
    """Returns the library's state; it can be made only once per process."""
    return _library().initialize(max(1, len(os.sched_getaffinity(0))))
