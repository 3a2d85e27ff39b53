"""The scale that puts scores of different tasks side by side: 0 is a floor, 1 an expert.

The floor is a trivial policy. The scale uses stored scores of the two policies, never the runs under comparison (Mnih
et al. 2015, "Human-level control through deep reinforcement learning", with an expert policy in the human's place).
Beyond 1 is better than the expert.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from a2perf.arrays import Values


@dataclass(frozen=True)
class ReferenceScale:
    """The two ends of the scale of one task.

    Attributes:
        expert: mean return of the expert, different from ``floor``.
    """

    floor: float
    expert: float
    source: str = ""

    def normalise(self, returns: ArrayLike) -> Values:
        """Returns ``(returns - floor) / (expert - floor)``, shaped like ``returns``."""
        return (np.asarray(returns, dtype=np.float64) - self.floor) / (self.expert - self.floor)

    def return_at(self, score: ArrayLike) -> Values:
        """Returns the returns at normalised scores, shaped like ``score``."""
        return self.floor + np.asarray(score, dtype=np.float64) * (self.expert - self.floor)
