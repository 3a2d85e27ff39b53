"""The bound on disk use: the content of the tree's folders, and deleted files that it holds open there.

A walk is exact only while nothing changes. So the regular walks, about one per second, are checked against the free
space of the file system, from which no process can hide. If more space is gone than a walk explains, the tree is
stopped, walked again and released. If something still cannot be inspected (descriptors in flight through a socket,
unreadable processes), all the missing space counts against the tree.
"""

from __future__ import annotations

import os
import time

from .descriptors import Held, look
from .folders import Walk
from .tree import LINUX, descendants, release, stop

INTERVAL_S = 1.0
STEP_BYTES = 4 * 1024 * 1024
REST_INTERVAL_S = 10.0
"""Least time between two stops: another program may be filling the disk."""
LONG_S = 0.1
"""If the last walk took longer and the free space falls quickly, the tree is stopped for the next one."""
_AGAIN_S = 0.05
_MOST_SHARE = 0.2
"""Largest share of one processor that walks may take; with very many files they become rarer."""


class Disk:
    """Watches the folders that a tree writes to."""

    def __init__(self, folders: list[str], most_bytes: float, most_entries: float) -> None:
        self._folders = folders
        self._most_bytes = most_bytes
        self._most_entries = most_entries
        self._free_before = self._free_then = self._free()
        self._used: float = Walk(folders, most_bytes, most_entries).bytes
        self._used_before = self._used
        self._next = 0.0
        self._next_stop = 0.0
        self._took_s = 0.0
        self._is_early = False

    def due(self, now: float) -> bool:
        """Returns whether it is time for a walk: the interval is over, or a quarter of the remaining budget is gone."""
        gone = self._free_then - self._free()
        self._is_early = gone > max(STEP_BYTES, (self._most_bytes - self._used) / 4)
        return self._is_early or now >= self._next

    def over(self, guard: int) -> tuple[str, float] | None:
        """Returns the name of an exceeded bound and the value that exceeds it, or ``None``.

        Args:
            guard: process id of the guard, the parent of the tree; 0 after the end of the tree.
        """
        started, used_s = time.monotonic(), time.process_time()
        if guard and self._is_early and self._took_s > LONG_S:
            found = self._look_at_stopped(guard)  # otherwise the tree keeps writing during a slow walk
        else:
            found = self._look(guard)
        if found.verdict is None and guard and found.missing(self._most_bytes) and started >= self._next_stop:
            found.verdict = self._look_at_rest(guard)
            self._next_stop = time.monotonic() + REST_INTERVAL_S
        now = time.monotonic()
        self._took_s = now - started
        self._next = now + max(INTERVAL_S, (time.process_time() - used_s) / _MOST_SHARE)
        self._free_then, self._used = self._free(), found.bytes
        return found.verdict

    def _look_at_rest(self, guard: int) -> tuple[str, float] | None:
        """Inspects the stopped tree, twice if something is hidden: any program hides something for a moment."""
        for attempt in range(2):
            found = self._look_at_stopped(guard)
            if found.verdict is not None:
                return found.verdict
            if not found.hidden:
                return None
            if not attempt:
                time.sleep(_AGAIN_S)
        if found.unreadable:
            return "artifact_unreadable", found.unreadable
        return ("artifact_bytes", found.bytes + found.lost) if found.missing(self._most_bytes) else None

    def _look_at_stopped(self, guard: int) -> _Found:
        """Stops the tree and inspects it. A tree that exceeds a bound stays stopped, because it is killed next."""
        stopped, found = stop(guard), None
        try:
            found = self._look(guard)
        finally:
            if found is None or found.verdict is None:
                release(stopped)
        return found

    def _look(self, guard: int) -> _Found:
        walk = Walk(self._folders, self._most_bytes, self._most_entries)
        verdict = walk.over()
        held = Held()
        if verdict is None and guard and LINUX:
            held = look(descendants(guard), walk.devices, buffers=False)
        used = walk.bytes + held.nameless_bytes(walk.devices)
        if verdict is None and used > self._most_bytes:
            verdict = "artifact_bytes", used
        lost = max(0.0, self._free_before - self._free() - (used - self._used_before))
        return _Found(used, lost, held.hidden + held.in_flight + walk.unreadable, walk.unreadable, verdict)

    def _free(self) -> float:
        """Returns the free space of the file systems of all folders, each once."""
        free: dict[int, float] = {}
        for path in self._folders:
            try:
                values = os.statvfs(path)
                # Not f_bavail: it stays 0 while root uses up the blocks that are reserved for it.
                free[os.stat(path).st_dev] = values.f_bfree * values.f_frsize
            except OSError:
                continue
        return sum(free.values())


class _Found:
    """Result of one walk: bytes in use, unexplained loss of free space, and what could not be inspected."""

    def __init__(
        self, used: float, lost: float, hidden: int, unreadable: int, verdict: tuple[str, float] | None
    ) -> None:
        self.bytes = used
        self.lost = lost
        self.hidden = hidden
        self.unreadable = unreadable
        self.verdict = verdict

    def missing(self, most_bytes: float) -> bool:
        """Returns whether the bound is exceeded if all unexplained loss is the tree's, or if a folder is unreadable."""
        return self.bytes + self.lost > most_bytes or self.unreadable > 0
