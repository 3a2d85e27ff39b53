"""A small dataset of arrays, written directly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gymnasium import spaces

from a2perf.datasets.hdf5_file import EpisodeArrays
from tests.datasets import toys

SPACES = spaces.Box(-1, 1, (3,), np.float32), spaces.Box(-1, 1, (2,), np.float32)
LENGTHS = (4, 2, 3)


def write_dataset(root: Path, name: str) -> None:
    """Writes episodes of constant arrays; reward t of episode e is e + t."""
    toys.write_dataset(root, name, [_episode(place, steps) for place, steps in enumerate(LENGTHS)], SPACES)


def _episode(place: int, steps: int) -> EpisodeArrays:
    arrays = {
        "observations": np.full((steps + 1, 3), 0.1 * place, np.float32),
        "actions": np.full((steps, 2), -0.1 * place, np.float32),
        "rewards": place + np.arange(float(steps)),
        "terminations": np.arange(steps) == steps - 1,
        "truncations": np.zeros(steps, bool),
    }
    return EpisodeArrays(10 + place, arrays, {"policy": 0})
