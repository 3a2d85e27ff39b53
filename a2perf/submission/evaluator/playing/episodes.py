"""The episodes of a task while they are played: the next one, the records of those that ended, and what they cost.

The scored episodes come first in the plan and do not depend on the others, which repeat them or play them under
perturbations. A run with repetitions therefore has the same scores as one without.

How a run ends does not depend on which thread is faster. If an episode fails, episodes after it are cancelled and
episodes before it are played to their end: the failure of the run is that of the first failed episode in the order of
the plan, as if they had been played in turn.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from a2perf.records import (
    FURTHER_EPISODE,
    SCORED_EPISODE,
    BatchCheck,
    Episode,
    LatencyResults,
    RolloutResults,
    StepCosts,
)
from a2perf.runs.bundles.agreement import PlannedEpisode, episode_plan
from a2perf.runs.bundles.layout import LATENCY_FILE, ROLLOUTS_FILE, STEPS_FILE
from a2perf.storage import Journal, read_record
from a2perf.submission.evaluator.playing import step_account
from a2perf.submission.evaluator.playing.episode_records import recorded_indices, write_rollouts, write_steps
from a2perf.submission.evaluator.playing.media import Kept
from a2perf.submission.evaluator.playing.step_account import StepAccount, StepTotals, mean_costs
from a2perf.submission.evaluator.process.participants import Participants
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.submission.evaluator.submitted.identity import RunTask
from a2perf.submission.settings import Submission


class TaskEpisodes:
    """The episodes of a task that are not in the journal yet. Threads may share it.

    Args:
        pictured: number of episodes, from the first on, that get pictures.

    Attributes:
        in_turn: whether one episode is played at a time.
        kept: what the pictures of an episode are made from, by episode.
        transport: the costs of empty calls; None before they were made.
        batch: how episodes were played together; None for one observation per call.
        error: the exception of the first episode that failed, if several are played at the same time.
    """

    transport: StepCosts | None = None
    batch: BatchCheck | None = None

    def __init__(
        self,
        settings: Submission,
        task: RunTask,
        seeds: list[int],
        journal: Journal,
        progress: RunProgress,
        *,
        pictured: int = 0,
    ) -> None:
        self.settings, self.task = settings, task
        self.in_turn = settings.concurrent_episodes == 1
        self._journal, self._progress = journal, progress
        # A run may have a million episodes: the plan is made while it is played, and a byte tells which ones are done.
        self._done = bytearray(len(seeds) * (settings.repeats + len(settings.perturbations)))
        for index in recorded_indices(journal):
            self._done[index] = True
        plan = episode_plan(settings.repeats, settings.perturbations, seeds)
        self._plan = (planned for planned in plan if not self._done[planned.index])
        self._ahead: deque[PlannedEpisode] = deque()
        self._left = self._done.count(0)
        self._recorded = len(self._done) - self._left
        progress.phase(f"rollouts on {task.name}", len(self._done))
        progress.advance(self._recorded)
        self.kept = {index: Kept() for index in range(min(pictured, len(seeds))) if not self._done[index]}
        self._totals: list[StepTotals] = []
        self._lock = threading.Lock()
        self._playing: dict[Participants, int] = {}
        self._latest: dict[Participants, int] = {}
        self._errors: dict[int, BaseException] = {}
        self._is_stopped = False

    def __len__(self) -> int:
        return self._left

    def next(self, participants: Participants) -> PlannedEpisode | None:
        """Returns the episode that these participants play next; None if none is left or another one failed."""
        with self._lock:
            self._playing.pop(participants, None)
            if self._is_stopped or self._errors or not self._left:
                return None
            planned = self._popped()
            self._playing[participants] = self._latest[participants] = planned.index
            return planned

    def next_row(self, *, scored: bool) -> PlannedEpisode | None:
        """Returns the next episode of a batch; None if there is none of the scored ones, or of the others."""
        following = self._next(1)
        return self._popped() if following and following[0].is_scored == scored else None

    def next_scored(self, count: int) -> list[PlannedEpisode]:
        """Returns the scored ones of the next ``count`` episodes."""
        return [planned for planned in self._next(count) if planned.is_scored]

    def _next(self, count: int) -> list[PlannedEpisode]:
        self._ahead.extend(itertools.islice(self._plan, max(0, count - len(self._ahead))))
        return list(itertools.islice(self._ahead, count))

    def _popped(self) -> PlannedEpisode:
        self._left -= 1
        return self._ahead.popleft() if self._ahead else next(self._plan)

    def say(self, text: str) -> None:
        """Shows a line."""
        self._progress.say(text)

    def add_scored(self, episode: Episode, steps: Mapping[str, Any]) -> None:
        """Records a scored episode with its steps."""
        self._add(episode, {"kind": SCORED_EPISODE, "episode": msgspec.to_builtins(episode), "steps": dict(steps)})

    def add_further(self, episode: Episode) -> None:
        """Records a repeated or perturbed episode."""
        self._add(episode, {"kind": FURTHER_EPISODE, "episode": msgspec.to_builtins(episode)})

    def _add(self, episode: Episode, entry: dict[str, Any]) -> None:
        with self._lock:
            self._journal.append(entry)
            self._recorded += 1
            self._progress.advance(self._recorded, f"last return {episode.episode_return:.2f}")

    def add_costs(self, account: StepAccount | None) -> None:
        """Keeps the costs of the scored steps of a participant process that plays no further episode."""
        if account is not None and account.has_marked:
            self._totals.append(account.totals())

    def failed(self, participants: Participants | None, error: BaseException) -> None:
        """Notes that a thread failed, and cancels the episodes after its own."""
        with self._lock:
            index = -1
            if participants is not None:
                self._playing.pop(participants, None)
                index = self._latest.get(participants, -1)
            if self._is_stopped:
                return
            self._errors.setdefault(index, error)
            later = [other for other, playing in self._playing.items() if playing > index]
        for other in later:
            other.cancel()

    def stop(self) -> None:
        """Cancels all episodes that are being played."""
        with self._lock:
            self._is_stopped = True
            playing = list(self._playing)
        for participants in playing:
            participants.cancel()

    @property
    def error(self) -> BaseException | None:
        """The exception of the first failed episode in the order of the plan."""
        return self._errors[min(self._errors)] if self._errors else None

    def write(self, folder: Path) -> list[str]:
        """Writes ``rollouts.json`` and ``rollout_steps.npz`` and returns warnings about the costs."""
        costs = mean_costs(self._totals)
        if costs is not None and self.transport is not None:
            costs.transport_s, costs.transport_cpu_s = self.transport.round_trip_s, self.transport.tree_s
        if costs is not None and (folder / LATENCY_FILE).exists():
            timed = read_record(folder / LATENCY_FILE, LatencyResults).costs
            if timed is not None and step_account.unlike(timed, costs):
                costs.flags.append(step_account.UNLIKE_TIMED)
        results = RolloutResults(
            task=self.task.name, env_id=self.task.env_id, episodes=[], costs=costs, batch=self.batch
        )
        write_rollouts(folder / ROLLOUTS_FILE, results, self._journal)
        write_steps(folder / STEPS_FILE, self._journal)
        text = None if costs is None else step_account.warning(costs, "scored episodes")
        return [] if text is None else [text]
