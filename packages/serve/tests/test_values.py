"""Values keep every bit on the way to a client and back, and records of hostile clients cost no memory."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import msgspec
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings

from a2perf_serve.errors import ServingError
from a2perf_serve.spaces import checked_action, describe_space
from a2perf_serve.values import DTYPES, UnsendableValue, array_record, encode, plain
from packages.serve.tests.conftest import assert_same, from_plain


def _round_trip(value: Any) -> Any:
    return from_plain(msgspec.json.decode(encode(plain(value))))


@settings(max_examples=40)
@given(
    array=st.sampled_from(sorted(DTYPES)).flatmap(
        lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_side=20), fill=st.just(0))
    )
)
def test_arrays_keep_type_shape_and_bits(array: np.ndarray[Any, Any]) -> None:
    expected = array if array.shape else array[()]
    assert_same(_round_trip(array), expected)


def test_bits_that_compare_equal_or_unequal_to_themselves_survive_the_padding() -> None:
    quiet = np.frombuffer(b"\x01\x00\xc0\x7f", np.float32)[0]  # a NaN with a payload
    for last in (np.float32(-0.0), np.float32("nan"), quiet, np.float32("inf")):
        array = np.concatenate([np.zeros(20, np.float32), np.full(50, last, np.float32)])
        assert len(array_record(array).data) == 21 * 4
        assert_same(_round_trip(array), array)


def test_plain_values_keep_their_type() -> None:
    value = {"a": [1, 2.5, None, True, "x"], "b": {"c": float("-0.0")}, "d": 2**63, "e": 0.1 + 0.2}
    assert_same(_round_trip(value), value)
    sent = _round_trip({"nan": float("nan"), "inf": float("inf"), "scalar": np.int16(3)})
    assert np.isnan(sent["nan"])
    assert sent["inf"] == float("inf")
    assert_same(sent["scalar"], np.int16(3))


@pytest.mark.parametrize(
    "value", [object(), 2**64, np.array(["text"]), {"a": {1, 2}}], ids=["object", "large", "array of texts", "set"]
)
def test_values_without_a_form_are_refused(value: Any) -> None:
    with pytest.raises(UnsendableValue):
        plain(value)


@pytest.mark.parametrize(
    "record",
    [
        {"dtype": "O", "shape": [1], "data": ""},
        {"dtype": ["<f4"], "shape": [1], "data": ""},
        {"dtype": "<f4", "shape": [1 << 40], "data": "AAAAAA=="},
        {"dtype": "<f4", "shape": [-1], "data": ""},
        {"dtype": "<f4", "shape": [True], "data": "AAAAAA=="},
        {"dtype": "<f4", "shape": "1", "data": "AAAAAA=="},
        {"dtype": "<f4", "shape": [1], "data": "AAAA"},
        {"dtype": "<f4", "shape": [1], "data": "!"},
        {"dtype": "<f4", "shape": [1], "data": 3},
        {"dtype": "<f4", "shape": [1], "data": ""},
        {"dtype": "<f4", "shape": [0], "data": "AAAAAA=="},
        {"dtype": "|b1", "shape": [1], "data": "Ag=="},
        {"dtype": "<f4", "shape": [1] * 33, "data": "AAAAAA=="},
    ],
    ids=str,
)
def test_invalid_records_are_refused(record: dict[str, Any]) -> None:
    with pytest.raises(ServingError) as refused:
        from_plain([record])
    assert refused.value.kind == "bad_request"


_SPACES = [
    spaces.Discrete(5, start=2),
    spaces.Box(np.float32([-1, -np.inf]), np.float32([1, np.inf])),
    spaces.MultiDiscrete([3, 4]),
    spaces.MultiBinary(3),
    spaces.Text(20, charset="abc 1"),
    spaces.Dict(a=spaces.Discrete(2), b=spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 1, (2, 2))])),
]


@pytest.mark.parametrize("space", _SPACES, ids=str)
def test_spaces_and_their_actions_survive_the_way(space: spaces.Space[Any]) -> None:
    assert msgspec.json.decode(encode(describe_space(space)))["type"] == type(space).__name__
    space.seed(0)
    for _ in range(5):
        action = space.sample()
        sent = msgspec.json.decode(encode(plain(action)))
        taken = checked_action(space, sent)
        assert space.contains(taken)
        assert np.array_equal(spaces.flatten(space, taken), spaces.flatten(space, action))


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (_SPACES[0], 7),
        (_SPACES[0], 1),
        (_SPACES[0], True),
        (_SPACES[0], 3.0),
        (_SPACES[0], "3"),
        (_SPACES[0], None),
        (_SPACES[0], {"dtype": "<f4", "shape": [], "data": "AABAQA=="}),
        (_SPACES[1], [0.0]),
        (_SPACES[1], [[0.0, 0.0]]),
        (_SPACES[1], ["a", "b"]),
        (_SPACES[1], [0.0, [1.0]]),
        (_SPACES[1], [0.0, 1e300]),
        (_SPACES[1], [0.0, None]),
        (_SPACES[1], [10**400, 0]),
        (_SPACES[1], "ab"),
        (_SPACES[1], {"dtype": "<f4", "shape": [2], "data": "AADAfwAAAAA="}),
        (_SPACES[1], {"dtype": "<f4", "shape": [1 << 40], "data": "AAAAAA=="}),
        (_SPACES[2], [3, 0]),
        (_SPACES[2], [0.5, 0]),
        (_SPACES[3], [0, 2, 0]),
        (_SPACES[4], 3),
        (_SPACES[5], {"a": 0}),
        (_SPACES[5], [0, 1]),
        (_SPACES[5], {"a": 0, "b": [0]}),
    ],
    ids=str,
)
def test_actions_that_do_not_fit_are_refused(space: spaces.Space[Any], action: Any) -> None:
    with pytest.raises(ServingError) as refused:
        checked_action(space, action)
    assert refused.value.kind in ("invalid_action", "bad_request")
    assert refused.value.hint
