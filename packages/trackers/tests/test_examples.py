"""The examples of the docstrings run in an empty folder with recorded runs."""

from __future__ import annotations

import doctest
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from a2perf_trackers import huggingface, mlflow, tensorboard, wandb
from tests.shipped_runs import SHIPPED


@pytest.mark.parametrize(
    "module",
    [huggingface, mlflow, tensorboard, pytest.param(wandb, marks=pytest.mark.group("wandb"))],
    ids=lambda module: module.__name__,
)
def test_examples_run(module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "results").mkdir()
    shutil.copytree(SHIPPED / "learning", tmp_path / "results" / "recorded" / "learning")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")  # no network in tests
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    done = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert done.failed == 0
    assert done.attempted > 1
