"""Small datasets that are written directly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gymnasium import spaces

from a2perf.datasets import Dataset
from a2perf.datasets.assembly import assemble
from a2perf.datasets.naming import DatasetId
from a2perf.datasets.records import PolicyRecord
from a2perf.runs.dataset_notes import Energy
from tests.datasets.toys import ACTION, OBSERVATION, Write, played, write_file


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a dataset of a few made-up episodes into the test's own root."""

    def write_dataset(
        name: str = "toys/boxes/made-v0", *, lengths: tuple[int, ...] = (3, 1, 4), first_seed: int = 10,
        policy: PolicyRecord | None = None, generation_kwh: float = 0.25, action: spaces.Space[Any] = ACTION,
        **fields: Any,
    ) -> Dataset:  # fmt: skip
        policy = policy or PolicyRecord(submission="scripted", training_energy=Energy(kwh=2.0, provenance="given"))
        policy.episodes = len(lengths)
        made = assemble(
            tmp_path / "datasets", DatasetId.parse(name),
            [(write_file(tmp_path, [played(first_seed + place, steps) for place, steps in enumerate(lengths)]), None)],
            (OBSERVATION, action), {}, policies=[policy],
            generation=Energy(kwh=generation_kwh, provenance="measured", method="rapl"), infos=["action_mask"],
            **{"domain": "toys", "task": "boxes", "env_id": "Boxes-v0", "env_kwargs": {}, **fields},
        )  # fmt: skip
        return Dataset(made.folder / "data")

    return write_dataset
