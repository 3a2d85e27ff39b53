"""Ends a training run that has used its energy budget, as measured by the evaluator's trackers."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

from a2perf.metrics.trackers.sampler import Sampler

ENERGY_LIMIT = "energy limit"
"""Exit reason of a training run that reached its energy budget and left artifacts; without artifacts it fails."""

POLL_S = 0.1


class EnergyBudget:
    """Watches one participant process.

    Attributes:
        reached: whether the process was killed because it used up the budget.
    """

    def __init__(self, sampler: Sampler, pid: int, limit_kwh: float) -> None:
        self.reached = False
        self._sampler = sampler
        self._pid = pid
        self._limit_kwh = limit_kwh
        self._over = threading.Event()

    def watch(self) -> None:
        """Kills the process once it has used the budget; returns then, or after ``end``."""
        while not self._over.wait(POLL_S):
            if self._sampler.net_kwh >= self._limit_kwh:
                self.reached = True
                # Only the first process: its closed connection makes the evaluator end the rest of the tree.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
                return

    def end(self) -> None:
        """Stops ``watch``: the training is over."""
        self._over.set()


@contextlib.contextmanager
def energy_budget(sampler: Sampler, pid: int, limit_kwh: float | None) -> Iterator[EnergyBudget | None]:
    """Watches a participant process inside the context.

    Args:
        sampler: attached to the participant's tree. It is updated once per sampling interval, so a training run may
            exceed its budget by the energy of one interval.
        pid: the participant's first process.
        limit_kwh: energy above idle in kWh; ``None`` does not watch.
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
