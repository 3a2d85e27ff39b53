"""Minari reads what a2perf writes, with the same values and types, and a2perf reads what Minari writes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a2perf.errors import UserError
from a2perf_datasets import open_dataset
from a2perf_datasets.space_json import to_json
from a2perf_datasets.validation import problems_of
from packages.datasets.tests.toys import ACTION, OBSERVATION, Write, played


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return one.dtype == other.dtype and np.array_equal(one, other)


def test_minari_reads_the_same_episodes(write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import minari

    ours = write()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    assert list(minari.list_local_datasets()) == ["toys/boxes/made-v0"]
    assert sorted(minari.namespace.list_local_namespaces()) == ["toys", "toys/boxes"]
    theirs = minari.load_dataset("toys/boxes/made-v0")
    assert (theirs.total_episodes, theirs.total_steps) == (3, 8)
    assert theirs.observation_space == OBSERVATION
    assert theirs.action_space == ACTION
    for index, episode in enumerate(theirs):
        expected = ours.episode(index)
        for name in ("observations", "actions", "rewards", "terminations", "truncations", "infos"):
            assert _same(getattr(episode, name), getattr(expected, name)), name
    assert [int(entry["seed"]) for entry in theirs.storage.get_episode_metadata([0, 2])] == [10, 12]
    assert to_json(OBSERVATION) == minari.serialization.serialize_space(OBSERVATION)


def test_a_dataset_that_minari_wrote_is_read(tmp_path: Path) -> None:
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    OBSERVATION.seed(1)
    ACTION.seed(1)
    seen = [OBSERVATION.sample() for _ in range(4)]
    buffer = EpisodeBuffer(
        id=0,
        seed=5,
        observations={
            "grid": [entry["grid"] for entry in seen],
            "inner": ([entry["inner"][0] for entry in seen], [entry["inner"][1] for entry in seen]),
            "flags": [entry["flags"] for entry in seen],
        },
        actions=[ACTION.sample() for _ in range(3)],
        rewards=[1.0, 2.0, 4.0],
        terminations=[False, False, True],
        truncations=[False, False, False],
        infos={},
    )
    data = tmp_path / "theirs-v0" / "data"
    data.mkdir(parents=True)
    storage = MinariStorage.new(data, observation_space=OBSERVATION, action_space=ACTION, data_format="hdf5")
    storage.update_metadata({"dataset_id": "theirs-v0", "minari_version": "0.5.4"})
    storage.update_episodes([buffer])
    ours = open_dataset(data)
    assert ours.record == {}
    assert (ours.id, ours.lengths.tolist(), ours.returns.tolist(), ours.seeds.tolist()) == (
        "theirs-v0",
        [3],
        [7.0],
        [5],
    )
    found = ours.transitions(next_observations=True)
    assert np.array_equal(found.observations["grid"], np.stack([entry["grid"] for entry in seen[:-1]]))
    assert np.array_equal(found.next_observations["flags"], np.stack([entry["flags"] for entry in seen[1:]]))
    assert found.rewards.tolist() == [1, 2, 4]
    assert problems_of(ours) == []
    assert json.loads((data / "metadata.json").read_text())["total_steps"] == 3


def test_pictures_in_jpeg_are_refused(tmp_path: Path) -> None:
    from gymnasium import spaces
    from minari.dataset.minari_storage import MinariStorage

    data = tmp_path / "pictures-v0" / "data"
    data.mkdir(parents=True)
    MinariStorage.new(data, observation_space=spaces.Box(0, 255, (64, 64, 3), np.uint8), action_space=ACTION)
    with pytest.raises(UserError, match="JPEG pictures"):
        _ = open_dataset(data).observation_space


RECORDED = Path(__file__).parent / "recorded"


def test_a_dataset_of_the_first_version_is_read(tmp_path: Path) -> None:
    """``recorded`` was written before Minari wrote the metadata: ``played(10, 3)`` and ``played(11, 1)``."""
    shutil.copytree(RECORDED, tmp_path / "datasets")
    old = open_dataset("toys/boxes/old-v0", tmp_path / "datasets")
    assert problems_of(old) == []
    assert (old.episode_count, old.step_count, old.seeds.tolist()) == (2, 4, [10, 11])
    assert old.observation_space == OBSERVATION
    expected = played(10, 3).arrays
    episode = old.episode(0)
    assert np.array_equal(episode.observations["grid"], expected["observations/grid"])
    assert np.array_equal(episode.observations["inner"][1], expected["observations/inner/_index_1"])
    assert np.array_equal(old.transitions().actions[:3], expected["actions"])
    assert old.record["cost"]["generation"]["kwh"] == 0.25


_WITHOUT_JAX = """
import sys
from pathlib import Path
sys.modules["jax"] = None  # importing it fails
import numpy as np
from gymnasium import spaces
import a2perf
assert "minari" not in sys.modules and "h5py" not in sys.modules
from a2perf_datasets.generate import generate, random_policy
from a2perf_datasets.plan import dataset_plan
from a2perf_datasets import open_dataset
plan = dataset_plan("toys/random-v0", random_policy(), episodes=1, seed=0, domain="circuit_training",
                    task="toy_macro_stdcell", env_id="CircuitTraining-ToyMacro-v0", env_kwargs={})
made = generate(plan, Path(sys.argv[1]))
assert open_dataset(made.folder).episode(0).rewards.size == made.record.steps
"""


def test_datasets_are_written_and_read_without_jax(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_JAX, str(tmp_path)], capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
