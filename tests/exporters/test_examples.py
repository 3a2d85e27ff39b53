"""The examples of the docstrings run in an empty folder with recorded runs, a dataset and a key."""

from __future__ import annotations

import doctest
import importlib
import shutil
from pathlib import Path

import pytest

import a2perf
from a2perf.datasets import open_dataset
from a2perf.datasets.croissant import write_croissant
from a2perf.runs import signing
from tests.shipped_runs import SHIPPED

DATASET = Path(__file__).parents[1] / "datasets" / "recorded" / "toys" / "boxes" / "old-v0"


@pytest.mark.parametrize("name", ["exporters.huggingface", "datasets.croissant"])
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "results").mkdir()
    shutil.copytree(SHIPPED / "learning", tmp_path / "results" / "recorded" / "learning")
    shutil.copytree(DATASET, tmp_path / "datasets" / "toys" / "boxes" / "made-v0")
    write_croissant(open_dataset(tmp_path / "datasets" / "toys" / "boxes" / "made-v0"))
    signing.new_key(tmp_path / "my.key")
    monkeypatch.chdir(tmp_path)
    done = doctest.testmod(
        importlib.import_module(f"a2perf.{name}"),
        globs={"a2perf": a2perf},
        optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE,
    )
    assert done.failed == 0
    assert done.attempted > 1
