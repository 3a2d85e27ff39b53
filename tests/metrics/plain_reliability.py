"""The formulas of the earlier platform once more, in plain loops over lists and without NumPy's statistics.

Only the low-pass filter is shared in its coefficients; its recursion is written out in scalars.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from a2perf.metrics.profiles.lowpass import _A, _B, _STEADY


def percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def iqr(values: list[float]) -> float:
    return percentile(values, 75) - percentile(values, 25)


def mad(values: list[float]) -> float:
    middle = percentile(values, 50)
    return percentile([abs(value - middle) for value in values], 50)


def std(values: list[float], ddof: int = 1) -> float:
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - ddof))


def cvar(values: list[float], tail: str) -> float:
    cut = percentile(values, 5 if tail == "lower" else 95)
    inside = [value for value in values if (value <= cut if tail == "lower" else value >= cut)]
    return sum(inside) / len(inside)


def low_pass(values: list[float]) -> list[float]:
    def one_way(signal: list[float]) -> list[float]:
        state = [float(steady) * signal[0] for steady in _STEADY]
        result = []
        for x in signal:
            y = state[0] + float(_B[0]) * x
            for k in range(7):
                state[k] = state[k + 1] + float(_B[k + 1]) * x - float(_A[k + 1]) * y
            state[7] = float(_B[8]) * x - float(_A[8]) * y
            result.append(y)
        return result

    pad = min(len(values) - 1, 27)
    before = [2 * values[0] - values[k] for k in range(pad, 0, -1)]
    after = [2 * values[-1] - values[-1 - k] for k in range(1, pad + 1)]
    there = one_way([*before, *values, *after])
    back = one_way(there[::-1])[::-1]
    return back[pad : len(back) - pad]


def within_runs(curves: list[Any]) -> tuple[float, float]:
    pooled = []
    for steps, values in curves:
        gaps = [float(b) - float(a) for a, b in itertools.pairwise(steps)]
        moves = [float(b) - float(a) for a, b in itertools.pairwise(values)]
        spacing = percentile(gaps, 50)
        window = int(5 * spacing)
        centre = math.ceil(window / 2)
        while centre < max(steps):
            low, high = math.ceil(centre - window / 2), math.floor(centre + window / 2)
            inside = [move for step, move in zip(steps[1:], moves, strict=True) if low <= step <= high]
            if len(inside) >= 2:
                pooled.append(iqr(inside))
            centre += int(spacing)
    return sum(pooled) / len(pooled), std(pooled, ddof=0)


def a2perf(curves: list[Any]) -> dict[str, Any]:
    lists = [([float(s) for s in steps], [float(v) for v in values]) for steps, values in curves]
    by_step: dict[float, list[float]] = {}
    for steps, values in lists:
        for step, value in zip(steps, low_pass(values), strict=True):
            by_step.setdefault(step, []).append(value)
    ranges = [iqr(found) for _, found in sorted(by_step.items()) if len(found) >= 3]
    ranges = [found for found in ranges if found]
    moves = [b - a for _, values in lists for a, b in itertools.pairwise(values)]
    drops = [max(values[: place + 1]) - value for _, values in lists for place, value in enumerate(values)]
    return {
        "IqrAcrossRuns": (sum(ranges) / len(ranges), std(ranges)),
        "IqrWithinRuns": within_runs(lists),
        "LowerCVaROnDiffs": -cvar(moves, "lower"),
        "LowerCVaROnDrawdown": cvar(drops, "upper"),
        "LowerCVarOnAcross": cvar([values[-1] for _, values in lists], "lower"),
    }
