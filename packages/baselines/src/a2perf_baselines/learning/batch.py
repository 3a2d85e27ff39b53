"""Environments that step together, as ``learning.torch.ppo`` trains on them; this module needs NumPy only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Observations = Mapping[str, NDArray[Any]]
"""Arrays by name; the first axis counts the environments."""


class BatchStep(NamedTuple):
    """What a step of all environments returns; environments that ended have begun their next episode.

    Attributes:
        observations: of the step, or the first ones of the next episode where one ended; the next step may write the
            arrays again.
        rewards: float32, shape (n,).
        terminated: bool, shape (n,): the episode ended, and nothing follows.
        truncated: bool, shape (n,): the episode was cut off, and not terminated as well; the value of its last state
            counts.
        final_observations: the last observations of episodes that were cut off, by index of the environment in
            ``final_indices``; None if none was.
        final_indices: int64, shape (k,).
    """

    observations: Observations
    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    final_observations: Observations | None = None
    final_indices: NDArray[np.int64] | None = None


class BatchEnvironment(Protocol):
    """Environments that step together."""

    count: int

    def reset(self, seed: int) -> Observations:
        """Begins an episode in each environment; ``seed`` determines all later episodes, too."""

    def step(self, actions: NDArray[Any]) -> BatchStep:
        """Steps each environment; ``actions`` has one row per environment."""
