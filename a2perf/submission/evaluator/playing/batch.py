"""Plays the episodes of a task in batches: the policy gets the observations of several episodes in one call.

Each episode has its own environment, seed, record and failure. They are those of the episode alone if the policy is a
function of the observation. That is checked: one episode is played again alone, in the same process.

All rows of a call are written to the shared memory together, when the last of them is due. A participant that watches
that memory sees no observation of any episode before the call that it belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from a2perf.fault_point import fault_point
from a2perf.records import BatchCheck, Episode, FailureKind
from a2perf.runs.bundles.agreement import PlannedEpisode
from a2perf.submission.evaluator.playing.action_record import ActionRecorder
from a2perf.submission.evaluator.playing.actions import ActionChecker
from a2perf.submission.evaluator.playing.episodes import TaskEpisodes
from a2perf.submission.evaluator.playing.members import Members, Row, members_of
from a2perf.submission.evaluator.playing.play import with_invalid_action
from a2perf.submission.evaluator.playing.rollouts import PlayedEpisode
from a2perf.submission.evaluator.playing.step_account import StepAccount
from a2perf.submission.evaluator.playing.step_trace import StepTrace, value_hash
from a2perf.submission.evaluator.process.answers import Answer
from a2perf.submission.evaluator.process.failures import EnvironmentFailure, ParticipantFailure
from a2perf.submission.evaluator.process.participant_process import ParticipantProcess
from a2perf.submission.evaluator.process.participants import Participants
from a2perf.submission.evaluator.process.rows import stacked
from a2perf.system import stall_limit

_RELATIVE, _ABSOLUTE = 1e-3, 1e-5
"""Actions that differ by less differ by rounding: a product of matrices adds in another order for one row."""


def play_in_batches(episodes: TaskEpisodes, env: Any, participants: Participants) -> None:
    """Plays the episodes, as many together as the settings say, and records each; then plays one of them alone.

    Raises:
        ParticipantFailure: the participant failed, or its actions depend on more than the observations.
        EnvironmentFailure: the environment failed.
    """
    settings, participant = episodes.settings, participants.process
    account = StepAccount(participant.tree)
    with ExitStack() as opened:
        batch = _Batch(episodes, participant, account, opened.enter_context(members_of(episodes, env)))
        with stall_limit(settings.stall_s, lambda: batch.steps):
            try:
                participants.track("rollouts")
                batch.play(scored=True)
                participants.track("further episodes")
                batch.play(scored=False)
            finally:
                episodes.batch = BatchCheck(rows=settings.batch)
                episodes.add_costs(account)
            participants.warn(batch.play_alone(env))


class InRows:
    """A policy of one observation: it asks for the actions of ``rows`` equal ones and takes the first."""

    def __init__(self, participant: ParticipantProcess, rows: int) -> None:
        self._participant, self._rows = participant, rows

    def infer(self, observation: Any) -> Answer:
        """Returns the answer with the action of the first row."""
        rows = stacked([observation] * self._rows, self._participant.batch_memory)
        answer = self._participant.infer_batch(rows, self._rows)
        return replace(answer, action=answer.action[0])


class _Batch:
    """The episodes that are being played together.

    Attributes:
        steps: number of steps of all environments.
    """

    steps = 0

    def __init__(
        self, episodes: TaskEpisodes, participant: ParticipantProcess, account: StepAccount, members: Members
    ) -> None:
        self._episodes, self._participant, self._account, self._members = episodes, participant, account, members
        self._free = list(range(members.count))
        self._playing: dict[int, Row] = {}  # by member
        self._failed: dict[int, Exception] = {}
        # The episode that is played again alone: one of the first rows, and not one that the participant can foresee.
        first = episodes.next_scored(members.count)
        self._checked = first[first[0].seed % len(first)] if first else None
        self._answers: list[tuple[int, Any]] = []
        self._trace = StepTrace()

    def play(self, *, scored: bool) -> None:
        """Plays the scored episodes, or the others.

        After a failure the episodes before it in the plan are played to their end and those after it given up: the
        failure of the run is the one that it has in turn.

        Raises:
            ParticipantFailure: the participant failed.
            EnvironmentFailure: the environment failed.
        """
        while True:
            while self._free and not self._failed and (planned := self._episodes.next_row(scored=scored)) is not None:
                try:
                    row = self._started(planned)
                    self._playing[row.member] = row
                except EnvironmentFailure as failure:
                    self._give_up(planned, failure)
            if not self._playing:
                break
            self._step()
        if self._failed:
            raise self._failed[min(self._failed)]

    def _started(self, planned: PlannedEpisode) -> Row:
        trace = StepTrace() if planned.is_scored else None
        row = Row(self._free.pop(), planned, PlayedEpisode(index=planned.index, seed=planned.seed, trace=trace), trace)
        self._members.begin(row)
        if self._episodes.settings.studies_reliability:
            row.actions = ActionRecorder(row.episode.action_space)
        row.on_step = [record for record in (row.actions, self._episodes.kept.get(planned.index)) if record is not None]
        return row

    def _step(self) -> None:
        """Asks for one action per row and steps the environments."""
        rows = [self._playing[member] for member in sorted(self._playing)]
        self._account.before_call()
        answer = self._participant.infer_batch(
            self._members.observations(rows, self._participant.batch_memory), len(rows), lambda: self._members.see(rows)
        )
        share_ns = self._account.after_batch(answer, len(rows))
        for number, (row, action) in enumerate(zip(rows, answer.action, strict=True)):
            if row.member not in self._playing:  # given up
                continue
            row.cpu_ns.append(share_ns)
            if row.planned is self._checked:
                self._answers.append((number, action))
            try:
                row.action = row.episode.checked(action)
            except ParticipantFailure as failure:
                self._end_by(failure, row, number)
                continue
            for observe in row.on_step:
                observe(self._members.env(row), row.observation, row.action)
        stepped = rows if len(self._playing) == len(rows) else [row for row in rows if row.member in self._playing]
        for row, failed in self._members.step(stepped):
            self.steps += 1
            if failed is None and not row.episode.is_over:
                continue
            if row.member not in self._playing:
                continue
            if isinstance(failed, ParticipantFailure):
                self._end_by(failed, row, rows.index(row))
            elif failed is not None:
                self._give_up(row.planned, failed)
            else:
                try:
                    self._add(row, row.episode.record())
                except EnvironmentFailure as failure:
                    self._give_up(row.planned, failure)

    def _end_by(self, failure: ParticipantFailure, row: Row, number: int) -> None:
        """Ends an episode by an invalid action: it is recorded if it was perturbed, otherwise the run fails."""
        try:
            self._add(row, with_invalid_action(failure, row.planned, False, len(row.cpu_ns)))
        except ParticipantFailure:
            failure.failure.where = f"infer_batch, row {number}"
            self._give_up(row.planned, failure)

    def _give_up(self, planned: PlannedEpisode, failure: Exception) -> None:
        self._failed[planned.index] = failure
        self._playing = {place: row for place, row in self._playing.items() if row.planned.index < planned.index}

    def _add(self, row: Row, episode: Episode) -> None:
        """Records an episode that has ended, and frees its environment."""
        del self._playing[row.member]
        self._free.append(row.member)
        planned = row.planned
        if (pictures := self._episodes.kept.get(planned.index)) is not None:
            pictures.state(self._members.env(row))
        fault_point("evaluator: episode played")
        episode.task_index, episode.repeat, episode.perturbation = (
            planned.task_index,
            planned.repeat,
            planned.perturbation,
        )
        if row.actions is not None:
            episode.actions, episode.policy_cpu_s = row.actions.record(), sum(row.cpu_ns) * 1e-9
        if row.trace is None:
            self._episodes.add_further(episode)
        else:
            self._account.mark()
            self._episodes.add_scored(episode, {"cpu_ns": row.cpu_ns, **row.trace.record()})
            if planned is self._checked:
                self._trace = row.trace
        fault_point("evaluator: episode recorded")

    def play_alone(self, env: Any) -> list[str]:
        """Plays one episode again, one observation per call, and compares its actions; returns warnings.

        Raises:
            ParticipantFailure: an action differs by more than rounding.
        """
        planned, checked = self._checked, ActionChecker(env.action_space)
        if planned is None:
            return []
        alone, equal = InRows(self._participant, 1), True
        episode = PlayedEpisode(index=planned.index, seed=planned.seed)
        observation = episode.reset(env)
        seen = self._trace.record()["observation_xxh3"]
        for step, ((number, answer), digest) in enumerate(zip(self._answers, seen, strict=True), 1):
            if value_hash(observation) != digest:
                return [f"the environment does not repeat episode {planned.index}: the batch was not checked"]
            self.steps += 1
            action, batched = checked(alone.infer(observation).action), checked(answer)
            if value_hash(action) != value_hash(batched):
                equal = False
                if not _is_rounding(action, batched):
                    raise ParticipantFailure.of(
                        FailureKind.BAD_OUTPUT,
                        f"infer_batch, row {number}",
                        f"step {step} of episode {planned.index} has another action than alone: actions depend on other"
                        " rows or on earlier calls, so leave out --batch",
                    )
            observation = episode.step(env, batched)
            if episode.is_over:
                break
        rows = self._episodes.settings.batch
        self._episodes.batch = BatchCheck(rows=rows, episode=planned.index, equal=equal)
        same = "has the same actions" if equal else "differs by rounding"
        text = f"batches of {rows}: episode {planned.index} alone {same}"
        self._episodes.say(text)
        return [] if equal else [text]


def _is_rounding(one: Any, other: Any) -> bool:
    """Returns whether two actions of a space differ by rounding at most."""
    if isinstance(one, Mapping):
        return all(_is_rounding(one[name], other[name]) for name in one)
    if isinstance(one, tuple):
        return all(map(_is_rounding, one, other))
    if isinstance(one, np.ndarray) and one.dtype.kind == "f":
        return np.allclose(one, other, rtol=_RELATIVE, atol=_ABSOLUTE)
    return value_hash(one) == value_hash(other)
