"""The trace of an episode, which allows to compare two runs step by step, and the hash that it consists of."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.submission.participant.shared_region import Layout, PackedArrays

_MOST_INTEGERS, _MOST_STRUCTURES = 1 << 12, 64


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
        self._layout: Layout | None = None

    def see(self, observation: Any, packed: PackedArrays | None) -> None:
        """Adds an observation before the step, which may reuse its memory; ``packed`` is what was sent of it."""
        self.observation = observation
        if packed is None:  # a row of a batch
            if self._layout is None or not self._layout.write(("", observation)):
                self._layout = Layout.of(("", observation))
                if self._layout is not None:
                    self._layout.open(bytearray(self._layout.size))
                    self._layout.write(("", observation))
            packed = None if self._layout is None else self._layout.packed
        self._observations.append(value_hash(observation, packed))

    def act(self, action: Any) -> None:
        """Adds the action."""
        self.action = action
        self._actions.append(value_hash(action))

    def reward(self, reward: float) -> None:
        """Adds the reward of the step."""
        self._rewards.append(reward)

    def record(self) -> dict[str, list[int] | list[float]]:
        """Returns one list per name: ``observation_digest`` and ``action_digest``, and ``reward``."""
        return {"observation_digest": self._observations, "action_digest": self._actions, "reward": self._rewards}


def value_hash(value: Any, packed: PackedArrays | None = None) -> int:
    """Returns a hash in [0, 2^32) of an element of a space: a number, an array, or mappings and sequences of these.

    It is BLAKE2b: a sum of the words that was multiplied, which is faster for pictures, is the same for two changed
    signs.
    """
    if type(value) is int and abs(value) < 1 << 63:
        return _integer_hash(value)
    if packed is None:
        packed = _packed(value)
    states = packed.states
    if not packed.parts:
        digest = _begun(packed.words, packed)
        return int.from_bytes(digest.digest(), "little")
    # Of a page or a board most arrays are those of the step before: the hash continues at the first that changed.
    for part in packed.parts[len(states) :]:
        if states:
            digest = states[-1].copy()
            digest.update(part.data)
        else:
            digest = _begun(part, packed)
        states.append(digest)
    return int.from_bytes(states[-1].digest(), "little")


def _begun(words: NDArray[np.uint64], packed: PackedArrays) -> hashlib.blake2b:
    return hashlib.blake2b(words.data, digest_size=4, person=_structure_hash(packed.structure))


@functools.lru_cache(_MOST_INTEGERS)
def _integer_hash(value: int) -> int:
    return value_hash(np.int64(value))


@functools.lru_cache(_MOST_STRUCTURES)
def _structure_hash(structure: tuple[tuple[Any, ...], ...]) -> bytes:
    return hashlib.blake2b(repr(structure).encode(), digest_size=hashlib.blake2b.PERSON_SIZE).digest()


def _packed(value: Any) -> PackedArrays:
    """Packs a value as it would be sent; one that does not consist of arrays becomes one array of bytes."""
    request = ("", np.asarray(value) if isinstance(value, np.generic | float) else value)
    layout = Layout.of(request)
    if layout is None:
        parts: list[bytes] = []
        _collect(value, parts)
        request = ("", {"bytes": np.frombuffer(b"".join(parts) or b"\0", np.uint8)})
        layout = Layout.of(request)
    assert layout is not None
    layout.open(bytearray(layout.size))
    layout.write(request)
    assert layout.packed is not None
    return layout.packed


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
