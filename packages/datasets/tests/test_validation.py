"""Checking: a whole dataset passes, and every kind of damage is named with its file and place."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import pytest

from a2perf import cli
from a2perf.errors import UserError
from a2perf_datasets import OfflineDataset
from a2perf_datasets.validation import problems_of
from packages.datasets.tests.toys import Write


def _changed(data: OfflineDataset, change: Callable[[Any], None]) -> str:
    with h5py.File(data.file, "a") as stream:
        change(stream)
    return "\n".join(problems_of(OfflineDataset(data.path)))


def test_a_whole_data_set_has_no_problem(write: Write) -> None:
    assert problems_of(write()) == []


def _replace(stream: Any, name: str, value: Any) -> None:
    del stream[name]
    stream[name] = value


def _set(stream: Any, name: str, index: Any, value: Any) -> None:
    stream[name][index] = value


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: _set(s, "episode_1/rewards", 0, 5.0), "/episode_1/rewards: the hash of the values differs"),
        (
            lambda s: _set(s, "episode_2/observations/grid", (1, 0, 0), 8),
            "/episode_2/observations/grid: the hash of the values",
        ),
        (lambda s: _set(s, "episode_0/terminations", 1, True), "true at step 1 of 3, before the last step"),
        (lambda s: _set(s, "episode_0/terminations", 2, False), "both are false at the last step"),
        (lambda s: _set(s, "episode_0/rewards", 0, np.nan), "/episode_0/rewards contains a number that is not finite"),
        (lambda s: _set(s, "episode_0/actions", (2, 1), 3), "/episode_0/actions row 2 is not an action of Multi"),
        (
            lambda s: _replace(s, "episode_0/observations/flags", np.zeros((4, 3), np.int64)),
            "/episode_0/observations/flags is of type int64, not int8",
        ),
        (
            lambda s: _replace(s, "episode_0/actions", np.zeros((2, 2), np.int64)),
            "/episode_0/actions has the shape (2, 2), not (3, 2)",
        ),
        (lambda s: s.__delitem__("episode_0/truncations"), "/episode_0/truncations is missing"),
        (lambda s: s.__delitem__("episode_2"), "2 episodes, but metadata.json has 3"),
        (lambda s: s["episode_1"].attrs.__setitem__("total_steps", 9), "/episode_1: total_steps is 9, not 1"),
    ],
)
def test_damage_is_named_with_its_place(write: Write, change: Callable[[Any], None], words: str) -> None:
    data = write()
    found = _changed(data, change)
    assert words in found
    assert str(data.file) in found


def test_a_file_that_was_cut_off_is_named(write: Write) -> None:
    data = write()
    content = data.file.read_bytes()
    data.file.write_bytes(content[: len(content) // 2])
    assert any(str(data.file) in problem for problem in problems_of(OfflineDataset(data.path)))
    with pytest.raises(UserError, match=r"main_data\.hdf5"):
        OfflineDataset(data.path).transitions()


def test_bytes_that_changed_inside_an_array_are_named(write: Write) -> None:
    data = write()
    with h5py.File(data.file, "r") as stream:
        stored = stream["episode_2/observations/grid"]
        place = stored.id.get_chunk_info(0).byte_offset if stored.chunks else stored.id.get_offset()
    content = bytearray(data.file.read_bytes())
    content[place + 8 : place + 40] = bytes(32)
    data.file.write_bytes(content)
    found = "\n".join(problems_of(OfflineDataset(data.path)))
    assert "/episode_2/observations/grid" in found


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["a", "b", "c"], "its values are not numbers but object"),
        (np.array([b"a", b"b", b"c"]), "its values are not numbers but |S1"),
        (np.zeros(3, [("a", "f8")]), "its values are not numbers but"),
        (np.zeros((3, 2)), "has the shape (3, 2), not (steps,)"),
        (1.0, "has the shape (), not (steps,)"),
    ],
)
def test_rewards_that_are_no_series_of_numbers_are_named(
    values: Any, words: str, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write()
    with h5py.File(data.file, "a") as stream:
        _replace(stream["episode_0"], "rewards", values)
    with pytest.raises(SystemExit) as ended:
        cli.main(["validate", str(data.path.parent)])
    printed = capsys.readouterr().out
    assert ended.value.code == 1
    assert re.search(rf"/episode_0/rewards.*{re.escape(words)}", printed), printed
    assert "INVALID" in printed


def test_a_record_that_does_not_fit_is_named(write: Write) -> None:
    data = write()
    path = data.path / "a2perf.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "content_sha256": "0" * 64, "steps": 7}))
    found = "\n".join(problems_of(OfflineDataset(data.path)))
    assert "the SHA-256 of the episodes differs" in found
    assert ": 3 episodes and 7 steps, but the data has 3 and 8" in found
    path.write_text(json.dumps({**record, "episodes": "three"}))
    assert "not a valid DatasetRecord" in "\n".join(problems_of(OfflineDataset(data.path)))
    path.write_text("{")
    with pytest.raises(UserError, match=r"a2perf\.json cannot be read"):
        OfflineDataset(data.path)
