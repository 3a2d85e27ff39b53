"""Small datasets that are written directly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from a2perf_datasets import OfflineDataset
from packages.datasets.tests.toys import ACTION, OBSERVATION, Write, played, write_dataset
from tests.attacks.conftest import noted, pytest_terminal_summary  # noqa: F401


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a dataset of a few made-up episodes into the test's own root."""

    def write_played(
        name: str = "toys/boxes/made-v0",
        *,
        lengths: tuple[int, ...] = (3, 1, 4),
        first_seed: int = 10,
        action: Any = ACTION,
        **fields: Any,
    ) -> OfflineDataset:
        episodes = [played(first_seed + place, steps) for place, steps in enumerate(lengths)]
        fields["infos"] = ["action_mask"]
        return write_dataset(tmp_path / "datasets", name, episodes, (OBSERVATION, action), **fields)

    return write_played
