"""Croissant metadata: valid by mlcroissant, which reads the same records as the HDF5 file holds."""

from __future__ import annotations

import doctest
import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import h5py
import mlcroissant
import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from a2perf.cli.export_croissant import croissant as command
from a2perf.datasets import Dataset, croissant, hdf5_file, open_dataset
from a2perf.datasets.combine import combine
from a2perf.datasets.croissant import CROISSANT_FILE, write_croissant
from a2perf.datasets.generate import DatasetRequest, generate, random_policy
from a2perf.datasets.naming import DatasetId
from a2perf.datasets.records import PolicyRecord
from a2perf.errors import MissingDependency, UserError
from tests.datasets.toys import Write

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


def require_equal_records(dataset: mlcroissant.Dataset, data: Dataset) -> int:
    """Compares every record with the HDF5 file; returns the number of values."""
    steps, episodes = list(dataset.records("steps")), list(dataset.records("episodes"))
    assert (len(steps), len(episodes)) == (data.step_count, data.episode_count)
    at, values = 0, 0
    with hdf5_file.opened(data.file) as stream:
        for index, record in enumerate(episodes):
            episode = hdf5_file.read_episode(stream, index)
            assert record["episodes/episode"] == index
            assert (record["episodes/seed"], record["episodes/steps"]) == (episode.seed, episode.steps)
            assert record["episodes/return"] == episode.episode_return
            rows = steps[at : at + episode.steps]
            assert [row["steps/step"] for row in rows] == list(range(episode.steps))
            assert {row["steps/episode"] for row in rows} == {index}
            for path, array in episode.arrays.items():
                name = path.replace("/", ".")
                found = np.array([row[f"steps/{name}"] for row in rows])
                np.testing.assert_array_equal(found.reshape(-1), array[: episode.steps].reshape(-1))
                assert np.asarray(rows[0][f"steps/{name}"]).dtype == array.dtype
                values += found.size
                if len(array) > episode.steps:
                    last = np.asarray(record[f"episodes/final_{name}"])
                    np.testing.assert_array_equal(last.reshape(-1), array[-1].reshape(-1))
            at += episode.steps
    return values


def test_records_of_mlcroissant_are_those_of_the_file(write: Write) -> None:
    data = write(lengths=(3, 1, 4))
    path = write_croissant(data, license="CC-BY-4.0", url="https://example.org/boxes")
    dataset = opened(path)
    assert dataset.metadata.ctx.issues.warnings == set()
    # 8 steps of 3 flags, a grid of 32 x 20, 2 + 1 inner values, 2 actions, reward, 2 ends, and 7 of the mask
    assert require_equal_records(dataset, data) == 8 * (3 + 640 + 3 + 2 + 1 + 2 + 7)


def test_distribution_lists_every_file_with_hash_and_size(write: Write) -> None:
    data = write()
    files = content(write_croissant(data))["distribution"]
    assert [file["name"] for file in files] == [
        "main_data.hdf5", "metadata.json", "a2perf.json", "steps.parquet", "episodes.parquet",
    ]  # fmt: skip
    for file in files:
        stored = (data.path / file["contentUrl"]).read_bytes()
        assert file["sha256"] == hashlib.sha256(stored).hexdigest()
        assert file["contentSize"] == f"{len(stored)} B"


def test_generated_and_combined_datasets_are_described(tmp_path: Path) -> None:
    request = DatasetRequest(
        name=DatasetId.parse("circuit_training/toy/random-v0"), domain="circuit_training", task="toy_macro_stdcell",
        env_id="CircuitTraining-ToyMacro-v0", env_kwargs={}, policies=[random_policy()], episodes=3, seed=1,
    )  # fmt: skip
    made = generate(request, tmp_path)
    data = open_dataset(made.folder)
    path = write_croissant(data)
    found = content(opened(path) and path)
    assert found["distribution"][0]["sha256"] == made.record.file_sha256
    assert [record_set["name"] for record_set in found["recordSet"]] == ["steps", "episodes"]
    both = combine([data, data], DatasetId.parse("circuit_training/toy/both-v1"), tmp_path)
    assert not (both.folder / "data" / CROISSANT_FILE).exists()
    path = write_croissant(open_dataset(both.folder))
    assert content(path)["version"] == "1.0.0"
    assert " combined from 2 datasets. 6 episodes with 12 steps of " in content(path)["description"]
    require_equal_records(opened(path), open_dataset(both.folder))


