"""Conversion between Gymnasium spaces and nests of array specs, and between their values.

The nests are those of TF-Agents: a ``Dict`` is a dict, a ``Tuple`` a tuple, every other space one array with inclusive
bounds. TensorFlow is not needed, so a policy can be checked against an environment without it. This module imports
Gymnasium and NumPy; import it locally.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import DTypeLike, NDArray

from a2perf.errors import ConfigError, UserError, did_you_mean

LEAVES = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")
"""The names of the spaces that are one array; keys of a map of dtypes."""

_DEFAULT_DTYPES: Mapping[str, DTypeLike] = {"Discrete": np.int64, "MultiDiscrete": np.int32, "MultiBinary": np.int32}
"""The dtypes that agents of TF-Agents expect; a ``Box`` keeps its own."""


class SpaceMismatch(UserError):
    """A value, a policy or a specification does not fit a space."""


@dataclass(frozen=True)
class ArraySpec:
    """One array.

    Attributes:
        minimum: the smallest value, inclusive; of shape ``()`` or ``shape``. ``None`` when nothing is known.
        name: path in the nest, ``"observation/mask"``.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    minimum: NDArray[Any] | None
    maximum: NDArray[Any] | None
    name: str


SpecNest: TypeAlias = "ArraySpec | tuple[SpecNest, ...] | dict[str, SpecNest]"
DtypeMap: TypeAlias = Mapping[Any, DTypeLike]
Converter: TypeAlias = Callable[[Any], Any]


def specs_of(space: spaces.Space[Any], dtype_map: DtypeMap | None = None, name: str = "observation") -> SpecNest:
    """Returns the nest of specs of a space.

    Args:
        space: any nesting of ``Dict``, ``Tuple``, ``Box``, ``Discrete``, ``MultiDiscrete`` and ``MultiBinary``.
        dtype_map: by kind of space (the class or its name), the dtype that replaces the default one.

    Raises:
        SpaceMismatch: a space that is not an array of fixed shape.
        ConfigError: the map names no kind of space.
    """
    return _specs(space, _dtypes_by_name(dtype_map), name)


def _specs(space: spaces.Space[Any], dtypes: Mapping[str, np.dtype[Any]], name: str) -> SpecNest:
    if isinstance(space, spaces.Dict):
        return {key: _specs(child, dtypes, f"{name}/{key}") for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_specs(child, dtypes, f"{name}/{index}") for index, child in enumerate(space.spaces))
    low, high = _bounds(space, name)
    kind = next(kind for kind in LEAVES if isinstance(space, getattr(spaces, kind)))
    dtype = dtypes.get(kind) or np.dtype(_DEFAULT_DTYPES.get(kind, space.dtype))
    minimum, maximum = _cast_bound(low, dtype), _cast_bound(high, dtype)
    if minimum.size and (minimum == minimum.flat[0]).all() and (maximum == maximum.flat[0]).all():
        minimum, maximum = minimum.flat[0].reshape(()), maximum.flat[0].reshape(())
    return ArraySpec(tuple(space.shape or ()), dtype, minimum, maximum, name)


