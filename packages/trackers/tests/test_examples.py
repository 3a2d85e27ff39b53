"""The examples of the docstrings run in an empty folder with recorded runs and a dataset."""

from __future__ import annotations

import doctest
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from a2perf.datasets import open_dataset
from a2perf.datasets.croissant import write_croissant
from a2perf_trackers import exporting, huggingface, mlflow, tensorboard, wandb
from tests.shipped_runs import SHIPPED

DATASET = Path(__file__).parents[3] / "tests" / "datasets" / "recorded" / "toys" / "boxes" / "old-v0"


@pytest.mark.parametrize(
    "module",
    [exporting, huggingface, mlflow, tensorboard, pytest.param(wandb, marks=pytest.mark.group("wandb"))],
    ids=lambda module: module.__name__,
)
def test_examples_run(module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "results").mkdir()
    shutil.copytree(SHIPPED / "learning", tmp_path / "results" / "recorded" / "learning")
    shutil.copytree(DATASET, tmp_path / "datasets" / "toys" / "boxes" / "made-v0")
    write_croissant(open_dataset(tmp_path / "datasets" / "toys" / "boxes" / "made-v0"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")  # no network in tests
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    done = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert done.failed == 0
    assert done.attempted > 1
