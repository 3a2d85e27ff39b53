"""The action of ``CircuitTraining-MacroPlacement-v0``: a whole placement. ``sample`` draws legal ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from a2perf.domains.circuit_training.netlists.netlist import ORIENTATIONS
from a2perf_placement.benchmark import Benchmark
from a2perf_placement.place_function import NO_CLAIM
from a2perf_placement.placers import random_placement

Action = dict[str, NDArray[Any]]


class PlacementSpace(spaces.Dict):
    """``positions`` (um, float64, shape (nodes, 2)), ``orientations`` (index, shape (nodes,)), ``claimed_cost``.

    A claimed cost is one number, negative for none. Positions are not bounded here: the environment refuses those
    outside of the canvas instead of moving them into it.
    """

    def __init__(self, benchmark: Benchmark) -> None:
        nodes = benchmark.num_nodes
        super().__init__(
            {
                "positions": spaces.Box(-np.inf, np.inf, (nodes, 2), np.float64),
                "orientations": spaces.MultiDiscrete(np.full(nodes, len(ORIENTATIONS))),
                "claimed_cost": spaces.Box(-np.inf, np.inf, (1,), np.float64),
            }
        )
        self._benchmark = benchmark

    def sample(self, mask: Any = None, probability: Any = None) -> Action:  # type: ignore[override]
        """Draws a legal placement; ``mask`` and ``probability`` are ignored."""
        positions, turned = random_placement(self._benchmark, self.np_random)
        return {"positions": positions, "orientations": turned, "claimed_cost": np.array([NO_CLAIM])}

    def __repr__(self) -> str:
        """Short: messages about a wrong answer show it."""
        return f"positions of shape {self['positions'].shape}, orientations, claimed_cost"
