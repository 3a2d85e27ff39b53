"""Spaces in the JSON of Minari's ``metadata.json``, nests of arrays, and the differences between two spaces.

Supported are ``Dict`` and ``Tuple`` of ``Box``, ``Discrete``, ``MultiDiscrete`` and ``MultiBinary``: every element is
an array of fixed shape. Minari writes and parses the text; it is checked here first, because the file may be untrusted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from minari.serialization import deserialize_space, serialize_space
from numpy.typing import NDArray

from a2perf.errors import ConfigError

Array = NDArray[Any]
Space = spaces.Space[Any]
MAX_ELEMENTS = 1 << 26
"""Largest array of a space."""
_ARRAYS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
_NO_SPACE = (KeyError, TypeError, ValueError, AttributeError, AssertionError, OverflowError, RecursionError)


def to_json(space: Space) -> str:
    """Returns a space as text.

    Raises:
        ConfigError: it is or contains a space that is not an array of fixed shape.
    """
    for name, leaf in leaves(space, "space"):
        if not isinstance(leaf, _ARRAYS):
            raise ConfigError(
                f"{name} is a {type(leaf).__name__} space, which is not an array of fixed shape",
                hint="wrap the environment: use Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple of these",
            )
    return str(serialize_space(space))


def from_json(text: str) -> Space:
    """Returns the space that a text describes.

    Raises:
        ConfigError: the text does not describe a supported space.
    """
    try:
        found = json.loads(text)
        _require_bounded(found)
        space: Space = deserialize_space(found)
    except _NO_SPACE as error:
        raise ConfigError(
            f"not a supported Gymnasium space ({error}): {text:.120}", hint="copy or generate the dataset again"
        ) from error
    return space


def leaves(space: Space, name: str) -> Iterator[tuple[str, Space]]:
    """Yields the arrays of a space with their paths: ``("observations/mask", Box(...))``, dict keys sorted."""
    if isinstance(space, spaces.Dict):
        for key in sorted(space.spaces):
            yield from leaves(space.spaces[key], f"{name}/{key}")
    elif isinstance(space, spaces.Tuple):
        for index, child in enumerate(space.spaces):
            # Minari's name for the parts of a tuple.
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
    """Returns flat arrays as the dicts and tuples of a space; missing arrays are left out."""
    if isinstance(space, spaces.Dict):
        found = {key: nest(child, arrays, f"{name}/{key}") for key, child in space.spaces.items()}
        return {key: value for key, value in found.items() if value is not None} or None
    if isinstance(space, spaces.Tuple):
        parts = tuple(nest(child, arrays, f"{name}/_index_{index}") for index, child in enumerate(space.spaces))
        return None if all(part is None for part in parts) else parts
    return arrays.get(name)


def differences(one: Space, other: Space, name: str, *, names: tuple[str, str] = ("", "")) -> list[str]:
    """Returns the differences between two spaces, one line per array of an element such as ``"observation"``."""
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


def _require_bounded(found: Mapping[str, Any]) -> None:
    """Raises ValueError if a space is not supported or has too many elements."""
    kind = found["type"]
    if kind in ("Dict", "Tuple"):
        below = found["subspaces"]
        for child in below.values() if kind == "Dict" else below:
            _require_bounded(child)
    elif kind in ("Box", "MultiBinary"):
        sides = found["shape" if kind == "Box" else "n"]
        if math.prod(sides if isinstance(sides, list) else [sides]) > MAX_ELEMENTS:
            raise ValueError(f"more than {MAX_ELEMENTS} elements")
    elif kind not in ("Discrete", "MultiDiscrete"):
        raise ValueError(f"unknown kind {kind!r}")
