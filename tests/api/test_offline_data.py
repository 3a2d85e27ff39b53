"""``a2perf.open_dataset``: datasets as frames and figures."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import a2perf
from a2perf.cli.datasets import datasets
from a2perf.datasets.reader import list_datasets
from a2perf.errors import ConfigError
from tests.api.small_dataset import LENGTHS, write_dataset

NAME = "toys/boxes/made-v0"

pytestmark = [pytest.mark.group("h5py"), pytest.mark.group("minari")]


@pytest.fixture
def data(tmp_path: Path) -> a2perf.OfflineDataset:
    write_dataset(tmp_path / "datasets", NAME)
    return a2perf.open_dataset(NAME, tmp_path / "datasets")


def test_a_frame_has_one_row_per_episode(data: a2perf.OfflineDataset) -> None:
    frame = data.to_pandas()
    assert list(frame["steps"]) == list(LENGTHS)
    assert list(frame["return"]) == [sum(place + step for step in range(n)) for place, n in enumerate(LENGTHS)]
    assert list(frame["seed"]) == [10, 11, 12]
    assert frame.attrs["units"] == {"steps": "steps"}
    assert len(data.to_pandas()) == len(data) == 3


def test_steps_hold_rewards_and_the_entries_of_arrays(data: a2perf.OfflineDataset) -> None:
    steps = data.steps(observations=True)
    assert len(steps) == sum(LENGTHS)
    assert steps.columns == (
        "episode", "step", "reward", "terminated", "truncated", "action[0]", "action[1]",
        "observation[0]", "observation[1]", "observation[2]",
    )  # fmt: skip
    assert steps["reward"].tolist() == [place + step for place, n in enumerate(LENGTHS) for step in range(n)]
    assert steps["terminated"].sum() == 3
    np.testing.assert_allclose(steps["action[1]"], [-0.1 * place for place, n in enumerate(LENGTHS) for _ in range(n)])
    assert data.steps(actions=False).columns == ("episode", "step", "reward", "terminated", "truncated")


def test_too_many_columns_are_refused(data: a2perf.OfflineDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a2perf.api.offline_data._MOST_COLUMNS", 6)
    with pytest.raises(ConfigError, match="are 7 columns"):
        data.steps()


def test_text_is_that_of_the_command(
    data: a2perf.OfflineDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    assert CliRunner().invoke(datasets, ["list", NAME]).output == f"{data!r}\n"


def test_datasets_are_equal_by_content_and_pickle_by_place(data: a2perf.OfflineDataset, tmp_path: Path) -> None:
    assert pickle.loads(pickle.dumps(data)) == data
    write_dataset(tmp_path / "datasets", "toys/boxes/other-v0")
    assert a2perf.open_dataset("toys/boxes/other-v0", tmp_path / "datasets") != data


def test_plot_is_a_figure_and_leaves_the_backend(data: a2perf.OfflineDataset, tmp_path: Path) -> None:
    import matplotlib

    backend = matplotlib.get_backend()
    figure = data.plot()
    figure.savefig(tmp_path / "returns.svg")
    assert "3 episodes, 9 steps" in figure.axes[0].get_title(loc="left")
    assert matplotlib.get_backend() == backend


def test_datasets_are_listed_as_the_command_lists_them(data: a2perf.OfflineDataset, tmp_path: Path) -> None:
    assert list_datasets(tmp_path / "datasets") == [{"dataset_id": NAME, "total_episodes": 3, "total_steps": 9}]
