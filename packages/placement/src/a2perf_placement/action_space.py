"""The action of ``CircuitTraining-MacroPlacement-v0``: a whole placement. ``sample`` draws legal ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from a2perf.domains.circuit_training.netlists.netlist import ORIENTATIONS

NO_CLAIM = -1.0
Action = dict[str, NDArray[Any]]


class PlacementSpace(spaces.Dict):
    """``positions`` (um, float64, shape (nodes, 2)), ``orientations`` (index, shape (nodes,)), ``claimed_cost``.

    A claimed cost is one number, negative for none. Positions are not bounded here: the environment refuses those
    outside of the canvas instead of moving them into it.
    """

    def __init__(self, nodes: int, draw: Callable[[np.random.Generator], Action]) -> None:
        super().__init__(
            {
                "positions": spaces.Box(-np.inf, np.inf, (nodes, 2), np.float64),
                "orientations": spaces.MultiDiscrete(np.full(nodes, len(ORIENTATIONS))),
                "claimed_cost": spaces.Box(-np.inf, np.inf, (1,), np.float64),
            }
        )
        self._draw = draw

    def sample(self, mask: Any = None, probability: Any = None) -> Action:  # type: ignore[override]
        """Draws a legal placement; ``mask`` and ``probability`` are ignored."""
        return self._draw(self.np_random)

    def __repr__(self) -> str:
        """Short: messages about a wrong answer show it."""
        return f"positions of shape {self['positions'].shape}, orientations, claimed_cost"
