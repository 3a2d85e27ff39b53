"""Times repeated calls with the monotonic clock into memory that is there before the first call.

Standard library only until a summary is asked for, so a participant process can use it. One timed call adds two clock
reads and one array store, well under a microsecond.
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from a2perf.records import LatencySummary

P = ParamSpec("P")
R = TypeVar("R")

INFER_ONCE_ONLY = "infer_once only"
ROUND_TRIP = "round trip"
PARTICIPANT_CLOCK = "participant process"
EVALUATOR_CLOCK = "evaluator"


class LatencyTimer:
    """Collects durations of one kind of call.

    Args:
        capacity: calls to expect; more are kept as well, at the price of growing between two calls.
        warmup: how many of the first calls are counted apart.
        includes: what one duration covers, ``INFER_ONCE_ONLY`` or ``ROUND_TRIP``.
        clock: the clock that measures it, ``PARTICIPANT_CLOCK`` or ``EVALUATOR_CLOCK``.
    """

    def __init__(
        self, capacity: int, *, warmup: int = 0, includes: str = INFER_ONCE_ONLY, clock: str = PARTICIPANT_CLOCK
    ) -> None:
        self._values = array("q", bytes(8 * max(1, capacity)))
        self._count = 0
        self.warmup = warmup
        self.includes = includes
        self.clock = clock

    def __len__(self) -> int:
        return self._count

    def record(self, duration_ns: int) -> None:
        """Adds a duration that was measured elsewhere, in nanoseconds."""
        if self._count == len(self._values):
            # Doubled: growing then stays rare for any number of calls.
            self._values.extend(self._values)
        self._values[self._count] = duration_ns
        self._count += 1

    def time(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Makes one call and adds its duration; a call that raises leaves no duration."""
        began = time.perf_counter_ns()
        result = call(*args, **kwargs)
        # Taken before record(): its own time does not belong to the call.
        duration = time.perf_counter_ns() - began
        self.record(duration)
        return result

    def values_s(self) -> list[float]:
        """Durations after the warm-up, in seconds."""
        return [value / 1e9 for value in self._values[self.warmup : self._count]]

    def summary(self) -> LatencySummary | None:
        """Summarises the calls after the warm-up, in seconds; ``None`` when there are none."""
        first = self._values[0] / 1e9 if self._count else 0.0
        return summarize_latency(
            self.values_s(),
            first_s=first,
            warmup_count=min(self.warmup, self._count),
            includes=self.includes,
            clock=self.clock,
        )


def summarize_latency(
    values_s: Sequence[float], *, first_s: float, warmup_count: int, includes: str, clock: str
) -> LatencySummary | None:
    """Summarises durations.

    Args:
        values_s: durations after the warm-up, in seconds.
        first_s: the first call of all.
        includes: what one duration covers.

    Returns:
        Mean, standard deviation of the sample (ddof 1; 0 for one value), and percentiles with linear interpolation;
        ``None`` for no values.
    """
    from a2perf.records import LatencySummary

    if not values_s:
        return None
    ordered = sorted(values_s)
    count = len(ordered)
    mean = math.fsum(ordered) / count
    variance = math.fsum((value - mean) ** 2 for value in ordered) / (count - 1) if count > 1 else 0.0
    return LatencySummary(
        includes=includes,
        clock=clock,
        count=count,
        warmup_count=warmup_count,
        first_s=first_s,
        mean_s=mean,
        std_s=math.sqrt(variance),
        min_s=ordered[0],
        median_s=_percentile(ordered, 50),
        p90_s=_percentile(ordered, 90),
        p99_s=_percentile(ordered, 99),
        max_s=ordered[-1],
        throughput_hz=1 / mean if mean > 0 else 0.0,
    )


def _percentile(ordered: Sequence[float], percent: float) -> float:
    at = (len(ordered) - 1) * percent / 100
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
