"""The policy: actions are a linear map of the normalised observation."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SAVED = ("weights", "mean", "deviation", "inputs", "low", "high")


@dataclass
class RunningMoments:
    """Mean and variance of all observations so far, merged batch by batch (Chan et al. 1979)."""

    mean: NDArray[np.float64]
    squares: NDArray[np.float64]
    count: float = 0.0

    @classmethod
    def empty(cls, size: int) -> RunningMoments:
        return cls(np.zeros(size), np.zeros(size))

    def merge(self, other: RunningMoments) -> None:
        if other.count == 0:
            return
        total = self.count + other.count
        delta = other.mean - self.mean
        self.mean = self.mean + delta * (other.count / total)
        self.squares = self.squares + other.squares + delta**2 * (self.count * other.count / total)
        self.count = total

    def add(self, observation: NDArray[np.float64]) -> None:
        self.count += 1
        delta = observation - self.mean
        self.mean = self.mean + delta / self.count
        self.squares = self.squares + delta * (observation - self.mean)

    def deviation(self, least: float) -> NDArray[np.float64]:
        """Standard deviations, at least ``least``: an entry that has hardly varied yet must not become a huge gain."""
        return np.maximum(np.sqrt(self.squares / max(self.count, 1.0)), least)


@dataclass
class LinearPolicy:
    """``action = clip(weights @ ((observation[inputs] - mean) / deviation) + bias)``.

    Attributes:
        weights: shape (actions, inputs + 1); the last column is the bias.
        mean, deviation: shape (inputs,).
        inputs: indices of the entries of the observation that the policy sees.
        low, high: bounds of the action, shape (actions,).
    """

    weights: NDArray[np.float64]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    inputs: NDArray[np.int64]
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    _scaled: NDArray[np.float64] = field(init=False, repr=False)
    _offset: NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # the normalisation is folded into the map: one product per step
        self._scaled = self.weights[:, :-1] / self.deviation
        self._offset = self._scaled @ self.mean - self.weights[:, -1]

    def act(self, observation: NDArray[np.float64]) -> NDArray[np.float32]:
        return np.clip(self._scaled @ observation[self.inputs] - self._offset, self.low, self.high).astype(np.float32)

    def save(self, path: Path) -> None:
        """Replaces the file atomically: a killed run leaves the previous policy."""
        save_arrays(path, {name: getattr(self, name) for name in SAVED})

    @classmethod
    def load(cls, path: Path) -> LinearPolicy:
        with np.load(path, allow_pickle=False) as arrays:
            return cls(**{name: arrays[name] for name in SAVED})


def save_arrays(path: Path, arrays: dict[str, NDArray[np.generic]]) -> None:
    """Writes a ``.npz`` file atomically."""
    temporary = path.with_suffix(".tmp.npz")
    np.savez(temporary, **arrays)
    os.replace(temporary, path)
