"""One store for all tests that only read it, and the command in this process."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from a2perf.cli import main
from a2perf.rlops.store import Store
from tests.rlops.compare.made_experiment import write_experiment

Run = Callable[[str], tuple[int, str, str]]


@pytest.fixture(scope="session")
def written_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two versions on three environments, three seeds; to be read only."""
    folder = write_experiment(tmp_path_factory.mktemp("compared") / "runs")
    store = Store(folder)
    store.curves(store.runs())  # fills the cache
    return folder


@pytest.fixture
def own_store(written_store: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(written_store, tmp_path / "own", copy_function=shutil.copy2))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line of ``a2perf`` in this process and an empty folder: exit status, output, errors."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("A2PERF_STORE", raising=False)

    def execute(line: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(line))
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return execute
