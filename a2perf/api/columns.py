"""Columns of tables: numbers in read-only arrays, and tuples for text and for missing whole numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Columns:
    """Columns of equal length with units and provenance."""

    title: str
    units: Mapping[str, str]
    provenance: Mapping[str, str]
    row_units: Mapping[str, str]
    row_provenance: Mapping[str, str]
    descriptions: Mapping[str, str]
    kinds: Mapping[str, Kind]
    _columns: Mapping[str, Stored]
    _rows: int

    def __len__(self) -> int:
        return self._rows

    def stored(self) -> Mapping[str, Stored]:
        """Returns the values by column name, each as ``table[name]`` does."""
        return self._columns


def store(name: str, values: Iterable[Any], kind: Kind | None) -> tuple[Kind, Stored]:
    """Returns the kind of a column and its values as they are stored.

    Args:
        name: of the column, for messages.
        values: numbers, truth values or texts; None is a missing value.
        kind: None finds it from the values; without any value it is ``"text"``.

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
    known = {_kind_of(name, of_items) for of_items in set(map(type, items)) - {type(None)}}
    kind = kind or _widest(name, known)
    if kind == "float" and known <= {"int", "float"}:
        return kind, _frozen(np.array([np.nan if item is None else item for item in items], np.float64))
    if known - {kind}:
        raise TypeError(f"the column {name!r} holds values of kind {', '.join(sorted(known))}, not {kind}")
    if kind == "text":
        return kind, tuple(None if item is None else str(item) for item in items)
    plain = tuple(item.item() if isinstance(item, np.generic) else item for item in items)
    return kind, plain if None in plain else _frozen(np.array(plain, _DTYPES[kind]))


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def _kind_of(name: str, of_items: type) -> Kind:
    for types, kind in _OF_TYPES:
        if issubclass(of_items, types):
            return kind
    raise TypeError(f"the column {name!r} holds {of_items.__name__}; a column holds numbers, truth values or texts")


def _widest(name: str, known: set[Kind]) -> Kind:
    if len(known) <= 1:
        return next(iter(known), "text")
    if known == {"int", "float"}:
        return "float"
    raise TypeError(f"the column {name!r} holds values of several kinds: {', '.join(sorted(known))}")


def equal(left: Stored, right: Stored) -> bool:
    """Returns whether two columns hold equal values; NaN equals NaN."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return np.array_equal(left, right, equal_nan=left.dtype.kind == "f" and right.dtype.kind == "f")
    return type(left) is type(right) and left == right
