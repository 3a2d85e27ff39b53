"""One store for all tests that only read it, and the command in an empty folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from a2perf.rlops.store import Store
from a2perf.runs.stores.store import read_curves
from tests.rlops.compare.made_experiment import write_experiment
from tests.rlops.conftest import Run


@pytest.fixture(scope="session")
def written_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two versions on three environments, three seeds; to be read only."""
    folder = write_experiment(tmp_path_factory.mktemp("compared") / "runs")
    read_curves(Store(folder).runs())  # fills the cache
    return folder


@pytest.fixture
def own_store(written_store: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(written_store, tmp_path / "own", copy_function=shutil.copy2))


@pytest.fixture
def run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line as ``run`` of the folder above does, in an empty folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("A2PERF_STORE", raising=False)
    return run


def record() -> dict[str, Any]:
    """Returns ``compare.json`` of the current folder."""
    found: dict[str, Any] = json.loads(Path("compare.json").read_text())
    return found
