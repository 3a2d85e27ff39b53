"""The hash by which two runs are compared step by step."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2perf.submission.evaluator.playing.step_trace import value_hash


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
