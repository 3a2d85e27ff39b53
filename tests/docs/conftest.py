"""The built site, for the tests that open it as a reader does."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import filelock
import pytest

from tests.commands import run_command


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of the built site: `make test-docs` runs them on the site that `make docs` has built."""
    for item in items:
        if "built" in getattr(item, "fixturenames", ()) and "tests/docs" in item.path.as_posix():
            item.add_marker(pytest.mark.site)


@pytest.fixture(scope="session")
def built(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of A2PERF_SITE, or the whole site, built once per run of the suite; that takes minutes."""
    if given := os.environ.get("A2PERF_SITE"):
        return Path(given)
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "site"
    with filelock.FileLock(f"{folder}.lock"):
        if not (folder / "searchindex.js").is_file():
            command = [sys.executable, "-m", "docs.building", "-o", str(folder)]
            run_command(command, repository, check=True)
    return folder
