"""The code blocks of the distribution's page run and print what the page says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs import documents

REPOSITORY = Path(__file__).resolve().parents[3]
PAGE = REPOSITORY / "packages" / "trackers" / "README.md"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "having",
    [
        (),
        pytest.param(("wandb",), marks=pytest.mark.group("wandb")),
        pytest.param(("sb3",), marks=pytest.mark.group("sb3")),
    ],
    ids=["page", "wandb", "sb3"],
)
def test_blocks_run(having: tuple[str, ...], tmp_path: Path) -> None:
    work = tmp_path / "work"
    shutil.copytree(REPOSITORY / "results", work / "results")
    assert documents.run(PAGE, work, documents.installation(tmp_path), having=having) >= 9
