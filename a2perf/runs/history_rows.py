"""Series of a history of Weights & Biases: one mapping per call of ``log``, as ``Run.scan_history`` returns them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]
_STEP_KEYS = ("global_step", "_step")
_NOT_METRICS = ("_step", "_timestamp", "_runtime", "_wandb")
_SPECIAL = ("NaN", "Infinity", "-Infinity")


def history_series(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[Column, Column, Column]]:
    """Returns steps, values and seconds since the first row of every number that was logged.

    The step is ``global_step`` if the run logged that anywhere, else ``_step``. A row without its step, from a separate
    call, has the last one that was logged.
    """
    axis = next((key for key in _STEP_KEYS if any(key in row for row in rows)), "")
    step = next((_number(row[axis]) for row in rows if axis in row), 0.0)  # rows before the first step have that step
    began = next((_number(row["_timestamp"]) for row in rows if "_timestamp" in row), 0.0)
    found: dict[str, list[tuple[float, float, float]]] = {}
    for index, row in enumerate(rows):
        step = _number(row.get(axis, step)) if axis else float(index)
        seconds = _number(row.get("_timestamp")) - began
        for name, value in row.items():
            if name not in _NOT_METRICS and (isinstance(value, int | float | bool) or value in _SPECIAL):
                found.setdefault(name, []).append((step, _number(value), seconds))
    columns = {name: np.array(points, np.float64).T for name, points in found.items()}
    return {name: (table[0].copy(), table[1].copy(), table[2].copy()) for name, table in columns.items()}


def _number(value: Any) -> float:
    if isinstance(value, str):
        return float(value.replace("Infinity", "inf")) if value in _SPECIAL else float("nan")
    try:
        return float(value) if isinstance(value, int | float) else float("nan")
    except OverflowError:  # an integer of hundreds of digits
        return float("nan")
