"""Disturbed demonstrations: what is done differs from what the policy wanted, and both are kept.

Episodes of a good policy never show how it comes back from where it never is, so a clone of them fails as soon as it
errs. Noise on the executed actions leads there, and the policy's own answers say how to come back (Laskey et al. 2017,
"DART: Noise Injection for Robust Imitation Learning").
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from a2perf.errors import ConfigError

POLICY_ACTION = "policy_action"
"""The entry of ``infos`` with what the policy wanted; the last row, after the end, repeats the one before."""

_DISTURBED = 0.5  # of the steps, so that the policy's own course is seen too


class ActionNoise:
    """Disturbs actions.

    Args:
        amount: of a ``Box``, the standard deviation of what is added in half of the steps, in units of the action,
            before clipping; of a ``Discrete``, the probability that another action is drawn, within the action mask.
        space: of the actions.

    Raises:
        ConfigError: the space is neither.
    """

    def __init__(self, amount: float, space: spaces.Space[Any]) -> None:
        if not isinstance(space, spaces.Box | spaces.Discrete):
            raise ConfigError(
                f"noise cannot be added to actions of {space}", hint="leave --action-noise out for this environment"
            )
        if isinstance(space, spaces.Discrete) and amount > 1:
            raise ConfigError(f"{amount:g} is not a probability", hint="give --action-noise from 0 to 1 for this task")
        self._amount = amount
        self._space = space
        self._generator = np.random.default_rng()

    def begin(self, seed: int) -> None:
        """Begins an episode, whose noise depends on its seed alone."""
        self._generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(14,)))

    def disturbed(self, action: Any, mask: Any) -> Any:
        """Returns the action that is executed.

        Args:
            action: what the policy wanted.
            mask: 1 for each action that is allowed, or None.
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
