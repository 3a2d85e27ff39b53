"""Gymnasium spaces as the JSON that Minari keeps in ``metadata.json``, nests of arrays, and how two spaces differ.

Taken are ``Dict`` and ``Tuple`` of ``Box``, ``Discrete``, ``MultiDiscrete`` and ``MultiBinary``: all that is an array
of fixed shape in every step. Imports Gymnasium and NumPy.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from a2perf.errors import ConfigError

Array = NDArray[Any]
Space = spaces.Space[Any]
MAX_ELEMENTS = 1 << 26
"""Of one array of a space: 64 times the pixels of a large screen."""
_NO_SPACE = (KeyError, TypeError, ValueError, AttributeError, AssertionError, OverflowError, RecursionError)


def to_json(space: Space) -> str:
    """Returns a space as text.

    Raises:
        ConfigError: it is, or holds, a space that is no array of fixed shape.
    """
    return json.dumps(_described(space, "space"))


def from_json(text: str) -> Space:
    """Returns the space that a text describes.

    Raises:
        ConfigError: the text describes none of the spaces that are taken.
    """
    try:
        return _rebuilt(json.loads(text))
    except _NO_SPACE as error:
        raise ConfigError(f"this describes no space of Gymnasium ({error}): {text:.120}") from error


def leaves(space: Space, name: str) -> Iterator[tuple[str, Space]]:
    """Yields the arrays of a space with their paths: ``("observations/mask", Box(...))``; sorted by name in a dict."""
    if isinstance(space, spaces.Dict):
        for key in sorted(space.spaces):
            yield from leaves(space.spaces[key], f"{name}/{key}")
    elif isinstance(space, spaces.Tuple):
        for index, child in enumerate(space.spaces):
            yield from leaves(child, f"{name}/_index_{index}")
    else:
        yield name, space


def flatten(space: Space, value: Any, name: str) -> Iterator[tuple[str, Array]]:
    """Yields the arrays of one element of a space, in the order and with the names of ``leaves``, each a copy."""
    if isinstance(space, spaces.Dict):
        for key in sorted(space.spaces):
            yield from flatten(space.spaces[key], value[key], f"{name}/{key}")
    elif isinstance(space, spaces.Tuple):
        for index, child in enumerate(space.spaces):
            yield from flatten(child, value[index], f"{name}/_index_{index}")
    else:
        yield name, np.array(value, dtype=space.dtype)


def nest(space: Space, arrays: Mapping[str, Any], name: str) -> Any:
    """Returns flat arrays as the dicts and tuples of a space; what is not there is left out."""
    if isinstance(space, spaces.Dict):
        found = {key: nest(child, arrays, f"{name}/{key}") for key, child in space.spaces.items()}
        return {key: value for key, value in found.items() if value is not None} or None
    if isinstance(space, spaces.Tuple):
        parts = tuple(nest(child, arrays, f"{name}/_index_{index}") for index, child in enumerate(space.spaces))
        return None if all(part is None for part in parts) else parts
    return arrays.get(name)


def differences(one: Space, other: Space, name: str, *, names: tuple[str, str] = ("", "")) -> list[str]:
    """Says in what two spaces differ, one line an array.

    Args:
        one: a space.
        other: another.
        name: what they are spaces of: ``"observation"``.
        names: what they are called in the lines.
    """
    ours, theirs = dict(leaves(one, name)), dict(leaves(other, name))
    lines = [f"{path} is only in {names[0]}" for path in ours if path not in theirs]
    lines += [f"{path} is only in {names[1]}" for path in theirs if path not in ours]
    for path in ours.keys() & theirs.keys():
        if ours[path] != theirs[path]:
            lines.append(f"{path} is {_short(ours[path])} in {names[0]} and {_short(theirs[path])} in {names[1]}")
    return sorted(lines)


def _short(space: Space) -> str:
    if isinstance(space, spaces.Box):
        low, high = float(np.min(space.low)), float(np.max(space.high))
        return f"Box({low:g} to {high:g}, {space.shape}, {space.dtype})"
    return str(space)


def _described(space: Space, name: str) -> dict[str, Any]:
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "subspaces": {key: _described(c, f"{name}/{key}") for key, c in space.spaces.items()}}
    if isinstance(space, spaces.Tuple):
        return {"type": "Tuple", "subspaces": [_described(c, f"{name}/{i}") for i, c in enumerate(space.spaces)]}
    if isinstance(space, spaces.Box):
        return {
            "type": "Box",
            "dtype": str(space.dtype),
            "shape": list(space.shape),
            "low": space.low.tolist(),
            "high": space.high.tolist(),
        }
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "dtype": "int64", "start": int(space.start), "n": int(space.n)}
    if isinstance(space, spaces.MultiDiscrete):
        start = np.broadcast_to(getattr(space, "start", 0), space.nvec.shape)
        return {
            "type": "MultiDiscrete",
            "dtype": str(space.dtype),
            "nvec": space.nvec.tolist(),
            "start": start.tolist(),
        }
    if isinstance(space, spaces.MultiBinary):
        return {"type": "MultiBinary", "n": space.n if isinstance(space.n, int) else list(space.n)}
    raise ConfigError(
        f"{name} is a {type(space).__name__} space, which is no array of fixed shape",
        hint="wrap the environment so that its spaces are Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple "
        "of these",
    )


def _rebuilt(found: Mapping[str, Any]) -> Space:
    kind = found["type"]
    if kind in ("Box", "MultiBinary"):
        sides = found["shape" if kind == "Box" else "n"]
        if math.prod(sides if isinstance(sides, list) else [sides]) > MAX_ELEMENTS:
            raise ValueError(f"more than {MAX_ELEMENTS} elements")
    if kind == "Dict":
        return spaces.Dict({key: _rebuilt(child) for key, child in found["subspaces"].items()})
    if kind == "Tuple":
        return spaces.Tuple(tuple(_rebuilt(child) for child in found["subspaces"]))
    if kind == "Box":
        low, high = (np.array(found[side], dtype=found["dtype"]) for side in ("low", "high"))
        return spaces.Box(low=low, high=high, shape=tuple(found["shape"]), dtype=np.dtype(found["dtype"]).type)
    if kind == "Discrete":
        return spaces.Discrete(n=found["n"], start=found["start"])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(
            nvec=np.array(found["nvec"]), dtype=np.dtype(found["dtype"]).type, start=np.array(found["start"])
        )
    if kind == "MultiBinary":
        return spaces.MultiBinary(n=found["n"])
    raise ValueError(f"unknown kind {kind!r}")
