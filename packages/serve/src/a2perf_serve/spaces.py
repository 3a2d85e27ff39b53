"""Spaces of Gymnasium as plain values, and actions of clients checked against them."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from a2perf_serve.errors import ServingError
from a2perf_serve.values import array_of, is_array_record, plain

_SHOWN = 60


def describe_space(space: spaces.Space[Any]) -> dict[str, Any]:
    """Returns a plain description of a space.

    Args:
        space: a space of Gymnasium. Of a kind not listed here, the description has the name only.
    """
    kind = type(space).__name__
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.Box):
        dtype = space.dtype.str
        return {
            "type": "Box",
            "shape": list(space.shape),
            "dtype": dtype,
            **plain({"low": space.low, "high": space.high}),
        }
    if isinstance(space, spaces.MultiDiscrete):
        return {"type": "MultiDiscrete", **plain({"nvec": space.nvec, "start": space.start})}
    if isinstance(space, spaces.MultiBinary):
        return {"type": "MultiBinary", "shape": list(space.shape)}
    if isinstance(space, spaces.Text):
        characters = "".join(sorted(space.character_set))
        return {"type": "Text", "min": space.min_length, "max": space.max_length, "characters": characters}
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "spaces": {key: describe_space(inner) for key, inner in space.spaces.items()}}
    if isinstance(space, spaces.Tuple):
        return {"type": "Tuple", "spaces": [describe_space(inner) for inner in space.spaces]}
    return {"type": kind}


def checked_action(space: spaces.Space[Any], given: Any, name: str = "action") -> Any:
    """Returns an action of a client as the environment takes it.

    Args:
        given: a decoded message: an integer, a string, nested lists of numbers, or the record of an array.

    Returns:
        An ``int``, a ``str``, an array of the space's shape and dtype, or a dict or tuple of them. Numbers outside the
        bounds of a box pass, as they do locally; numbers that are not finite do not.

    Raises:
        ServingError: the type, the shape or a number does not fit (``invalid_action``).
    """
    if isinstance(space, spaces.Text):
        if not isinstance(given, str):
            raise _refused(name, given, 'send a string, for example "click 12"')
        return given
    if isinstance(space, spaces.Discrete):
        return _choice(space, given, name)
    if isinstance(space, (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)):
        return _numbers(space, given, name)
    if isinstance(space, spaces.Dict):
        if not isinstance(given, dict) or given.keys() != space.spaces.keys():
            raise _refused(name, given, f"send an object with the keys: {', '.join(space.spaces)}")
        return {key: checked_action(inner, given[key], f"{name}.{key}") for key, inner in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        if not isinstance(given, list) or len(given) != len(space.spaces):
            raise _refused(name, given, f"send a list of {len(space.spaces)} parts")
        return tuple(
            checked_action(inner, part, f"{name}[{index}]")
            for index, (inner, part) in enumerate(zip(space.spaces, given, strict=True))
        )
    raise ServingError("invalid_action", f"actions of {type(space).__name__} cannot be sent")


def _choice(space: spaces.Discrete, given: Any, name: str) -> int:
    low, high = int(space.start), int(space.start + space.n) - 1
    hint = f"send an integer from {low} to {high}"
    if is_array_record(given):
        given = array_of(given, most_items=1)
        if np.ndim(given) or not np.issubdtype(np.asarray(given).dtype, np.integer):
            raise ServingError("invalid_action", f"{name} is an array that is not one integer", hint)
        given = int(given)
    if type(given) is not int or not low <= given <= high:
        raise _refused(name, given, hint)
    return given


def _numbers(space: spaces.Space[Any], given: Any, name: str) -> Any:
    shape, dtype = space.shape, np.dtype(space.dtype)
    assert shape is not None
    hint = f"send finite numbers of shape {list(shape)}"
    if is_array_record(given):
        if list(given["shape"] if isinstance(given["shape"], list) else ()) != list(shape):
            raise ServingError("invalid_action", f"{name} has another shape", hint)
        array = np.asarray(array_of(given, most_items=max(1, int(np.prod(shape)))))
    else:
        try:
            array = np.array(given)
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise ServingError("invalid_action", f"{name} is a list of uneven lists", hint) from None
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "b") != (dtype.kind == "b"):
        raise _refused(name, given, hint)
    if array.shape != shape:
        raise ServingError("invalid_action", f"{name} has the shape {list(array.shape)}", hint)
    if not np.isfinite(array).all():
        raise ServingError("invalid_action", f"{name} contains NaN or an infinity", hint)
    with np.errstate(over="ignore"):
        fitted = array.astype(dtype)
    if not np.isfinite(fitted).all():
        raise ServingError("invalid_action", f"{name} contains numbers that do not fit {dtype}", hint)
    if dtype.kind in "iu" and not (np.array_equal(fitted, array) and space.contains(fitted)):
        raise ServingError("invalid_action", f"{name} is not in {str(space)[:_SHOWN]}", hint)
    return fitted


def _refused(name: str, given: Any, hint: str) -> ServingError:
    shown = repr(given)
    return ServingError("invalid_action", f"{name} is {shown[:_SHOWN]}{'...' if len(shown) > _SHOWN else ''}", hint)
