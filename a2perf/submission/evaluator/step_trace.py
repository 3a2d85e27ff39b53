"""What happened in every step of an episode, small enough to keep: the reward, and hashes of observation and action.

Two runs with the same seeds can then be compared step by step (``a2perf reproduce``): the first difference shows
whether the environment or the policy acted differently first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

_HASH_BYTES = 4


class StepTrace:
    """Records the steps of one episode."""

    def __init__(self) -> None:
        self._observations: list[int] = []
        self._actions: list[int] = []
        self._rewards: list[float] = []

    def act(self, observation: Any, action: Any) -> None:
        """Adds an observation and the action; call it before the step, which may reuse the observation's memory."""
        self._observations.append(value_hash(observation))
        self._actions.append(value_hash(action))

    def reward(self, reward: float) -> None:
        """Adds the reward of the step."""
        self._rewards.append(reward)

    def record(self) -> dict[str, list[int] | list[float]]:
        """Returns one list per name: ``observation`` and ``action`` (hashes), and ``reward``."""
        return {"observation": self._observations, "action": self._actions, "reward": self._rewards}


def value_hash(value: Any) -> int:
    """Returns a hash in [0, 2^32) of an element of a space: a number, an array, or mappings and sequences of these."""
    digest = hashlib.blake2b(digest_size=_HASH_BYTES)
    _update(digest, value)
    return int.from_bytes(digest.digest(), "little")


def _update(digest: Any, value: Any) -> None:
    if isinstance(value, Mapping):
        for name in sorted(value):
            digest.update(f"{name}\0".encode())
            _update(digest, value[name])
    elif isinstance(value, list | tuple):
        digest.update(f"{len(value)}\0".encode())
        for item in value:
            _update(digest, item)
    elif isinstance(value, str):
        digest.update(value.encode())
    else:
        array = np.ascontiguousarray(value)
        digest.update(f"{array.dtype.str}{array.shape}\0".encode())
        digest.update(repr(value).encode() if array.dtype.hasobject else array.tobytes())
