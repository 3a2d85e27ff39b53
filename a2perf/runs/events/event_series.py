"""Points of event files by tag, and the bounds on the cost of reading one file.

Training runs write far less than these bounds. A file that was made to exhaust its reader reaches one of them within
about a minute and two gigabytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a2perf.errors import CarriedError
from a2perf.runs.events.event_wire import Event

MAX_RECORD_BYTES = 256 << 20  # one record is held in memory
MAX_RECORDS = 50_000_000
MAX_POINTS = 20_000_000
MAX_TAGS = 10_000
MAX_FIELDS_DECODED = 30_000_000  # of all events that are decoded one by one; an event costs as much as 20 fields
EVENT_FIELDS = 20
MAX_SEARCHED_BYTES = 64 << 20  # for the next record behind damage
MAX_PROBLEMS = 1000
MAX_LOST = 100  # places where a record's length is wrong, behind each of which the next one is searched

Offsets = NDArray[np.int64]


class ScalarSeries(NamedTuple):
    """The values of one tag in the order of the file.

    Attributes:
        steps: int64, shape ``(n,)``; as written, so it may repeat or go back after a restart.
        values: float64, shape ``(n,)``; may hold NaN and infinities.
        wall_times: float64, shape ``(n,)``, seconds since the epoch by the writer's clock.
    """

    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    wall_times: NDArray[np.float64]


class EventProblem(NamedTuple):
    """A problem of a file.

    Attributes:
        kind: ``"truncated"`` (the last record is not complete), ``"corrupt"`` (a checksum or a layout is wrong; what
            follows was found again and read) or ``"bounded"`` (a bound was met; what follows was not read).
        offset: byte of the file where the record begins.
    """

    kind: str
    offset: int
    detail: str


@dataclass
class EventFile:
    """The content of one file up to ``end``.

    Attributes:
        end: byte up to which the file was read.
    """

    scalars: dict[str, ScalarSeries] = field(default_factory=dict)
    problems: list[EventProblem] = field(default_factory=list)
    records: int = 0
    end: int = 0


class BoundMet(CarriedError):
    """A file holds more than is read; ``offset`` is the byte where reading stopped."""

    def __init__(self, offset: int, words: str) -> None:
        super().__init__(words)
        self.offset = offset


class Gathered:
    """Batches of points by tag, sorted into the order of the file at the end, and the cost of the file so far.

    A batch holds bytes of the file, steps, values and wall times. Points that were decoded one by one take a few bytes.
    """

    def __init__(self) -> None:
        self._batches: dict[str, list[tuple[NDArray[Any], ...]]] = {}
        self._singles: dict[str, tuple[array[Any], ...]] = {}
        self._known: set[str] = set()
        self.left_out = False
        self.points = self.fields = self.searched = self.problems = self.lost = 0

    def add(self, tag: str, at: Offsets, points: ScalarSeries) -> None:
        """Adds points that lie at the given bytes of the file."""
        if len(at) and self._counted(tag, at):
            self._batches.setdefault(tag, []).append((at, *points))

    def add_one(self, tag: str, at: int, event: Event, value: float) -> None:
        """Adds one point."""
        if self._counted(tag, (at,)):
            if tag not in self._singles:
                self._singles[tag] = (array("q"), array("q"), array("d"), array("d"))
            for column, number in zip(self._singles[tag], (at, event.step, value, event.wall_time), strict=True):
                column.append(number)

    def _counted(self, tag: str, at: Sequence[int] | Offsets) -> bool:
        if tag not in self._known:
            if len(self._known) >= MAX_TAGS:
                self.left_out = True
                return False
            self._known.add(tag)
        self.points += len(at)
        if self.points > MAX_POINTS:
            raise BoundMet(int(at[0]), f"more than {MAX_POINTS} values")
        return True

    def series(self) -> dict[str, ScalarSeries]:
        """Returns all points by tag in the order of the file."""
        found = {}
        for tag, singles in self._singles.items():
            self._batches.setdefault(tag, []).append(tuple(map(np.asarray, singles)))
        for tag in sorted(self._batches):
            at, *points = (np.concatenate(parts) for parts in zip(*self._batches[tag], strict=True))
            if np.any(at[1:] < at[:-1]):
                order = np.argsort(at, kind="stable")
                points = [column[order] for column in points]
            found[tag] = ScalarSeries(*points)
        return found
