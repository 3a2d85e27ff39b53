"""Offline re-scoring writes the scores of every recorded mode beside the classic files."""

from __future__ import annotations

import json
from pathlib import Path

import gin
import pytest

from a2perf.submission import rescoring
from a2perf.submission.settings import Submission
from tests.metrics import made_bundles


def settings(root: Path, mode: str) -> Submission:
    return Submission(mode=mode, domain="quadruped_locomotion", root_dir=str(root), measure_emissions=True)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path / "cache"))
    made_bundles.write_train(tmp_path / "R", 1)
    made_bundles.write_inference(tmp_path / "R", 1)
    return tmp_path / "R"


def test_scores_of_all_modes_lie_beside_the_classic_files(root: Path):
    assert rescoring.run(settings(root, "train")) == 0
    document = json.loads((root / "metrics" / "scores.json").read_text())
    assert [entry["mode"] for entry in document["groups"]] == ["inference", "train"]
    assert (root / "metrics" / "train_emissions.csv").exists()
    (root / "metrics" / "train_emissions.csv").unlink()
    before = (root / "metrics" / "scores.json").read_bytes()
    gin.bind_parameter("track_emissions_decorator.save_to_file", False)
    try:
        assert rescoring.run(settings(root, "train")) == 0
    finally:
        gin.clear_config()
    assert (root / "metrics" / "scores.json").read_bytes() == before
    assert not (root / "metrics" / "train_emissions.csv").exists()


def test_folders_of_the_earlier_platform_are_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path / "cache"))
    made_bundles.write_earlier(tmp_path / "old", 7)
    assert rescoring.run(settings(tmp_path / "old", "train")) == 0
    document = json.loads((tmp_path / "old" / "metrics" / "scores.json").read_text())
    assert [entry["mode"] for entry in document["groups"]] == ["train", "inference", "generalization"]
    assert rescoring.run(settings(tmp_path / "old", "train")) == 0
