"""Action noise for demonstrations: the executed action differs from the policy's action, and both are recorded.

Episodes of a good policy do not contain states that it avoids, so a policy cloned from them fails after its first
error. Noise on the executed actions reaches such states, and the policy's own actions show how to recover (Laskey et
al. 2017, "DART: Noise Injection for Robust Imitation Learning").
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from a2perf.errors import ConfigError

POLICY_ACTION = "policy_action"
"""The entry of ``infos`` with the policy's action; the last row, after the end, repeats the one before."""

_DISTURBED = 0.5  # share of the steps; the others keep the data close to the policy's own trajectory


class ActionNoise:
    """Adds noise to actions.

    Args:
        amount: for a ``Box`` the standard deviation of the noise, which is added in half of the steps before clipping,
            in units of the action; for a ``Discrete`` the probability of a random action within the action mask.

    Raises:
        ConfigError: the space is neither ``Box`` nor ``Discrete``.
    """

    def __init__(self, amount: float, space: spaces.Space[Any]) -> None:
        if not isinstance(space, spaces.Box | spaces.Discrete):
            raise ConfigError(
                f"noise cannot be added to actions of {space}", hint="remove --action-noise for this environment"
            )
        if isinstance(space, spaces.Discrete) and amount > 1:
            raise ConfigError(f"{amount:g} is not a probability", hint="give --action-noise from 0 to 1 for this task")
        self._amount = amount
        self._space = space
        self._generator = np.random.default_rng()

    def begin(self, seed: int) -> None:
        """Starts an episode; the noise depends only on its seed."""
        # The keys 11 to 13 belong to `plan`.
        self._generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(14,)))

    def disturbed(self, action: Any, mask: Any) -> Any:
        """Returns the action that is executed.

        Args:
            action: the policy's action.
            mask: 1 for each allowed action, or None.
        """
        space = self._space
        if isinstance(space, spaces.Box):
            noise = self._generator.normal(0.0, self._amount, space.shape)
            if self._generator.random() >= _DISTURBED:
                return action
            return np.clip(action + noise, space.low, space.high).astype(space.dtype)
        if self._generator.random() >= self._amount:
            return action
        allowed = np.arange(space.n) if mask is None else np.flatnonzero(mask)
        return np.int64(space.start + self._generator.choice(allowed)) if allowed.size else action
