"""The limit on one call of a participant: wall time without the time in which others held the processors it wanted.

From the middle of the limit on, the kernel's counters (``/proc/*/task/*/schedstat``) tell how long each thread of the
tree ran and waited to run. A call is given back the time that its slowest thread waited, at most what the whole tree
did not use of one processor: threads of the participant that wait for each other win nothing.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from a2perf.system import LINUX

MOST = 10.0
"""A call ends after this multiple of its limit, however busy the host."""

_LEAST = 0.02  # of the limit; a shorter wait is that of any host


class CallLimit:
    """When to give up waiting for an answer.

    Args:
        root: the process above the participant's tree.
        ends_at: ``time.monotonic()`` after which nothing is given back; ``None`` for no such time.

    Attributes:
        deadline: ``time.monotonic()`` of the next look, and finally of the end.
        given_back_s: time that the limit does not count, in seconds.
    """

    def __init__(self, root: int, began: float, limit_s: float, ends_at: float | None = None) -> None:
        self._root, self._limit_s = root, limit_s
        last = began + MOST * limit_s
        self._last = last if ends_at is None else min(last, ends_at)
        self._look: tuple[float, dict[str, tuple[int, int, int]]] | None = None
        self.deadline = min(began + limit_s / 2, self._last)
        self.given_back_s = 0.0

    def has_passed(self) -> bool:
        """Returns whether the limit is over; otherwise the deadline has moved. Call it when the deadline has passed."""
        now = time.monotonic()
        if now >= self._last:
            return True
        before, self._look = self._look, (now, dict(_threads(self._root)))
        if before is None:
            self.deadline = min(now + self._limit_s / 2, self._last)
            return False
        lacking_s = _lacking_s(before, self._look)
        if lacking_s < _LEAST * self._limit_s:
            return True
        if not self.given_back_s:
            lacking_s *= 2  # the half before the first look is taken to be like the one after it
        self.given_back_s += lacking_s
        self.deadline = min(now + lacking_s, self._last)
        return False


def _lacking_s(
    before: tuple[float, dict[str, tuple[int, int, int]]], after: tuple[float, dict[str, tuple[int, int, int]]]
) -> float:
    """Returns how long the tree wanted a processor between two looks and had none, in seconds."""
    window_ns = (after[0] - before[0]) * 1e9
    ran, waited = 0, 0.0
    for thread, (run, wait, slices) in after[1].items():
        run_before, wait_before, slices_before = before[1].get(thread, (0, 0, 0))
        ran += run - run_before
        # the kernel adds a wait when it ends: of a thread that waits since before both looks it shows nothing
        waits_on = slices == slices_before and slices > 0 and _is_runnable(thread)
        waited = max(waited, window_ns if waits_on else wait - wait_before)
    return max(0.0, min(waited, window_ns - ran)) / 1e9


def _threads(root: int) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Yields each thread's folder with its time on a processor and its wait for one, in nanoseconds, and its slices."""
    if not LINUX:
        return
    from a2perf.sandbox.guard.tree import descendants  # it needs POSIX

    for pid in descendants(root):
        with contextlib.suppress(OSError):  # it has ended, or the kernel has no such counters
            for thread in os.scandir(f"/proc/{pid}/task"):
                with open(f"{thread.path}/schedstat", "rb") as stream:
                    run, wait, slices = map(int, stream.read().split())
                yield thread.path, (run, wait, slices)


def _is_runnable(thread: str) -> bool:
    with contextlib.suppress(OSError), open(f"{thread}/stat", "rb") as stream:
        return stream.read().rpartition(b")")[2].split()[0] == b"R"
    return False
