"""One iteration of the sampling loop, and the interface of a tracker.

The sampler fills a tick with the time and the tree, then hands it to each tracker in turn; a tracker adds what it
found. A tracker that raises is switched off and named in the report; the others continue.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from a2perf.metrics.trackers.process_tree import TreeSample

# The idle baseline: how long it must be to say something, and when it was taken.
MIN_BASELINE_S = 0.1
BEFORE = "before the participant process started"
DURING = "while the participant process started up"
BASELINES = (BEFORE, DURING)


@dataclass
class Tick:
    """One sample.

    Attributes:
        elapsed_s: since ``attach``.
        interval_s: since the sample before.
        tree: the process tree, ``None`` when its tracker has failed.
        machine_busy_s: processor time of the whole machine in the interval, ``None`` when not known.
    """

    elapsed_s: float
    interval_s: float
    phase: str
    tree: TreeSample | None = None
    cpu_seconds: float = 0.0
    cpu_interval_s: float = 0.0
    machine_busy_s: float | None = None
    values: dict[str, float | int] = field(default_factory=dict)


class Tracker(Protocol):
    """Samples one cost. All calls come from one thread, ``start`` before the participant process exists.

    Any exception switches the tracker off for the rest of the run.
    """

    name: str

    def start(self) -> None:
        """Opens what it needs and begins an idle baseline."""

    def attach(self) -> None:
        """The participant process exists from now on."""

    def sample(self, tick: Tick) -> None:
        """Reads once and adds to the tick."""

    def stop(self) -> None:
        """Closes what it opened, after the last sample."""
