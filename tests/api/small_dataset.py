"""A small dataset of arrays, written directly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gymnasium import spaces

from a2perf.datasets.assembly import assemble
from a2perf.datasets.hdf5_file import EpisodeArrays
from a2perf.datasets.naming import DatasetId
from a2perf.datasets.records import PolicyRecord
from a2perf.runs.dataset_notes import Energy
from tests.datasets.toys import write_file

OBSERVATION = spaces.Box(-1, 1, (3,), np.float32)
ACTION = spaces.Box(-1, 1, (2,), np.float32)
LENGTHS = (4, 2, 3)


def write_dataset(root: Path, name: str, lengths: tuple[int, ...] = LENGTHS) -> None:
    """Writes episodes of constant arrays; reward t of episode e is e + t."""
    root.mkdir(parents=True, exist_ok=True)
    policy = PolicyRecord(
        submission="scripted", training_energy=Energy(kwh=2.0, provenance="given"), episodes=len(lengths)
    )
    assemble(
        root, DatasetId.parse(name),
        [(write_file(root.parent, [_episode(place, steps) for place, steps in enumerate(lengths)]), None)],
        (OBSERVATION, ACTION), {}, policies=[policy],
        generation=Energy(kwh=0.25, provenance="measured", method="rapl"),
        domain="toys", task="boxes", env_id="Boxes-v0", env_kwargs={},
    )  # fmt: skip


def _episode(place: int, steps: int) -> EpisodeArrays:
    arrays = {
        "observations": np.full((steps + 1, 3), 0.1 * place, np.float32),
        "actions": np.full((steps, 2), -0.1 * place, np.float32),
        "rewards": place + np.arange(float(steps)),
        "terminations": np.arange(steps) == steps - 1,
        "truncations": np.zeros(steps, bool),
    }
    return EpisodeArrays(10 + place, arrays, {"policy": 0})
