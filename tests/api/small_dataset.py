"""A small dataset of arrays, written directly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gymnasium import spaces

from a2perf.datasets import hdf5_file, naming
from a2perf.datasets.assembly import common_fields, publish
from a2perf.datasets.hdf5_file import EpisodeArrays
from a2perf.datasets.naming import DatasetId
from a2perf.datasets.records import DatasetRecord, PolicyRecord, cost_of
from a2perf.runs.dataset_notes import Energy

OBSERVATION = spaces.Box(-1, 1, (3,), np.float32)
ACTION = spaces.Box(-1, 1, (2,), np.float32)
LENGTHS = (4, 2, 3)


def write_dataset(root: Path, name: str, lengths: tuple[int, ...] = LENGTHS) -> None:
    """Writes episodes of constant arrays; reward t of episode e is e + t."""
    folder = root.with_name(f"making_{name.replace('/', '_')}")
    data = folder / "data"
    data.mkdir(parents=True)
    episodes = [_episode(place, steps) for place, steps in enumerate(lengths)]
    with hdf5_file.create(data / naming.DATA_FILE) as stream:
        for place, episode in enumerate(episodes):
            hdf5_file.write_episode(stream, place, episode)
    policies = [PolicyRecord(submission="scripted", training_energy=Energy(kwh=2.0, provenance="given"))]
    policies[0].episodes = len(lengths)
    record = DatasetRecord(
        dataset_id=name,
        domain="toys",
        task="boxes",
        env_id="Boxes-v0",
        env_kwargs={},
        infos=[],
        episodes=len(lengths),
        steps=sum(lengths),
        content_sha256=hdf5_file.content_hash([episode.sha256() for episode in episodes]),
        policies=policies,
        cost=cost_of(policies, Energy(kwh=0.25, provenance="measured", method="rapl"), sum(lengths)),
        **common_fields(data, [episode.episode_return for episode in episodes]),
    )
    publish(root, DatasetId.parse(name), folder, record, (OBSERVATION, ACTION))


def _episode(place: int, steps: int) -> EpisodeArrays:
    arrays = {
        "observations": np.full((steps + 1, 3), 0.1 * place, np.float32),
        "actions": np.full((steps, 2), -0.1 * place, np.float32),
        "rewards": place + np.arange(float(steps)),
        "terminations": np.arange(steps) == steps - 1,
        "truncations": np.zeros(steps, bool),
    }
    return EpisodeArrays(10 + place, arrays, {"policy": 0})
