"""One iteration of the sampling loop, and the interface of a tracker.

The sampler fills a tick with the time and the tree, then hands it to each tracker in turn; a tracker adds what it
found. A tracker that raises is switched off and named in the report; the others continue.

A package adds a tracker with an entry point of the group ``a2perf.trackers`` that names a class without arguments::

    [project.entry-points."a2perf.trackers"]
    open_files = "my_package:OpenFiles"

The class is a ``Tracker`` with ``columns``, its columns in ``system_trace.csv``. A tracker that cannot be loaded is
named in the tracking report; the run continues without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from a2perf.metrics.trackers.process_tree import TreeSample
from a2perf.metrics.trackers.row_files import TRACE_COLUMNS
from a2perf.plugins import load_plugins
from a2perf.runs.tracking_record import TrackerFailure

GROUP = "a2perf.trackers"
_COLUMN = re.compile(r"[a-z][a-z0-9_]{0,63}")

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
        """Reads once and adds to the tick; by default nothing."""
        return

    def stop(self) -> None:
        """Closes what it opened, after the last sample; by default nothing."""
        return


class InstalledTracker(Tracker, Protocol):
    """A tracker of a package; ``columns`` are its keys of ``tick.values``, lower-case and ending in the unit."""

    columns: tuple[str, ...]


def installed_trackers() -> tuple[list[InstalledTracker], list[TrackerFailure]]:
    """Returns one new tracker per entry point, and the entry points that gave none."""
    found: list[InstalledTracker] = []
    taken = set(TRACE_COLUMNS)

    def accept(_: str, make: Callable[[], InstalledTracker]) -> None:
        tracker = make()
        _check(tracker, taken)
        taken.update(tracker.columns)
        found.append(tracker)

    problems = load_plugins(GROUP, accept)
    return found, [TrackerFailure(tracker=name, error=problem.reason) for name, problem in problems.items()]


def _check(tracker: InstalledTracker, taken: set[str]) -> None:
    for call in ("start", "attach", "sample", "stop"):
        if not callable(getattr(tracker, call, None)):
            raise TypeError(f"it has no method {call}()")
    if not isinstance(tracker.name, str):
        raise TypeError(f"its name is {tracker.name!r}, not a string")
    for column in tracker.columns:
        if not isinstance(column, str) or not _COLUMN.fullmatch(column):
            raise ValueError(f"{column!r} is not a column name (lower-case letters, digits and _)")
        if column in taken:
            raise ValueError(f"the column {column!r} is taken")
