"""Made-up spaces and episodes, nested as deeply as spaces get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from a2perf.datasets import Dataset, hdf5_file
from a2perf.datasets.hdf5_file import EpisodeArrays
from a2perf.datasets.space_json import flatten

OBSERVATION = spaces.Dict(
    {
        "grid": spaces.Box(0, 9, (32, 20), np.int32),
        "inner": spaces.Tuple((spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(5, start=-2))),
        "flags": spaces.MultiBinary(3),
    }
)
ACTION = spaces.MultiDiscrete([4, 3])

Write = Callable[..., Dataset]


def played(seed: int, steps: int, policy: int = 0) -> EpisodeArrays:
    """Returns an episode of samples; reward t is t + 1, and the last step is terminal."""
    arrays: dict[str, list[Any]] = {}
    for space, name, rows in ((OBSERVATION, "observations", steps + 1), (ACTION, "actions", steps)):
        space.seed(seed)
        for _ in range(rows):
            for path, array in flatten(space, space.sample(), name):
                arrays.setdefault(path, []).append(array)
    stacked = {path: np.stack(rows) for path, rows in arrays.items()}
    stacked |= {
        "rewards": np.arange(1.0, steps + 1),
        "terminations": np.arange(steps) == steps - 1,
        "truncations": np.zeros(steps, bool),
        "infos/action_mask": np.ones((steps + 1, 7), np.int8),
    }
    return EpisodeArrays(seed, stacked, {"policy": policy})


def write_file(folder: Path, episodes: Sequence[EpisodeArrays]) -> Path:
    """Writes episodes to a file, which ``assemble`` makes a dataset of."""
    path = folder / "episodes.hdf5"
    with hdf5_file.create(path) as stream:
        for place, episode in enumerate(episodes):
            hdf5_file.write_episode(stream, place, episode)
    return path
