"""The page on datasets: every block does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import documents


@pytest.mark.slow
@pytest.mark.group("h5py")
def test_every_block_of_the_page_runs(repository: Path, tmp_path: Path) -> None:
    variables = documents.installation(tmp_path)
    reader = tmp_path / "reader"
    reader.mkdir()
    assert documents.run(repository / "docs" / "reference" / "datasets.md", reader, variables) > 8
