"""Plays episodes in several threads; how the run ends does not depend on which thread is faster.

If an episode fails, episodes after it are cancelled and episodes before it are played to their end: the failure of the
run is that of the first failed episode in the order of the plan, as if they had been played in turn.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import Protocol

from a2perf.submission.evaluator.episode_plan import PlannedEpisode


class Lane(Protocol):
    """Plays one episode at a time."""

    def play(self, planned: PlannedEpisode) -> None:
        """Plays and records an episode."""

    def cancel(self) -> None:
        """Makes the episode that is being played fail soon; called from another thread."""


class ConcurrentEpisodes:
    """Plays a list of episodes.

    Args:
        waiting: the episodes in the order of the plan.
        count: largest number of episodes at the same time.
        open_lane: opens a lane; called and left in the thread that uses it.
    """

    def __init__(
        self, waiting: Iterable[PlannedEpisode], count: int, open_lane: Callable[[], AbstractContextManager[Lane]]
    ) -> None:
        self._waiting = deque(waiting)
        self._count = min(count, len(self._waiting))
        self._open_lane = open_lane
        self._lock = threading.Lock()
        self._playing: dict[Lane, int] = {}
        self._errors: dict[int, BaseException] = {}
        self._is_stopped = False

    def play(self) -> None:
        """Plays all episodes.

        Raises:
            Exception: that of the first episode that failed.
        """
        if not self._count:
            return
        # The threads live until the last participant has ended: the kernel's parent-death signal, which ends a
        # participant with its evaluator, is sent at the end of the thread that started the process.
        with ThreadPoolExecutor(self._count, thread_name_prefix="a2perf-episodes") as threads:
            running = [threads.submit(self._work) for _ in range(self._count)]
            try:
                wait(running)
            except BaseException:  # an interrupt
                self._stop()
                raise
        if self._errors:
            raise self._errors[min(self._errors)]

    def _work(self) -> None:
        index, lane = -1, None
        try:
            with self._open_lane() as lane:
                while (planned := self._next(lane)) is not None:
                    index = planned.index
                    lane.play(planned)
        except BaseException as error:
            self._failed(lane, index, error)

    def _next(self, lane: Lane) -> PlannedEpisode | None:
        with self._lock:
            self._playing.pop(lane, None)
            if self._is_stopped or self._errors or not self._waiting:
                return None
            planned = self._waiting.popleft()
            self._playing[lane] = planned.index
            return planned

    def _failed(self, lane: Lane | None, index: int, error: BaseException) -> None:
        with self._lock:
            if lane is not None:
                self._playing.pop(lane, None)
            if self._is_stopped:
                return
            self._errors.setdefault(index, error)
            later = [other for other, playing in self._playing.items() if playing > index]
        for other in later:
            other.cancel()

    def _stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            playing = list(self._playing)
        for lane in playing:
            lane.cancel()
