"""The blocks of the distribution's page run, and print what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import documents


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_blocks_of_the_page_run(repository: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    page = repository / "packages" / "datasets" / "README.md"
    assert documents.run(page, work, documents.installation(tmp_path)) >= 9
