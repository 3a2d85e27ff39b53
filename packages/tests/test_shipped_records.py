"""The shipped records of submissions of distributions name the present files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.launch.test_shipped_results import OF_THE_CORE, PACKED, changed_files

PACKAGES = Path(__file__).resolve().parents[1]
CHANGED = {
    "mujoco_ppo": "its training",
    "text_solver": "its page",
}
"""Submissions that are no longer the recorded ones, and what has changed."""
OF_DISTRIBUTIONS = sorted(set(PACKED) - set(OF_THE_CORE))


@pytest.mark.parametrize("packed", OF_DISTRIBUTIONS, ids=lambda packed: f"{packed.parent.name}-{packed.stem}")
def test_a_record_that_can_be_repeated_names_the_present_files_of_its_submission(packed: Path, tmp_path: Path) -> None:
    """`python results/record.py --confirm NAME` renews a record whose submission has changed."""
    name = packed.stem.partition("-")[0]
    (folder,) = PACKAGES.glob(f"*/examples/{name}")
    missing = changed_files(packed, folder.parent, tmp_path)
    assert len(missing) == (name in CHANGED)
    assert all("are different" in reason for reason in missing)
