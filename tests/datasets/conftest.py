"""Small datasets that are written directly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gymnasium import spaces

from a2perf.datasets import Dataset, hdf5_file, naming
from a2perf.datasets.assembly import common_fields, publish
from a2perf.datasets.naming import DatasetId
from a2perf.datasets.records import DatasetRecord, PolicyRecord, cost_of
from a2perf.runs.dataset_notes import Energy
from tests.datasets.toys import ACTION, OBSERVATION, Write, played


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a dataset of a few made-up episodes into the test's own root."""

    def write_dataset(
        name: str = "toys/boxes/made-v0", *, lengths: tuple[int, ...] = (3, 1, 4), first_seed: int = 10,
        policy: PolicyRecord | None = None, generation_kwh: float = 0.25, action: spaces.Space[Any] = ACTION,
        **fields: Any,
    ) -> Dataset:  # fmt: skip
        folder = tmp_path / f"making_{name.replace('/', '_')}"
        data = folder / "data"
        data.mkdir(parents=True)
        episodes = [played(first_seed + place, steps) for place, steps in enumerate(lengths)]
        with hdf5_file.create(data / naming.DATA_FILE) as stream:
            for place, episode in enumerate(episodes):
                hdf5_file.write_episode(stream, place, episode)
        policies = [policy or PolicyRecord(submission="scripted", training_energy=Energy(kwh=2.0, provenance="given"))]
        policies[0].episodes = len(lengths)
        generation = Energy(kwh=generation_kwh, provenance="measured", method="rapl")
        record = DatasetRecord(
            dataset_id=name,
            **{"domain": "toys", "task": "boxes", "env_id": "Boxes-v0", "env_kwargs": {}, **fields},
            infos=["action_mask"],
            episodes=len(lengths),
            steps=sum(lengths),
            content_sha256=hdf5_file.content_hash([episode.sha256() for episode in episodes]),
            policies=policies,
            cost=cost_of(policies, generation, sum(lengths)),
            **common_fields(data, [episode.episode_return for episode in episodes]),
        )
        root = tmp_path / "datasets"
        publish(root, DatasetId.parse(name), folder, record, (OBSERVATION, action))
        return Dataset(root / name / "data")

    return write_dataset
