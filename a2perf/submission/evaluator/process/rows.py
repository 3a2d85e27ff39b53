"""The rows of a batch: observations of several episodes as one request, and one action per row from its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from a2perf.submission.evaluator.process.answers import BadAnswer


def stacked(rows: Sequence[Any], memory: Any = None) -> Any:
    """Returns observations of one space as one value with a leading dimension of rows.

    Numbers and arrays of one dtype and shape are stacked, within dicts and tuples too. Others become a list.

    Args:
        memory: an array, or a dict of arrays, to stack into if all rows fit; left alone otherwise.
    """
    if memory is not None and _filled(memory, rows):
        return memory
    first = rows[0]
    if isinstance(first, Mapping):
        return {name: stacked([row[name] for row in rows]) for name in first}
    if isinstance(first, tuple):
        return tuple(stacked(parts) for parts in zip(*rows, strict=True))
    if isinstance(first, np.ndarray | np.generic | int | float):
        arrays = [np.asarray(row) for row in rows]
        if all(array.dtype == arrays[0].dtype and array.shape == arrays[0].shape for array in arrays):
            return np.stack(arrays)
    return list(rows)


def _filled(memory: Any, rows: Sequence[Any]) -> bool:
    """Copies the rows into memory, in half the time of ``np.stack``; returns False if one of them does not fit."""
    places = memory if isinstance(memory, dict) else {"": memory}
    named = [row if isinstance(row, dict) else {"": row} for row in rows]
    if any(row.keys() != places.keys() for row in named):
        return False
    for name, place in places.items():
        dtype, shape = place.dtype, place.shape[1:]
        for row in named:
            array = row[name]
            if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
                return False
        if len(place) != len(rows):
            return False
    for name, place in places.items():
        for number, row in enumerate(named):
            place[number] = row[name]
    return True


def actions_of(answer: Any, count: int) -> list[Any]:
    """Returns the unchecked actions of an answer: an array or a sequence with one action per row, or a dict of these.

    Raises:
        BadAnswer: it has another number of rows.
    """
    if isinstance(answer, dict) and answer:
        parts = {name: actions_of(part, count) for name, part in answer.items()}
        return [{name: part[row] for name, part in parts.items()} for row in range(count)]
    if not isinstance(answer, list | tuple) and not (isinstance(answer, np.ndarray) and answer.ndim):
        raise BadAnswer(f"infer_batch returned a {type(answer).__name__} without rows for {count} observations")
    if len(answer) != count:
        raise BadAnswer(f"infer_batch returned {len(answer)} rows for {count} observations")
    return answer.tolist() if isinstance(answer, np.ndarray) and answer.ndim == 1 else list(answer)
