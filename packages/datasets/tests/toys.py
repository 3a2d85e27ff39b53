"""Made-up spaces and episodes, nested as deeply as spaces get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from a2perf.runs.dataset_notes import Energy
from a2perf_datasets import OfflineDataset, hdf5_file
from a2perf_datasets.assembly import assemble
from a2perf_datasets.hdf5_file import EpisodeArrays
from a2perf_datasets.naming import DatasetId
from a2perf_datasets.records import PolicyRecord
from a2perf_datasets.space_json import flatten

OBSERVATION = spaces.Dict(
    {
        "grid": spaces.Box(0, 9, (32, 20), np.int32),
        "inner": spaces.Tuple((spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(5, start=-2))),
        "flags": spaces.MultiBinary(3),
    }
)
ACTION = spaces.MultiDiscrete([4, 3])

Write = Callable[..., OfflineDataset]


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


def write_dataset(
    root: Path,
    name: str,
    episodes: Sequence[EpisodeArrays],
    spaces: tuple[Any, Any] = (OBSERVATION, ACTION),
    *,
    policy: PolicyRecord | None = None,
    generation_kwh: float = 0.25,
    **fields: Any,
) -> OfflineDataset:
    """Writes a dataset of made-up episodes of one policy, which took 2 kWh to train by default."""
    policy = policy or PolicyRecord(submission="scripted", training_energy=Energy(kwh=2.0, provenance="given"))
    policy.episodes = len(episodes)
    root.mkdir(parents=True, exist_ok=True)
    with hdf5_file.create(root / "episodes.hdf5") as stream:
        for place, episode in enumerate(episodes):
            hdf5_file.write_episode(stream, place, episode)
    made = assemble(
        root,
        DatasetId.parse(name),
        [(root / "episodes.hdf5", None)],
        spaces,
        {},
        policies=[policy],
        generation=Energy(kwh=generation_kwh, provenance="measured", method="rapl"),
        **{"domain": "toys", "task": "boxes", "env_id": "Boxes-v0", "env_kwargs": {}, **fields},
    )
    return OfflineDataset(made.folder / "data")
