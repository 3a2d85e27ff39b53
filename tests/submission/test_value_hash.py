"""The hash by which two runs are compared step by step."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2perf.submission.evaluator.playing.step_trace import StepTrace, value_hash
from tests.made_submissions import policy, write_submission
from tests.participants import make_participant


@given(st.integers(1, 300), st.data())
@pytest.mark.parametrize("dtype", ["u1", "i4", "f4", "f8", "?"])
def test_every_single_change_changes_the_hash(dtype: str, size: int, data: st.DataObject) -> None:
    array = (np.random.default_rng(size).random(size) * 2).astype(dtype)
    place = data.draw(st.integers(0, size - 1))
    other = array.copy()
    other[place] = not array[place] if dtype == "?" else array[place] + 1
    assert value_hash(array) == value_hash(array.copy()) < 1 << 32
    assert value_hash(array) != value_hash(other)
    assert value_hash({"a": array, "b": 1 * array}) != value_hash({"a": other, "b": 1 * array})


@given(st.integers(2, 300), st.sampled_from(["f4", "f8"]), st.data())
def test_changed_signs_and_swapped_values_change_the_hash(size: int, dtype: str, data: st.DataObject) -> None:
    array = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1))).normal(size=size).astype(dtype)
    places = data.draw(st.lists(st.integers(0, size - 1), min_size=1, unique=True))
    mirrored = array.copy()
    mirrored[places] *= -1
    one, other = data.draw(st.lists(st.integers(0, size - 1), min_size=2, max_size=2, unique=True))
    swapped = array.copy()
    swapped[[one, other]] = array[[other, one]]
    assert len({value_hash(value) for value in (array, mirrored, swapped)}) == 3


@pytest.mark.parametrize("dtype", ["?", "u1", "f4", "f8"])
def test_every_place_of_a_one_hot_has_its_own_hash(dtype: str) -> None:
    assert len({value_hash(row) for row in np.eye(3200, dtype=dtype)[7::8]}) == 400


def test_the_hash_depends_on_structure_and_not_on_memory() -> None:
    grid = np.arange(24, dtype=np.float32).reshape(4, 6)
    assert value_hash(grid.T) == value_hash(np.ascontiguousarray(grid.T))
    values: list[Any] = [
        grid,
        grid.T,
        grid.ravel(),
        grid.view(np.int32),
        {"a": grid},
        {"b": grid},
        {"a": grid, "b": grid},
        [grid],
        (grid, grid),
        {"a": [1, 2]},
        1,
        2,
        1.0,
        True,
        "1",
        "2",
        [],
        [1, 2],
        [2, 1],
        np.zeros(0),
        [grid, 1 * grid.T],
    ]
    assert len({value_hash(value) for value in values}) == len(values)
    assert [value_hash(value) for value in (-3, 0, 5)] == [value_hash(np.int64(value)) for value in (-3, 0, 5)]


def test_the_hash_is_the_same_in_every_version() -> None:
    assert [value_hash(value) for value in (7, np.arange(10, dtype="<f4"), {"x": np.ones(3, "u1")}, "text")] == [
        4009554595,
        651581485,
        3110165145,
        1713648782,
    ]


def test_every_observation_that_is_sent_is_seen_as_it_is(tmp_path: Path) -> None:
    """In shared memory the arrays of one request follow those of another one: nothing of it may count."""
    entry = write_submission(tmp_path / "entry", policy(infer="return 0"))
    random = np.random.default_rng(0)
    sent: list[Any] = []
    seen: list[int] = []
    with make_participant(entry, logs=tmp_path / "logs", sandbox="none") as process:
        process.start()
        process.load_policy({})
        process.on_observation = lambda observation: seen.append(value_hash(observation))
        for turn in range(12):
            wide = 1 + turn % 3
            array = random.integers(0, 255, (wide, 7), np.uint8)
            for observation in (
                array,
                array.T,
                {"a": array, "b": random.random(3 * wide)},
                {"b": array, "a": random.random(3)},
                {"a": array, "b": np.float32(2)},
                {"a": {"b": array}},
                (array,),
                "text",
                wide,
            ):
                sent.append(observation)
                process.infer(observation)
    assert len(seen) == 108
    assert seen == [value_hash(observation) for observation in sent]


@given(st.lists(st.sets(st.sampled_from("abcd")), min_size=2, max_size=12), st.sampled_from([40_000, 17, 3]))
def test_a_trace_follows_an_environment_that_reuses_its_memory(changes: list[set[str]], size: int) -> None:
    """0.0 and -0.0 are equal but not the same."""
    observation = {name: np.full(number * size, np.nan, "f4") for number, name in enumerate("abcd", 1)}
    trace, expected = StepTrace(), []
    for changed in changes:
        for name in changed:
            first = observation[name][0]
            observation[name][0] = -first if first == 0 else 0.0
        expected.append(value_hash({name: array.copy() for name, array in observation.items()}))
        trace.see(observation)
    assert trace.record()["observation_xxh3"] == expected