def _bounds(space: spaces.Space[Any], name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    if isinstance(space, spaces.Box):
        return space.low, space.high
    if isinstance(space, spaces.Discrete):
        return np.asarray(space.start), np.asarray(space.start + space.n - 1)
    if isinstance(space, spaces.MultiDiscrete):
        start = np.asarray(getattr(space, "start", np.zeros_like(space.nvec)))
        return start, start + space.nvec - 1
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(space.shape, np.int8), np.ones(space.shape, np.int8)
    raise SpaceMismatch(
        f"{name} is a {type(space).__name__} space, which is not an array of fixed shape",
        hint="wrap the Gymnasium environment; valid spaces are Box, Discrete, MultiDiscrete, MultiBinary, and Dict "
        "and Tuple of these",
    )


def _dtypes_by_name(dtype_map: DtypeMap | None) -> dict[str, np.dtype[Any]]:
    found = {}
    for key, dtype in (dtype_map or {}).items():
        name = key if isinstance(key, str) else getattr(key, "__name__", repr(key))
        if name not in LEAVES:
            raise ConfigError(
                f"spec_dtype_map has a dtype for {name!r}{did_you_mean(name, LEAVES)}",
                hint=f"its keys are the spaces {', '.join(LEAVES)}, as classes or as names",
            )
        found[name] = np.dtype(dtype)
    return found


def _cast_bound(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Casts a bound; what the dtype cannot hold, as infinity in an integer, becomes its extreme value."""
    if dtype.kind not in "iuf" or values.dtype == np.bool_:
        return np.asarray(values).astype(dtype)
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    below, above = values <= float(limits.min), values >= float(limits.max)
    inside = np.where(below | above, 0, values).astype(dtype)
    return np.where(below, dtype.type(limits.min), np.where(above, dtype.type(limits.max), inside)).astype(dtype)


def leaves(nest: SpecNest) -> Iterator[ArraySpec]:
    """Yields the arrays of a nest, from left to right."""
    if isinstance(nest, ArraySpec):
        yield nest
        return
    for child in nest.values() if isinstance(nest, dict) else nest:
        yield from leaves(child)


def map_specs(function: Callable[[ArraySpec], Any], nest: SpecNest) -> Any:
    """Returns the nest with every spec replaced by what the function makes of it."""
    if isinstance(nest, ArraySpec):
        return function(nest)
    if isinstance(nest, dict):
        return {key: map_specs(function, child) for key, child in nest.items()}
    return tuple(map_specs(function, child) for child in nest)


def reader(nest: SpecNest, name: str = "observation") -> Converter:
    """Returns a function that converts an observation to new arrays with the nest's shapes and dtypes.

    Entries that the nest does not have are dropped. The function raises ``SpaceMismatch`` with the name of the part if
    an entry is missing or has another shape.
    """
    if not isinstance(nest, ArraySpec):
        return _part_by_part(reader, nest, name, exact=False)
    shape, dtype = nest.shape, nest.dtype

    def read(value: Any) -> NDArray[Any]:
        try:
            array = np.array(value, dtype)  # a copy: an environment may write into its arrays again
        except (TypeError, ValueError) as error:
            raise SpaceMismatch(f"{nest.name} is not an array of {dtype}: {error}") from error
        if array.shape != shape:
            raise SpaceMismatch(f"{nest.name} has the shape {array.shape}, not {shape}")
        return array

    return read


def action_writer(space: spaces.Space[Any], name: str = "action") -> Converter:
    """Returns a function that converts a nest of arrays to an action of the space.

    It raises ``SpaceMismatch``, naming the part, for a wrong structure, shape or a fraction where a whole number is
    needed. The environment checks bounds.
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return _part_by_part(action_writer, space.spaces, name, exact=True)
    _bounds(space, name)
    dtype, shape, whole = np.dtype(space.dtype), tuple(space.shape or ()), isinstance(space, spaces.Discrete)

    def write(value: Any) -> Any:
        given = np.asarray(value)
        if given.dtype.kind == "f" and dtype.kind in "iu" and not (given == np.trunc(given)).all():
            raise SpaceMismatch(f"{name} takes whole numbers; given was {value!r:.100}")
        if given.shape != shape and not (whole and given.size == 1):
            raise SpaceMismatch(f"{name} has the shape {shape}; given was one of {given.shape}")
        return int(given.item()) if whole else given.astype(dtype)

    return write


def _part_by_part(make: Callable[[Any, str], Converter], parts: Any, name: str, *, exact: bool) -> Converter:
    """Returns a function that converts a dict or a tuple; ``exact`` refuses entries that are not among the parts."""
    if isinstance(parts, Mapping):
        by_key = {key: make(part, f"{name}/{key}") for key, part in parts.items()}

        def convert_dict(value: Any) -> dict[str, Any]:
            keys = value.keys() if isinstance(value, Mapping) else set()
            if by_key.keys() - keys or (exact and keys - by_key.keys()):
                given = ", ".join(map(str, keys)) or type(value).__name__
                raise SpaceMismatch(f"{name} has the parts {', '.join(by_key)}; given was {given}")
            return {key: convert(value[key]) for key, convert in by_key.items()}

        return convert_dict
    members = [make(part, f"{name}/{index}") for index, part in enumerate(parts)]

    def convert_tuple(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, tuple | list) or len(value) != len(members):
            raise SpaceMismatch(f"{name} has {len(members)} parts; given was {value!r:.100}")
        return tuple(convert(part) for convert, part in zip(members, value, strict=True))

    return convert_tuple


def differences(theirs: SpecNest, ours: SpecNest, *, bounds: bool, name: str = "") -> list[str]:
    """Returns the differences between the nests of a policy and an environment, one line each.

    Args:
        bounds: whether the limits have to agree as well: they do for actions, where they carry the meaning, and not
            for observations, where two tasks of one kind may differ in them.
    """
    if isinstance(theirs, ArraySpec) and isinstance(ours, ArraySpec):
        return _array_differences(theirs, ours, bounds)
    if isinstance(theirs, dict) and isinstance(ours, dict):
        lines = [f"the policy needs {name}/{key}, which the environment has not" for key in theirs if key not in ours]
        if bounds:
            lines += [f"the environment needs {name}/{key}, which the policy has not" for key in ours.keys() - theirs]
        for key in (key for key in theirs if key in ours):
            lines += differences(theirs[key], ours[key], bounds=bounds, name=f"{name}/{key}")
        return lines
    if isinstance(theirs, tuple) and isinstance(ours, tuple) and len(theirs) == len(ours):
        pairs = enumerate(zip(theirs, ours, strict=True))
        return [line for i, (a, b) in pairs for line in differences(a, b, bounds=bounds, name=f"{name}/{i}")]
    return [f"{name}: the policy has {_shape_of(theirs)}, the environment {_shape_of(ours)}"]


def _shape_of(nest: SpecNest) -> str:
    if isinstance(nest, ArraySpec):
        return f"one array of shape {nest.shape}"
    return f"a dict of {', '.join(nest)}" if isinstance(nest, dict) else f"a tuple of {len(nest)}"


def _array_differences(theirs: ArraySpec, ours: ArraySpec, bounds: bool) -> list[str]:
    name = ours.name
    if theirs.shape != ours.shape:
        return [f"{name}: the policy has the shape {theirs.shape}, the environment {ours.shape}"]
    if theirs.dtype.kind in "iub" and ours.dtype.kind == "f":
        return [f"{name}: the policy has whole numbers ({theirs.dtype}), the environment {ours.dtype}"]
    if bounds and theirs.dtype.kind == "f" and ours.dtype.kind in "iub":
        return [f"{name}: the policy has fractions ({theirs.dtype}), the environment whole numbers ({ours.dtype})"]
    if not bounds or theirs.minimum is None or theirs.maximum is None or ours.minimum is None or ours.maximum is None:
        return []
    limits = ((theirs.minimum, ours.minimum), (theirs.maximum, ours.maximum))
    if all(np.allclose(np.asarray(a, float), np.asarray(b, float), rtol=1e-5, atol=1e-6) for a, b in limits):
        return []
    given = f"{theirs.minimum.min():.6g} to {theirs.maximum.max():.6g}"
    return [
        f"{name}: the policy's range is {given}, the environment's {ours.minimum.min():.6g} to {ours.maximum.max():.6g}"
    ]
