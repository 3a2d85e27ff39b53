"""How often a counter is read between two samples: as often as it is cheap and says something new.

A reading every ``FASTEST_S`` where its cost allows, so that all readings together stay below ``MOST_OF_A_CORE``.
A source that repeats its last value is read less often: it is not updated faster than that.
"""

from __future__ import annotations

import time
from collections.abc import Callable

FASTEST_S = 0.009
"""A little less than 10 ms: readings that come late must still be 100 per second."""
SLOWEST_S = 0.5
MOST_OF_A_CORE = 0.004
"""Share of one core that the readings of one source may take."""
_SMOOTHING = 0.2
_REPEATS = 3


class Cadence:
    """Readings of one source.

    Args:
        poll: reads once; returns whether the value has changed.
        clock: seconds, for the due time.
        work_clock: processor time of the calling thread in seconds.
    """

    def __init__(
        self,
        poll: Callable[[], bool],
        *,
        clock: Callable[[], float] = time.perf_counter,
        work_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._poll = poll
        self._clock = clock
        self._work_clock = work_clock
        self._cost_s = 0.0
        self._changed = self._repeated = 0
        self.period_s = FASTEST_S
        self.due_s = clock()
        self.readings = 0

    def run(self) -> None:
        """Reads if it is due, and chooses the time of the next reading."""
        now = self._clock()
        if now < self.due_s:
            return
        before = self._work_clock()
        changed = self._poll()
        cost_s = self._work_clock() - before
        self.readings += 1
        self._cost_s = cost_s if self.readings == 1 else self._cost_s + _SMOOTHING * (cost_s - self._cost_s)
        self._changed, self._repeated = (self._changed + 1, 0) if changed else (0, self._repeated + 1)
        fastest = max(FASTEST_S, self._cost_s / MOST_OF_A_CORE)
        if self._repeated >= _REPEATS:
            self.period_s, self._repeated = 2 * self.period_s, 0
        elif self._changed >= _REPEATS:
            self.period_s, self._changed = self.period_s / 2, 0
        self.period_s = min(max(self.period_s, fastest), max(SLOWEST_S, fastest))
        # On a grid: a reading that comes late must not delay the following ones.
        self.due_s = max(self.due_s + self.period_s, now)
