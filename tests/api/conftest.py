"""Recorded runs for the tests of the Python API."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.metrics import made_bundles


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Three seeds, trained and evaluated."""
    for seed in range(3):
        made_bundles.write_train(tmp_path / "runs" / f"seed_{seed}", seed)
        made_bundles.write_inference(tmp_path / "runs" / f"seed_{seed}", seed)
    return tmp_path / "runs"
