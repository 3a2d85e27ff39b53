"""Columns of tables: numbers in read-only arrays, and tuples for text and for missing whole numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Kind: TypeAlias = Literal["float", "int", "bool", "text"]
Stored: TypeAlias = NDArray[Any] | tuple[Any, ...]
_DTYPES: dict[Kind, Any] = {"float": np.float64, "int": np.int64, "bool": np.bool_}
_OF_DTYPE: dict[str, Kind] = {"f": "float", "i": "int", "u": "int", "b": "bool"}
_OF_TYPES: tuple[tuple[tuple[type, ...], Kind], ...] = (
    ((bool, np.bool_), "bool"), ((int, np.integer), "int"), ((float, np.floating), "float"), ((str,), "text"),
)  # fmt: skip


def store(name: str, values: Iterable[Any], kind: Kind | None) -> tuple[Kind, Stored]:
    """Returns the kind of a column, ``"text"`` if it has no value to find it from, and its values as they are stored.

    Raises:
        TypeError: the values are of several kinds, or of a type that no column holds.
        ValueError: an array of several dimensions.
    """
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise ValueError(f"the column {name!r} has {values.ndim} dimensions, not 1")
        found = _OF_DTYPE.get(values.dtype.kind)
        if found is not None and kind in (None, found):
            return found, _frozen(values.astype(_DTYPES[found]))
        values = values.tolist()
    items = list(values)
    known: set[Kind] = set()
    for of_items in set(map(type, items)) - {type(None)}:
        found = next((one for types, one in _OF_TYPES if issubclass(of_items, types)), None)
        if found is None:
            shown = of_items.__name__
            raise TypeError(f"the column {name!r} holds {shown}; a column holds numbers, truth values or texts")
        known.add(found)
    default: Kind = "float" if known == {"int", "float"} else next(iter(known), "text")
    chosen: Kind = default if kind is None else kind
    if known - ({chosen, "int"} if chosen == "float" else {chosen}):
        raise TypeError(f"the column {name!r} holds values of several kinds: {', '.join(sorted({*known, chosen}))}")
    if chosen == "float":
        return chosen, _frozen(np.array([np.nan if item is None else item for item in items], np.float64))
    if chosen == "text":
        return chosen, tuple(None if item is None else str(item) for item in items)
    plain = tuple(item.item() if isinstance(item, np.generic) else item for item in items)
    return chosen, plain if None in plain else _frozen(np.array(plain, _DTYPES[chosen]))


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def equal(left: Stored, right: Stored) -> bool:
    """Returns whether two columns hold equal values; NaN equals NaN."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return np.array_equal(left, right, equal_nan=left.dtype.kind == "f" and right.dtype.kind == "f")
    return type(left) is type(right) and left == right
