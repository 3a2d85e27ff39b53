"""The episodes of an evaluation, and how several of them are played at the same time.

The scored episodes come first in the plan and do not depend on the others, which repeat them or play them under
perturbations. A run with repetitions therefore has the same scores as one without.

How a run ends does not depend on which thread is faster. If an episode fails, episodes after it are cancelled and
episodes before it are played to their end: the failure of the run is that of the first failed episode in the order of
the plan, as if they had been played in turn.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import Protocol

from a2perf.runs.bundles.agreement import PlannedEpisode
from a2perf.submission.settings import Episodes


def studies_reliability(settings: Episodes) -> bool:
    """Returns whether the run plays more than the scored episodes."""
    return settings.repeats > 1 or bool(settings.perturbations)


class EpisodeWorker(Protocol):
    """Plays one episode at a time."""

    def play(self, planned: PlannedEpisode) -> None:
        """Plays and records an episode."""

    def cancel(self) -> None:
        """Makes the episode that is being played fail soon; called from another thread."""


class ConcurrentEpisodes:
    """Plays a list of episodes.

    Args:
        waiting: the episodes in the order of the plan.
        open_worker: opens a worker; called and left in the thread that uses it.
    """

    def __init__(
        self,
        waiting: Iterable[PlannedEpisode],
        count: int,
        open_worker: Callable[[], AbstractContextManager[EpisodeWorker]],
    ) -> None:
        self._waiting = deque(waiting)
        self._count = min(count, len(self._waiting))
        self._open_worker = open_worker
        self._lock = threading.Lock()
        self._playing: dict[EpisodeWorker, int] = {}
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
        index, worker = -1, None
        try:
            with self._open_worker() as worker:
                while (planned := self._next(worker)) is not None:
                    index = planned.index
                    worker.play(planned)
        except BaseException as error:
            self._failed(worker, index, error)

    def _next(self, worker: EpisodeWorker) -> PlannedEpisode | None:
        with self._lock:
            self._playing.pop(worker, None)
            if self._is_stopped or self._errors or not self._waiting:
                return None
            planned = self._waiting.popleft()
            self._playing[worker] = planned.index
            return planned

    def _failed(self, worker: EpisodeWorker | None, index: int, error: BaseException) -> None:
        with self._lock:
            if worker is not None:
                self._playing.pop(worker, None)
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
        for worker in playing:
            worker.cancel()
