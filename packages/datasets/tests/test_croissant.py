"""Croissant metadata: valid by mlcroissant, with every file and its hash."""

from __future__ import annotations

import doctest
import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import mlcroissant
import pytest
from click.testing import CliRunner

from a2perf.errors import MissingDependency, UserError
from a2perf_datasets import croissant, open_dataset
from a2perf_datasets.combine import combine
from a2perf_datasets.command import croissant as command
from a2perf_datasets.croissant import CROISSANT_FILE, write_croissant
from a2perf_datasets.generate import generate, random_policy
from a2perf_datasets.naming import DatasetId
from a2perf_datasets.plan import dataset_plan
from a2perf_datasets.records import PolicyRecord
from packages.datasets.tests.toys import Write

RECORDED = Path(__file__).parent / "recorded" / "toys" / "boxes" / "old-v0"


def opened(path: Path, *missing: str) -> mlcroissant.Dataset:
    """Opens metadata without errors; the only warnings are those about a license or other values nobody gave."""
    dataset = mlcroissant.Dataset(jsonld=str(path))
    issues = dataset.metadata.ctx.issues
    assert not issues.errors
    assert all(any(name in warning for name in ("license", *missing)) for warning in issues.warnings), issues.warnings
    return dataset


def content(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_metadata_are_valid_by_mlcroissant_and_the_same_again(write: Write) -> None:
    data = write(lengths=(3, 1, 4))
    first = write_croissant(data, license="CC-BY-4.0", url="https://example.org/boxes").read_bytes()
    path = write_croissant(data, license="CC-BY-4.0", url="https://example.org/boxes")
    assert path.read_bytes() == first
    dataset = opened(path)
    assert dataset.metadata.ctx.issues.warnings == set()
    assert " 3 episodes with 8 steps of the environment " in f" {dataset.metadata.description}"


def test_distribution_lists_every_file_with_hash_and_size(write: Write) -> None:
    data = write()
    files = content(write_croissant(data))["distribution"]
    assert [file["name"] for file in files] == ["main_data.hdf5", "metadata.json", "a2perf.json"]
    for file in files:
        stored = (data.path / file["contentUrl"]).read_bytes()
        assert file["sha256"] == hashlib.sha256(stored).hexdigest()
        assert file["contentSize"] == f"{len(stored)} B"


def test_generated_and_combined_datasets_are_described(tmp_path: Path) -> None:
    plan = dataset_plan(
        "circuit_training/toy/random-v0",
        random_policy(),
        episodes=3,
        seed=1,
        domain="circuit_training",
        task="toy_macro_stdcell",
        env_id="CircuitTraining-ToyMacro-v0",
        env_kwargs={},
    )
    made = generate(plan, tmp_path)
    data = open_dataset(made.folder)
    path = write_croissant(data)
    found = content(opened(path) and path)
    assert found["distribution"][0]["sha256"] == made.record.file_sha256
    both = combine([data, data], DatasetId.parse("circuit_training/toy/both-v1"), tmp_path)
    assert not (both.folder / "data" / CROISSANT_FILE).exists()
    path = write_croissant(open_dataset(both.folder))
    assert content(path)["version"] == "1.0.0"
    assert " combined from 2 datasets. 6 episodes with 12 steps of " in content(path)["description"]


def test_dataset_of_an_earlier_version_and_one_of_minari_get_metadata(tmp_path: Path) -> None:
    old = Path(shutil.copytree(RECORDED, tmp_path / "old-v0"))
    (old / "data" / "a2perf.json").unlink()
    found = content(write_croissant(open_dataset(old)))
    assert [file["name"] for file in found["distribution"]] == ["main_data.hdf5", "metadata.json"]
    assert "datePublished" not in found
    opened(old / "data" / CROISSANT_FILE, "datePublished")


def test_texts_of_strangers_stay_texts(write: Write) -> None:
    data = write(policy=PolicyRecord(submission='a"}\x1b[31m<script>\n'))
    data.metadata["author"] = ["A {B} \\C"]
    data.metadata["description"] = "x\x1b]0;title\x07y"
    path = write_croissant(data)
    assert "\x1b" not in path.read_text()
    assert content(path)["description"].startswith("xy. 3 episodes with 8 steps")
    assert r"author = {A \{B\} $\backslash$C}" in content(path)["citeAs"]
    opened(path)


def test_missing_package_is_explained(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write()
    monkeypatch.setitem(sys.modules, "mlcroissant", None)
    with pytest.raises(MissingDependency, match=r"mlcroissant.*\n.*pip install mlcroissant"):
        write_croissant(data)


def test_folder_that_cannot_be_written_is_explained(write: Write) -> None:
    data = write()
    (data.path / CROISSANT_FILE).mkdir()
    with pytest.raises(UserError, match=r"croissant\.json cannot be written: .*\n.*copy the dataset"):
        write_croissant(data)


def test_command_describes_datasets_by_name(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(data.path.parents[3]))
    arguments = [data.id, "--license", "CC0-1.0", "--json"]
    done = CliRunner().invoke(command, arguments, standalone_mode=False, catch_exceptions=False)
    assert json.loads(done.output) == {data.id: str(data.path / CROISSANT_FILE)}
    assert content(data.path / CROISSANT_FILE)["license"] == "CC0-1.0"
    with pytest.raises(UserError, match="no dataset toys/boxes/nade-v0"):
        CliRunner().invoke(command, ["toys/boxes/nade-v0"], standalone_mode=False, catch_exceptions=False)


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(RECORDED, tmp_path / "datasets" / "toys" / "boxes" / "made-v0")
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(croissant) == doctest.TestResults(failed=0, attempted=3)
