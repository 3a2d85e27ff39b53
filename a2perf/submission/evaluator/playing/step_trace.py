"""The trace of an episode, which allows to compare two runs step by step, and the hash that it consists of."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from a2perf.submission.participant.shared_region import plain_arrays

_MOST_INTEGERS, _MOST_STRUCTURES = 1 << 12, 64
_LOW_BITS = 0xFFFFFFFF


class StepTrace:
    """The steps of one episode, small enough to keep: the reward, and hashes of observation and action.

    Two runs with the same seeds can then be compared step by step (``a2perf reproduce``): the first difference shows
    whether the environment or the policy acted differently first.

    Attributes:
        observation: the last one that was added.
        action: the last one that was added.
    """

    observation: Any = None
    action: Any = None

    def __init__(self) -> None:
        self._observations: list[int] = []
        self._actions: list[int] = []
        self._rewards: list[float] = []

    def see(self, observation: Any) -> None:
        """Adds an observation before the step, which may reuse its memory."""
        self.observation = observation
        self.see_hash(value_hash(observation))

    def see_hash(self, digest: int) -> None:
        """Adds an observation by its hash."""
        self._observations.append(digest)

    def act(self, action: Any) -> None:
        """Adds the action."""
        self.action = action
        self._actions.append(value_hash(action))

    def reward(self, reward: float) -> None:
        """Adds the reward of the step."""
        self._rewards.append(reward)

    def record(self) -> dict[str, list[int] | list[float]]:
        """Returns one list per name: ``observation_xxh3`` and ``action_xxh3``, and ``reward``."""
        return {"observation_xxh3": self._observations, "action_xxh3": self._actions, "reward": self._rewards}


def value_hash(value: Any) -> int:
    """Returns a hash in [0, 2^32) of an element of a space: a number, an array, or mappings and sequences of these.

    It is XXH3, seeded with the structure of the value: it names the first difference of two runs, and protects nothing.
    """
    if type(value) is int and abs(value) < 1 << 63:
        return _integer_hash(value)
    arrays = plain_arrays(np.asarray(value) if isinstance(value, np.generic | float) else value)
    if arrays is None:
        parts: list[bytes] = []
        _collect(value, parts)
        arrays = {"bytes": np.frombuffer(b"".join(parts) or b"\0", np.uint8)}
    digest = xxhash.xxh3_64(seed=_seed(tuple((name, array.dtype.str, array.shape) for name, array in arrays.items())))
    for array in arrays.values():
        digest.update(np.ascontiguousarray(array).data)
    return digest.intdigest() & _LOW_BITS


def row_hashes(rows: NDArray[Any] | Mapping[str, NDArray[Any]], chosen: Iterable[int]) -> list[int]:
    """Returns ``value_hash`` of each chosen row of stacked arrays."""
    named = rows if isinstance(rows, Mapping) else {"": rows}
    seed = _seed(tuple((name, array.dtype.str, array.shape[1:]) for name, array in named.items()))
    arrays = [np.ascontiguousarray(array) for array in named.values()]
    hashes = []
    for row in chosen:
        digest = xxhash.xxh3_64(seed=seed)
        for array in arrays:
            digest.update(array[row])
        hashes.append(digest.intdigest() & _LOW_BITS)
    return hashes


@functools.lru_cache(_MOST_INTEGERS)
def _integer_hash(value: int) -> int:
    return value_hash(np.int64(value))


@functools.lru_cache(_MOST_STRUCTURES)
def _seed(structure: tuple[tuple[str, str, tuple[int, ...]], ...]) -> int:
    return xxhash.xxh3_64_intdigest(repr(structure).encode())


def _collect(value: Any, parts: list[bytes]) -> None:
    if isinstance(value, Mapping):
        for name, item in value.items():
            parts.append(f"{name}\0".encode())
            _collect(item, parts)
    elif isinstance(value, list | tuple):
        parts.append(f"{len(value)}\0".encode())
        for item in value:
            _collect(item, parts)
    elif isinstance(value, str):
        parts.append(value.encode())
    else:
        array = np.ascontiguousarray(value)
        parts.append(f"{array.dtype.str}{array.shape}\0".encode())
        parts.append(repr(value).encode() if array.dtype.hasobject else array.tobytes())
