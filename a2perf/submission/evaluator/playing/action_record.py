"""The actions of an episode in compact form, for the consistency of trajectories.

An action becomes one integer per step. A discrete action is its own integer. A vector is first turned into one bin per
dimension: the value itself if the dimension is discrete, else one of ``BINS`` bins of equal width over the bounds of
the action space. The integer of a vector is a hash of its bins; equal bins have equal integers in all runs. The integer
of a text is a hash of it.
Distributions of vectors are kept per dimension, because the joint distribution of twelve motors would be as sparse as
the episode is long.

A dimension without finite bounds is mapped to [-1, 1] by x / (1 + |x|) before it is divided into bins.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from a2perf.records import ActionRecord

BINS = 64
MOST_STEPS = 20_000
"""Steps of the longest recorded sequence; edit distances take a time that grows with the square."""

_MOST_DIMENSIONS = 256
_HASH_BYTES = 6  # below 2^53, up to which every reader of JSON keeps integers exactly


class ActionRecorder:
    """Records the actions of one episode."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._space = space
        self._digest = hashlib.sha256()
        self._sequence: list[int] = []
        self._binned = _binned_of(space)
        sizes = () if self._binned is None else self._binned.sizes
        self._counts = [np.zeros(size, np.int64) for size in sizes]
        self._steps = 0

    def __call__(self, env: Any, observation: Any, action: Any) -> None:
        """Adds an action; called like ``on_step`` of a rollout."""
        self._steps += 1
        if isinstance(self._space, spaces.Discrete):
            self._digest.update(int(action).to_bytes(8, "little", signed=True))
            self._sequence.append(int(action))
            return
        flat = self._space.is_np_flattenable
        self._digest.update(
            np.ascontiguousarray(spaces.flatten(self._space, action)).tobytes() if flat else repr(action).encode()
        )
        if isinstance(self._space, spaces.Text):
            self._sequence.append(_code(str(action).encode()))
            return
        if self._binned is not None:
            bins = self._binned(action)
            for counts, place in zip(self._counts, bins.tolist(), strict=True):
                counts[place] += 1
            self._sequence.append(_code(bins.astype("<i8").tobytes()))

    def record(self) -> ActionRecord:
        """Returns the record of the episode."""
        return ActionRecord(
            sha256=self._digest.hexdigest(),
            bins=BINS if isinstance(self._space, spaces.Box) and self._binned is not None else None,
            sequence=self._sequence if self._steps <= MOST_STEPS else [],
            histograms=[counts.tolist() for counts in self._counts],
        )


class _Bins:
    """Turns vectors into one bin per dimension."""

    def __init__(self, low: NDArray[Any], high: NDArray[Any], sizes: NDArray[np.int64]) -> None:
        self._low, self._high = low.astype(np.float64).ravel(), high.astype(np.float64).ravel()
        self.sizes = tuple(sizes.ravel().tolist())
        self._most = sizes.ravel() - 1
        self._open = ~(np.isfinite(self._low) & np.isfinite(self._high))
        self._low[self._open], self._high[self._open] = -1.0, 1.0

    def __call__(self, action: Any) -> NDArray[np.int64]:
        values = np.asarray(action, np.float64).ravel()
        values = np.where(self._open, values / (1.0 + np.abs(values)), values)
        width = np.where(self._high > self._low, self._high - self._low, 1.0)
        places = np.floor((values - self._low) / width * (self._most + 1))
        return np.clip(places, 0, self._most).astype(np.int64)


def _binned_of(space: spaces.Space[Any]) -> _Bins | None:
    """Returns the bins of a space of vectors; None for other spaces and for very long vectors."""
    if isinstance(space, spaces.Box):
        low, high, sizes = space.low, space.high, np.full(space.shape, BINS)
    elif isinstance(space, spaces.MultiDiscrete):
        low, high, sizes = space.start, space.start + space.nvec, np.asarray(space.nvec, np.int64)
    elif isinstance(space, spaces.MultiBinary):
        low, high, sizes = np.zeros(space.shape), np.full(space.shape, 2), np.full(space.shape, 2)
    else:
        return None
    return _Bins(low, high, sizes) if 0 < sizes.size <= _MOST_DIMENSIONS else None


def _code(value: bytes) -> int:
    """Returns one integer for an action."""
    return int.from_bytes(hashlib.blake2b(value, digest_size=_HASH_BYTES).digest(), "little")
