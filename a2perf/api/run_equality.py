"""Equality of recorded runs by content: manifest and measured values, wherever the files are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from a2perf.runs.run import Run

_NOT_CONTENT = ("folder", "info", "reproduction", "read_details")
"""Fields that depend on where the run is; ``info`` and ``reproduction`` can come from a file beside it."""


def equal_runs(left: Run, right: Run) -> bool:
    """Returns whether two runs hold the same identity, manifest, values and conditions; NaN equals NaN."""
    names = [field.name for field in dataclasses.fields(Run) if field.name not in _NOT_CONTENT]
    return all(_equal(getattr(left, name), getattr(right, name)) for name in names)


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return _equal_arrays(np.asarray(left), np.asarray(right))
    if type(left) is not type(right):
        return False
    if isinstance(left, msgspec.Struct):
        return all(_equal(getattr(left, name), getattr(right, name)) for name in left.__struct_fields__)
    if dataclasses.is_dataclass(left):
        return all(_equal(getattr(left, f.name), getattr(right, f.name)) for f in dataclasses.fields(left))
    if isinstance(left, Mapping):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right or (left != left and right != right))


def _equal_arrays(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    floats = left.dtype.kind == "f" and right.dtype.kind == "f"
    return np.array_equal(left, right, equal_nan=floats)
