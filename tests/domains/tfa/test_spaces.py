"""Gymnasium spaces as specs, values in both directions, and what does not fit; without TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from a2perf.domains.tfa.spaces import ArraySpec, SpaceMismatch, action_writer, differences, leaves, reader, specs_of
from a2perf.errors import ConfigError

NESTED = spaces.Dict(
    {
        "image": spaces.Box(0, 255, (2, 3), np.uint8),
        "pair": spaces.Tuple((spaces.Discrete(4, start=2), spaces.MultiBinary((2, 2)))),
        "choice": spaces.MultiDiscrete([3, 5]),
    }
)


def test_nested_space_becomes_a_nest_of_the_same_form() -> None:
    nest = specs_of(NESTED)
    assert isinstance(nest, dict)
    assert set(nest) == {"image", "pair", "choice"}
    assert isinstance(nest["pair"], tuple)
    found = {spec.name: (spec.shape, spec.dtype, spec.minimum.tolist(), spec.maximum.tolist()) for spec in leaves(nest)}
    assert found == {
        "observation/image": ((2, 3), np.uint8, 0, 255),
        "observation/pair/0": ((), np.int64, 2, 5),
        "observation/pair/1": ((2, 2), np.int32, 0, 1),
        "observation/choice": ((2,), np.int32, [0, 0], [2, 4]),
    }


def test_observation_is_read_into_the_specs_and_copied() -> None:
    given = NESTED.sample()
    seen = reader(specs_of(NESTED, {"MultiDiscrete": np.float32}))(given)
    assert seen["choice"].dtype == np.float32
    assert seen["choice"].tolist() == given["choice"].tolist()
    assert seen["pair"][0].dtype == np.int64
    assert seen["pair"][0].shape == ()
    seen["image"][:] = 7
    assert not (given["image"] == 7).all()


def test_action_of_arrays_becomes_one_that_the_space_contains() -> None:
    specs = specs_of(NESTED)
    for seed in range(20):
        NESTED.seed(seed)
        given = NESTED.sample()
        action = action_writer(NESTED)(reader(specs)(given))
        assert NESTED.contains(action)
        assert type(action["pair"][0]) is int
        assert action["pair"][0] == given["pair"][0]


@pytest.mark.parametrize("key", [spaces.Box, "Box"])
def test_dtype_map_takes_classes_and_names(key: object) -> None:
    spec = specs_of(spaces.Box(-np.inf, np.inf, (3,), np.float64), {key: np.float32})
    assert isinstance(spec, ArraySpec)
    assert spec.dtype == np.float32
    limits = np.finfo(np.float32)
    assert (spec.minimum, spec.maximum) == (limits.min, limits.max)


def test_bounds_beyond_the_dtype_become_its_extremes() -> None:
    spec = specs_of(
        spaces.Box(np.array([-np.inf, -2.5]), np.array([np.inf, 1e30]), dtype=np.float64), {"Box": np.int32}
    )
    assert isinstance(spec, ArraySpec)
    assert spec.minimum is not None
    assert spec.minimum.tolist() == [np.iinfo(np.int32).min, -2]
    assert spec.maximum is not None
    assert spec.maximum.tolist() == [np.iinfo(np.int32).max] * 2


def test_unknown_kind_in_the_dtype_map_is_named() -> None:
    with pytest.raises(ConfigError, match=r"'Boxx'; did you mean 'Box'"):
        specs_of(spaces.Discrete(2), {"Boxx": np.float32})


def test_space_of_no_fixed_shape_is_refused_with_its_place() -> None:
    with pytest.raises(SpaceMismatch, match=r"observation/words is a Text space"):
        specs_of(spaces.Dict({"words": spaces.Text(5)}))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"image": np.zeros((2, 3))}, "observation has the parts choice, image, pair; given was image"),
        (NESTED.sample() | {"image": np.zeros((3, 2))}, r"observation/image has the shape \(3, 2\), not \(2, 3\)"),
        (NESTED.sample() | {"pair": (1,)}, "observation/pair has 2 parts; given was "),
        (NESTED.sample() | {"choice": ["a", "b"]}, "observation/choice is not an array of int32"),
    ],
)
def test_observation_that_does_not_fit_is_named(given: object, message: str) -> None:
    with pytest.raises(SpaceMismatch, match=message):
        reader(specs_of(NESTED))(given)


def test_action_that_does_not_fit_is_named() -> None:
    with pytest.raises(SpaceMismatch, match=r"action has the shape \(2,\); given was one of \(3,\)"):
        action_writer(spaces.Box(-1, 1, (2,)))(np.zeros(3))
    with pytest.raises(SpaceMismatch, match="whole numbers"):
        action_writer(spaces.Discrete(3))(0.5)
    assert action_writer(spaces.Discrete(3))(np.array([2.0])) == 2


def _differences(theirs: spaces.Space, ours: spaces.Space, *, bounds: bool) -> list[str]:
    name = "action" if bounds else "observation"
    return differences(specs_of(theirs, name=name), specs_of(ours, name=name), bounds=bounds, name=name)


def test_policy_fits_its_own_space_and_one_whose_observations_hold_more() -> None:
    assert _differences(NESTED, NESTED, bounds=True) == []
    larger = spaces.Dict({**NESTED.spaces, "extra": spaces.Discrete(2)})
    assert _differences(NESTED, larger, bounds=False) == []
    assert _differences(spaces.Box(-1, 1, (2,)), spaces.Box(-5, 5, (2,)), bounds=False) == []


def test_every_difference_is_named() -> None:
    assert _differences(spaces.Box(-1, 1, (4,)), spaces.Box(-1, 1, (160,)), bounds=False) == [
        "observation: the policy has the shape (4,), the environment (160,)"
    ]
    assert _differences(spaces.Discrete(2), spaces.Discrete(16384), bounds=True) == [
        "action: the policy's range is 0 to 1, the environment's 0 to 16383"
    ]
    assert _differences(spaces.Box(-1, 1, ()), spaces.Discrete(2), bounds=True) == [
        "action: the policy has fractions (float32), the environment whole numbers (int64)"
    ]
    lines = _differences(NESTED, spaces.Dict({"pair": spaces.Discrete(1)}), bounds=False)
    assert "the policy needs observation/image, which the environment has not" in lines
    assert "observation/pair: the policy has a tuple of 2, the environment one array of shape ()" in lines
