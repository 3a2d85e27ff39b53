"""Cleans training curves for scoring: points that are not finite, repeated or out of order.

Each curve carries notes on the changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from a2perf.arrays import Values
from a2perf.errors import UserError
from a2perf.runs.series import kept_points, restart_note


@dataclass(frozen=True, eq=False)
class Curve:
    """One run's curve: steps strictly increase, values are finite."""

    steps: Values
    values: Values
    notes: tuple[str, ...] = ()


def clean(steps: Any, values: Any) -> Curve:
    """Returns a curve with finite values and strictly increasing steps.

    Leaves out points that are not finite and points that a restarted run wrote again (``runs.series``; recorded runs
    come without them). Averages values of the same step, which several collectors log. Steps and values of different
    lengths are a ``UserError``.
    """
    x, y = np.asarray(steps, dtype=np.float64).ravel(), np.asarray(values, dtype=np.float64).ravel()
    if x.size != y.size:
        raise UserError(f"a curve has {x.size} steps and {y.size} values", hint="give one value per step")
    notes = []
    known = np.isfinite(x) & np.isfinite(y)
    if not known.all():
        trailing = ", the last among them" if not known[-1] else ""
        notes.append(f"{np.count_nonzero(~known)} of {x.size} points are not finite and left out{trailing}")
        x, y = x[known], y[known]
    kept, went_back = kept_points(x)
    if went_back:
        notes.append(restart_note(int(np.count_nonzero(~kept)), len(went_back)))
        x, y = x[kept], y[kept]
    if x.size > 1 and (np.diff(x) <= 0).any():
        x, first, group, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
        # Averaged as deviations from the first value: equal values then keep their bits. The filter amplifies rounding.
        y = y[first] + np.bincount(group, weights=y - y[first][group], minlength=x.size) / counts
    return Curve(x, y, tuple(notes))


def clean_all(curves: Iterable[tuple[Any, Any]]) -> tuple[list[Curve], list[str]]:
    """Cleans the curves of several runs and leaves out runs without a point; notes name the run by its position."""
    cleaned = [clean(steps, values) for steps, values in curves]
    notes = [f"run {number}: {note}" for number, curve in enumerate(cleaned) for note in curve.notes]
    empty = [number for number, curve in enumerate(cleaned) if curve.steps.size == 0]
    notes += [f"run {number} has no finite point and is left out" for number in empty]
    return [curve for curve in cleaned if curve.steps.size], notes


def aligned(curves: Sequence[Curve]) -> bool:
    """Returns whether all runs were logged at identical steps."""
    return all(np.array_equal(curve.steps, curves[0].steps) for curve in curves[1:])
