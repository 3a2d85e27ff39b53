"""Files of strangers: nothing outside of them is read, and no memory is taken for what they only claim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from a2perf.errors import UserError
from a2perf_datasets import hdf5_file
from a2perf_datasets.space_json import from_json
from packages.datasets.tests.toys import played


def _links(group: Any) -> None:
    del group["rewards"]
    group["rewards"] = h5py.ExternalLink("/dev/zero", "/x")


def _soft(group: Any) -> None:
    del group["rewards"]
    group["rewards"] = h5py.SoftLink(f"{group.name}/rewards")


def _elsewhere(group: Any) -> None:
    del group["rewards"]
    group.create_dataset("rewards", (3,), "f8", external=[("/etc/passwd", 0, 24)])


def _virtual(group: Any) -> None:
    layout = h5py.VirtualLayout((3,), "f8")
    layout[:] = h5py.VirtualSource("/dev/zero", "x", (3,), "f8")
    del group["rewards"]
    group.create_virtual_dataset("rewards", layout)


def _sparse_array(group: Any) -> None:
    del group["rewards"]
    group.create_dataset("rewards", (1 << 45,), "f8", chunks=(1024,))


@pytest.mark.parametrize(
    "change", [_links, _soft, _elsewhere, _virtual, _sparse_array], ids=lambda one: one.__name__[1:]
)
def test_arrays_of_offline_data_that_lead_elsewhere_are_refused(change: Any, tmp_path: Path, noted) -> None:
    path = tmp_path / "main_data.hdf5"
    with hdf5_file.create(path) as stream:
        hdf5_file.write_episode(stream, 0, played(1, 3))
        change(stream["episode_0"])
    with hdf5_file.opened(path) as stream:
        with pytest.raises(UserError, match="cannot be read"):
            hdf5_file.read_array(stream, stream["episode_0"], "rewards")
        with pytest.raises(UserError, match="cannot be read"):
            hdf5_file.RowReader(stream, {"rewards": 3}).read(0, "rewards", 0, 3)
    noted("arrays of offline data in other files, or larger than their file", "refused, and named")


@pytest.mark.parametrize("steps", [-1, 1 << 62, np.inf])
def test_lengths_that_cannot_be_are_refused(steps: float, tmp_path: Path) -> None:
    with hdf5_file.create(tmp_path / "main_data.hdf5") as stream:
        hdf5_file.write_episode(stream, 0, played(1, 3))
        stream["episode_0"].attrs["total_steps"] = steps
    with hdf5_file.opened(tmp_path / "main_data.hdf5") as stream, pytest.raises(UserError, match="episode_0"):
        hdf5_file.read_columns(stream)


@pytest.mark.parametrize(
    "space",
    [
        '{"type": "Tuple", "subspaces": [' * 5000,
        '{"type": "MultiBinary", "n": 1000000000000}',
        '{"type": "Box", "dtype": "float32", "shape": [1000000, 1000000], "low": 0, "high": 1}',
    ],
)
def test_spaces_that_take_all_memory_are_refused(space: str) -> None:
    with pytest.raises(UserError, match="not a supported Gymnasium space"):
        from_json(space)
