"""Ends a training run that has used up its energy; the trackers' account decides, nothing of the participant's."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

from a2perf.metrics.trackers.sampler import Sampler

ENERGY_LIMIT = "energy limit"
"""Exit reason of a training run that was ended at its energy budget and left artifacts; without any it is a failure."""

POLL_S = 0.1


class EnergyBudget:
    """Watches one participant process.

    Attributes:
        reached: the process was ended because the budget was used up.
    """

    def __init__(self, sampler: Sampler, pid: int, limit_kwh: float) -> None:
        self.reached = False
        self._sampler = sampler
        self._pid = pid
        self._limit_kwh = limit_kwh
        self._over = threading.Event()

    def watch(self) -> None:
        """Ends the process with SIGKILL at the budget; returns then, or when told that the training is over."""
        while not self._over.wait(POLL_S):
            if self._sampler.net_kwh >= self._limit_kwh:
                self.reached = True
                # the rest of its tree is ended by whoever finds its connection closed
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
                return

    def end(self) -> None:
        """Says that the training is over."""
        self._over.set()


@contextlib.contextmanager
def energy_budget(sampler: Sampler, pid: int, limit_kwh: float | None) -> Iterator[EnergyBudget | None]:
    """Watches a participant process while the context lasts; no limit, no watch.

    Args:
        sampler: attached to the participant's tree. It accounts at each of its samples, so a training run may exceed
            its budget by what it draws in one sampling interval.
        pid: the participant's first process.
        limit_kwh: energy above idle in kWh.
    """
    if limit_kwh is None:
        yield None
        return
    budget = EnergyBudget(sampler, pid, limit_kwh)
    thread = threading.Thread(target=budget.watch, name="a2perf-energy-budget", daemon=True)
    thread.start()
    try:
        yield budget
    finally:
        budget.end()
        thread.join()
