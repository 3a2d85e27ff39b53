"""Trackers of installed packages: an entry point of the group ``a2perf.trackers`` names a class without arguments::

    [project.entry-points."a2perf.trackers"]
    open_files = "my_package:OpenFiles"

The class is a ``Tracker`` with ``columns``, its columns in ``system_trace.csv``. A tracker that cannot be loaded is
named in the tracking report; the run continues without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from a2perf.metrics.trackers.row_files import TRACE_COLUMNS
from a2perf.metrics.trackers.tick import Tracker
from a2perf.plugins import load_plugins
from a2perf.runs.tracking_record import TrackerFailure

GROUP = "a2perf.trackers"
_COLUMN = re.compile(r"[a-z][a-z0-9_]{0,63}")
_CALLS = ("start", "attach", "sample", "stop")


class InstalledTracker(Tracker, Protocol):
    """A tracker of a package.

    Attributes:
        columns: keys that it adds to ``tick.values``; lower-case names, with the unit as the ending.
    """

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
    for call in _CALLS:
        if not callable(getattr(tracker, call, None)):
            raise TypeError(f"it has no method {call}()")
    if not isinstance(tracker.name, str):
        raise TypeError(f"its name is {tracker.name!r}, not a string")
    for column in tracker.columns:
        if not isinstance(column, str) or not _COLUMN.fullmatch(column):
            raise ValueError(f"{column!r} is not a column name (lower-case letters, digits and _)")
        if column in taken:
            raise ValueError(f"the column {column!r} is taken")
