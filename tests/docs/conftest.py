"""The built site, for the tests that open it as a reader does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import filelock
import pytest


@pytest.fixture(scope="session")
def built(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site, as `make docs` builds it, with warnings as errors; takes minutes."""
    return _build(repository, tmp_path_factory, "site")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of the built site: `make test-docs` runs them on the site that `make docs` has built."""
    for item in items:
        if "built_without_media" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.site)


@pytest.fixture(scope="session")
def built_without_media(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of A2PERF_SITE; else one without pictures of environments and without the leaderboard."""
    given = os.environ.get("A2PERF_SITE")
    return Path(given) if given else _build(repository, tmp_path_factory, "site-without-media", "--no-pictures")


def _build(repository: Path, tmp_path_factory: pytest.TempPathFactory, name: str, *options: str) -> Path:
    """Builds once per run of the suite: workers of pytest-xdist share the folder above their own."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with filelock.FileLock(f"{folder}.lock"):
        if not (folder / "searchindex.js").is_file():
            command = [sys.executable, "-m", "docs.building", "-o", str(folder), *options]
            done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
    return folder
