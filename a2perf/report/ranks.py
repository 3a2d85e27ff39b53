"""Ranks as ranges, and the leaders of a row: one rule for report tables, leaderboards and papers.

Two values differ only if their 95 % intervals do not overlap. The interval of an energy contains the uncertainty of its
measurement. An energy without a recorded uncertainty is not ordered: unknown is not zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from a2perf.metrics.values import MetricValue

Interval: TypeAlias = tuple[float | None, float | None]
ENERGY_UNITS = ("kWh", "J")
"""Units of values that need an uncertainty to be ordered."""
DISTORTED_UNITS = (*ENERGY_UNITS, "s", "calls/s", "W", "kg CO2eq")
"""Units of costs that depend on the load of the host."""


def ordering_interval(value: MetricValue) -> Interval:
    """Returns the interval that orders a value; ``(None, None)`` if it has none.

    The interval of a single run is not one over runs; it cannot show that an algorithm is better.
    """
    if value.n < 2 or value.value is None or value.interval is None or lacks_uncertainty(value):
        return None, None
    return value.interval


def lacks_uncertainty(value: MetricValue) -> bool:
    """Returns whether a value is an energy of unknown uncertainty, as records of older versions have it."""
    return value.unit in ENERGY_UNITS and value.value is not None and value.uncertainty is None


def rank_ranges(intervals: Sequence[Interval]) -> list[tuple[int, int]]:
    """Returns the best and the worst rank that intervals allow, 1 for the highest.

    An entry ranks above another if its whole interval lies above the other's. An entry without an interval (one run)
    can have any rank next to the others.
    """
    count = len(intervals)
    ranges = []
    for interval in intervals:
        above = sum(_above(other, interval) for other in intervals)
        below = sum(_above(interval, other) for other in intervals)
        ranges.append((1 + above, count - below))
    return ranges


def leaders(intervals: Sequence[Interval], direction: Literal["max", "min"] = "max") -> set[int]:
    """Returns the indices of the entries that may be printed in bold: their rank range contains 1.

    The result is empty if an entry has no interval or if all entries are tied, since bold type would then claim a
    difference that the data do not show.

    Args:
        intervals: (low, high) of each entry; None for an entry without an interval.
    """
    known = [(low, high) for low, high in intervals if low is not None and high is not None]
    if len(known) < len(intervals):
        return set()
    oriented: list[Interval] = list(known) if direction == "max" else [(-high, -low) for low, high in known]
    found = {index for index, (best, _) in enumerate(rank_ranges(oriented)) if best == 1}
    return set() if len(found) == len(intervals) else found


def _above(first: Interval, second: Interval) -> bool:
    return first[0] is not None and second[1] is not None and first[0] > second[1]
