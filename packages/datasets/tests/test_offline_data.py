"""``a2perf.open_dataset``: datasets as frames and figures."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import pytest

import a2perf
from a2perf_datasets.reader import OfflineDataset, list_datasets, open_dataset
from packages.datasets.tests.toys import Write


def test_the_core_opens_datasets(write: Write) -> None:
    data = a2perf.open_dataset(write().path)
    assert type(data) is a2perf.OfflineDataset is OfflineDataset


def test_a_frame_has_one_row_per_episode(write: Write) -> None:
    data = write()
    frame = data.to_pandas()
    assert frame.to_dict("list") == {
        "episode": [0, 1, 2],
        "seed": [10, 11, 12],
        "steps": [3, 1, 4],
        "return": [6.0, 1.0, 10.0],
    }
    assert frame["seed"].dtype == "Int64"
    assert len(frame) == len(data)


def test_text_has_the_counts_and_the_mean_return(write: Write) -> None:
    assert repr(write()) == "toys/boxes/made-v0: 3 episodes, 8 steps, mean return 5.667"


def test_plot_is_a_figure_and_leaves_the_backend(write: Write, tmp_path: Path) -> None:
    import matplotlib

    backend = matplotlib.get_backend()
    figure = write().plot()
    figure.savefig(tmp_path / "returns.svg")
    assert "3 episodes, 8 steps" in figure.axes[0].get_title(loc="left")
    assert matplotlib.get_backend() == backend


@pytest.mark.parametrize("documented", [OfflineDataset, open_dataset])
def test_examples_run(documented: Any, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("quadruped_locomotion/dog_pace/expert-v0")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    names: dict[str, Any] = {"a2perf": a2perf}
    for example in doctest.DocTestParser().get_examples(documented.__doc__):
        exec(compile(example.source, "<example>", "single"), names)
    assert len(names["data"]) == 3


def test_datasets_are_listed_as_the_command_lists_them(write: Write, tmp_path: Path) -> None:
    write()
    assert list_datasets(tmp_path / "datasets") == [
        {"dataset_id": "toys/boxes/made-v0", "total_episodes": 3, "total_steps": 8}
    ]
