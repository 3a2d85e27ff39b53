"""The action space: all cells of the padded grid; ``sample`` draws from those that the mask allows.

A module without further imports: a participant that asks for spaces imports it, and must not wait for the engine.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray


class CellSpace(gymnasium.spaces.Discrete):
    """``Discrete(max_grid_size^2)`` that samples feasible actions even without a mask, for random agents.

    Right after ``seed`` and until the next reset or step a sample is also feasible as the first action of an episode,
    as is expected by code that seeds, samples, and then resets.
    """

    def __init__(self, cells: int) -> None:
        super().__init__(cells)
        self._now = self._first = np.ones(cells, np.int8)
        self._seeded = False

    def arguments(self) -> tuple[int]:
        """Returns the arguments that make the space without a mask, see ``plain_spaces``."""
        return (int(self.n),)

    def show(self, mask: NDArray[np.int8], *, first: bool) -> None:
        """Sets the mask of the next action; ``first`` marks the first action of an episode."""
        self._now, self._seeded = mask, False
        if first:
            self._first = mask

    def seed(self, seed: Any = None) -> Any:
        """Seeds the generator of samples."""
        self._seeded = True
        return super().seed(seed)

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        """Draws a cell: by ``mask`` or ``probability`` if given, otherwise a feasible one."""
        if mask is None and probability is None:
            mask = self._now
            if self._seeded and (both := self._now & self._first).any():
                mask = both
            if not mask.any():
                mask = None
        drawn: np.int64 = super().sample(mask, probability)
        return drawn

    def __repr__(self) -> str:
        """As the plain space's: it has the same elements."""
        return f"Discrete({self.n})"
