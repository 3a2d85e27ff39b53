"""How often counters are read between two samples: as often as it is cheap and says something new.

A source is read every ``FASTEST_S`` as long as that costs less than ``MOST_OF_A_CORE``, waking up included. One that
repeats its last value is read less often: it is not updated faster than that.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

FASTEST_S = 0.009
"""A little less than 10 ms: readings that come late must still be 100 per second."""
SLOWEST_S = 0.5
MOST_OF_A_CORE = 0.004
"""Share of one core that the readings of one source may take."""
_SLACK_S = 0.002
"""Sources that are due within this time are read together."""
_SMOOTHING = 0.2
_REPEATS = 3


@dataclass
class Source:
    """One counter or group of counters; ``poll`` reads it once and returns whether the value has changed."""

    poll: Callable[[], bool]
    due_s: float
    period_s: float = FASTEST_S
    readings: int = 0
    _cost_s: float = 0.0
    _changed: int = 0
    _repeated: int = 0

    def was_read(self, now_s: float, cost_s: float, *, changed: bool) -> None:
        """Chooses the time of the next reading."""
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
        self.due_s = max(self.due_s + self.period_s, now_s)


class Readings:
    """Reads sources while a thread waits for something else.

    Args:
        polls: one per source, as in ``Source``.
        clock: seconds.
        work_clock: processor time of the calling thread in seconds.
    """

    def __init__(
        self,
        polls: Sequence[Callable[[], bool]] = (),
        *,
        clock: Callable[[], float] = time.perf_counter,
        work_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._clock = clock
        self._work_clock = work_clock
        self.sources = [Source(poll, clock()) for poll in polls]

    def wait(self, wake: threading.Event, seconds: float) -> None:
        """Waits for an event, at most ``seconds``; reads each source whenever it is due."""
        end_s = self._clock() + seconds
        while (now_s := self._clock()) < end_s:
            before = self._work_clock()
            due_s = min((source.due_s for source in self.sources), default=math.inf)
            if wake.wait(max(0.0, min(end_s, due_s) - now_s)):
                return
            self._read(self._clock(), before)

    def _read(self, now_s: float, work_before_s: float) -> None:
        read = {}
        for place, source in enumerate(self.sources):
            if source.due_s <= now_s + _SLACK_S:
                try:
                    read[place] = source.poll()
                except Exception:  # the tracker meets the same error in its next sample, which reports it
                    source.due_s = math.inf
        if read:
            cost_s = (self._work_clock() - work_before_s) / len(read)
            for place, changed in read.items():
                self.sources[place].was_read(now_s, cost_s, changed=changed)
