"""The bound on what a tree writes: what lies in its folders, and what it holds open there without a name.

A look is exact only while nothing moves. So the ordinary looks, one per second or so, are backed by the free space of
the file system, which no process can hide from: where more of it is gone than was found, the tree is stopped, looked at
again and released. What cannot be seen even then (descriptors on their way through a socket, processes that may not be
looked into) counts as all that is gone.
"""

from __future__ import annotations

import os
import time

from .descriptors import Held, look
from .folders import Walk
from .tree import descendants, release, stop

INTERVAL_S = 1.0
STEP_BYTES = 4 * 1024 * 1024
REST_INTERVAL_S = 10.0
"""Between two stops: the disk may be filled by others."""
LONG_S = 0.1
"""A look that takes longer is taken at rest, where the free space says that much is being written."""
_AGAIN_S = 0.05
_MOST_SHARE = 0.2
"""Share of one processor that looking may take where there are very many files."""


class Disk:
    """Watches the folders that a tree writes to.

    Args:
        folders: what it may write.
        most_bytes: bound on their content together.
        most_entries: bound on the number of names in them.
    """

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
        """Returns whether it is time to look: the interval is over, or much of the room that is left is gone."""
        gone = self._free_then - self._free()
        self._is_early = gone > max(STEP_BYTES, (self._most_bytes - self._used) / 4)
        return self._is_early or now >= self._next

    def over(self, guard: int) -> tuple[str, float] | None:
        """Returns the name of the bound that is passed, and by which value, or ``None``.

        Args:
            guard: the process above the tree; 0 where none of the tree is left.
        """
        started, used_s = time.monotonic(), time.process_time()
        if guard and self._is_early and self._took_s > LONG_S:
            found = self._look_at_stopped(guard)  # else it would write on for as long as a look takes
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
        """Looks while the tree is stopped; what is hidden has to be so twice, as it is for a moment in any program."""
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
        """Stops the tree and looks; one that is over a bound stays stopped, as it is killed next."""
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
        if verdict is None and guard:
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
                free[os.stat(path).st_dev] = values.f_bfree * values.f_frsize
            except OSError:
                continue
        return sum(free.values())


class _Found:
    """What one look found: bytes in use, free space lost beside them, and what could not be looked at."""

    def __init__(
        self, used: float, lost: float, hidden: int, unreadable: int, verdict: tuple[str, float] | None
    ) -> None:
        self.bytes = used
        self.lost = lost
        self.hidden = hidden
        self.unreadable = unreadable
        self.verdict = verdict

    def missing(self, most_bytes: float) -> bool:
        """Returns whether the bound would be passed if all that is lost were the tree's, or a folder stayed closed."""
        return self.bytes + self.lost > most_bytes or self.unreadable > 0