def test_dataset_of_an_earlier_version_and_one_of_minari_get_metadata(tmp_path: Path) -> None:
    old = Path(shutil.copytree(RECORDED, tmp_path / "old-v0"))
    require_equal_records(opened(write_croissant(open_dataset(old))), open_dataset(old))
    (old / "data" / "a2perf.json").unlink()
    found = content(write_croissant(open_dataset(old)))
    assert [file["name"] for file in found["distribution"]][:2] == ["main_data.hdf5", "metadata.json"]
    assert "datePublished" not in found
    require_equal_records(opened(old / "data" / CROISSANT_FILE, "datePublished"), open_dataset(old))


def test_texts_of_strangers_stay_texts(write: Write) -> None:
    data = write(policy=PolicyRecord(submission='a"}\x1b[31m<script>\n'))
    data.metadata["author"] = ["A {B} \\C"]
    data.metadata["description"] = "x\x1b]0;title\x07y"
    path = write_croissant(data)
    assert "\x1b" not in path.read_text()
    assert content(path)["description"].startswith("xy. 3 episodes with 8 steps")
    assert r"author = {A \{B\} $\backslash$C}" in content(path)["citeAs"]
    opened(path)


def test_same_dataset_gives_the_same_bytes(write: Write) -> None:
    data = write()
    names = (CROISSANT_FILE, "steps.parquet", "episodes.parquet")
    write_croissant(data)
    first = [(data.path / name).read_bytes() for name in names]
    write_croissant(data)
    assert [(data.path / name).read_bytes() for name in names] == first


def test_long_datasets_are_written_in_few_row_groups(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a2perf.datasets.steps_table._ROWS_PER_GROUP", 4)
    data = write(lengths=(3, 1, 4, 2))
    write_croissant(data)
    assert pq.ParquetFile(data.path / "steps.parquet").num_row_groups == 3
    require_equal_records(opened(data.path / CROISSANT_FILE), data)


def test_damaged_and_unequal_episodes_leave_no_half_table(write: Write) -> None:
    data = write()
    with h5py.File(data.file, "r+") as stream:
        del stream["episode_1/actions"]
    with pytest.raises(UserError, match="episode 1 differs from the first one in actions"):
        write_croissant(data)
    assert not [path for path in data.path.iterdir() if "parquet" in path.name]


def test_missing_package_is_explained(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write()
    for package in ("mlcroissant", "pyarrow"):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(MissingDependency, match=rf"{package}.*\n.*\[frames\]"):
            write_croissant(data)


def test_folder_that_cannot_be_written_is_explained(write: Write) -> None:
    data = write()
    (data.path / "steps.parquet").mkdir()
    with pytest.raises(UserError, match=r"croissant\.json cannot be written: .*\n.*copy the dataset"):
        write_croissant(data)


def test_command_describes_datasets_by_name(write: Write) -> None:
    data = write()
    root = str(data.path.parents[3])
    arguments = [data.id, "--datasets-path", root, "--license", "CC0-1.0", "--json"]
    done = CliRunner().invoke(command, arguments, standalone_mode=False, catch_exceptions=False)
    assert json.loads(done.output) == {data.id: str(data.path / CROISSANT_FILE)}
    assert content(data.path / CROISSANT_FILE)["license"] == "CC0-1.0"
    with pytest.raises(UserError, match="no dataset toys/boxes/nade-v0"):
        CliRunner().invoke(
            command, ["toys/boxes/nade-v0", "--datasets-path", root], standalone_mode=False, catch_exceptions=False
        )


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(RECORDED, tmp_path / "datasets" / "toys" / "boxes" / "made-v0")
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(croissant) == doctest.TestResults(failed=0, attempted=3)
