"""No answer reaches an environment that is not an element of its action space."""

import numpy as np
import pytest
from gymnasium import spaces

from a2perf.records import FailureKind
from a2perf.submission.evaluator.playing.actions import ActionChecker
from a2perf.submission.evaluator.process.failures import ParticipantFailure

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)


OPEN = spaces.Box(-np.inf, np.inf, (2,), np.float64)


@pytest.mark.parametrize(
    ("space", "value", "expected"),
    [
        (BOX, np.array([0.5, -1.0, 1.0], np.float32), [0.5, -1.0, 1.0]),
        (BOX, np.array([0.5, -1.0, 1.0], np.float64), [0.5, -1.0, 1.0]),
        (BOX, (0.5, -1.0, 1.0), [0.5, -1.0, 1.0]),
        (BOX, np.array([[0.5, -1.0, 1.0]]), [0.5, -1.0, 1.0]),
        (BOX, (1, 0, -1), [1.0, 0.0, -1.0]),
        (OPEN, np.array([1e300, -1e300]), [1e300, -1e300]),
        (spaces.Box(0, 255, (2,), np.uint8), np.array([3.0, 300.0]), [3, 255]),
    ],
)
def test_box_action_becomes_an_element_of_the_box(space: spaces.Box, value: object, expected: list[float]) -> None:
    action = ActionChecker(space)(value)
    assert action in space
    np.testing.assert_allclose(action, expected)


def test_finite_numbers_out_of_range_are_clipped_and_counted() -> None:
    checker = ActionChecker(BOX)
    np.testing.assert_array_equal(checker(np.array([2.0, -1e30, 0.0])), np.array([1, -1, 0], np.float32))
    checker(np.zeros(3, np.float32))
    assert checker.clipped == 1


@pytest.mark.parametrize(
    ("space", "action", "said"),
    [
        (BOX, np.zeros(3, np.float32), True),
        (spaces.Discrete(5), np.array([3]), True),
        (BOX, np.full(3, np.nan), False),
    ],
)
def test_an_action_with_a_state_is_refused_with_the_element_to_return(
    space: spaces.Space, action: object, said: bool
) -> None:
    with pytest.raises(ParticipantFailure) as caught:
        ActionChecker(space)((action, None))
    assert ("return only that element" in caught.value.failure.message) == said


REFUSED = {
    "NaN": (BOX, np.array([0.0, np.nan, 0.0], np.float32), "NaN"),
    "infinity": (BOX, np.array([0.0, np.inf, 0.0], np.float32), "infinite"),
    "infinity for an open box": (OPEN, np.array([np.inf, 0.0]), "infinite"),
    "None": (BOX, None, "is None"),
    "text": (BOX, "left", "a str of length 4"),
    "bytes": (BOX, b"\x00", "a bytes of length 1"),
    "dict": (BOX, {"a": 1.0}, "a dict of length 1"),
    "wrong shape": (BOX, np.zeros(4, np.float32), r"shape \(4,\)"),
    "scalar": (BOX, 0.0, r"shape \(\)"),
    "batch of two": (BOX, np.zeros((2, 3)), r"shape \(2, 3\)"),
    "huge array": (BOX, np.zeros(1_000_000), r"shape \(1000000,\)"),
    "complex": (BOX, np.zeros(3, complex), "complex"),
    "ragged": (BOX, ((1, 2), (3,)), "not an array"),
    "mixed": (BOX, (1.0, "a", None), "contains None"),
    "fraction for whole numbers": (spaces.Box(0, 9, (1,), np.int64), (1.5,), "not whole numbers"),
    "NaN for whole numbers": (spaces.Box(0, 9, (1,), np.int64), (np.nan,), "NaN"),
    "discrete too large": (spaces.Discrete(3), 3, "3, which is out of range"),
    "discrete negative": (spaces.Discrete(3), -1, "out of range"),
    "discrete below its start": (spaces.Discrete(3, start=5), 4, "out of range"),
    "discrete fraction": (spaces.Discrete(3), 1.5, "not a whole number"),
    "discrete NaN": (spaces.Discrete(3), float("nan"), "not a whole number"),
    "discrete array": (spaces.Discrete(3), np.zeros(2, int), r"shape \(2,\)"),
    "discrete text": (spaces.Discrete(3), "1", "a str"),
    "multi-discrete out of range": (spaces.MultiDiscrete([2, 3]), (1, 3), "out of range"),
    "multi-discrete shape": (spaces.MultiDiscrete([2, 3]), (1,), "shape"),
    "multi-binary": (spaces.MultiBinary(2), (0, 2), "out of range"),
    "dict without a key": (spaces.Dict(a=BOX, b=BOX), {"a": np.zeros(3)}, r"keys \['a'\]"),
    "dict with a bad part": (spaces.Dict(a=spaces.Discrete(2)), {"a": 2}, "out of range"),
    "tuple too short": (spaces.Tuple((BOX, BOX)), (np.zeros(3),), "1 elements"),
    "text with a strange letter": (spaces.Text(5, charset="ab"), "abc", "a str"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_action_is_refused_with_what_came_and_what_is_valid(name: str) -> None:
    space, value, message = REFUSED[name]
    with pytest.raises(ParticipantFailure, match=message) as caught:
        ActionChecker(space)(value)
    failure = caught.value.failure
    assert failure.kind is FailureKind.BAD_OUTPUT
    assert failure.where == "infer_once"
    assert "; expected " in failure.message
    assert len(failure.message) < 400


@pytest.mark.parametrize("value", [2, np.int32(2), np.array(2), np.array([2]), 2.0, np.float32(2.0)])
def test_discrete_action_becomes_an_int(value: object) -> None:
    action = ActionChecker(spaces.Discrete(3))(value)
    assert action == 2
    assert type(action) is int


def test_nested_action_is_checked_part_by_part() -> None:
    space = spaces.Dict(move=BOX, press=spaces.Tuple((spaces.Discrete(2), spaces.MultiBinary(2))))
    action = ActionChecker(space)({"move": (9.0, 0.0, 0.0), "press": (1, (0.0, 1.0))})
    assert action in space
    assert action["move"][0] == 1.0
