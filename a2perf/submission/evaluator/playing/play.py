"""Plays the episodes of a task: in turn, or several at the same time with a participant process for each."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from a2perf.domains.perturbation import make_perturbed
from a2perf.domains.tfa.suite_gym import create_domain
from a2perf.errors import InfrastructureError, UserError
from a2perf.fault_point import fault_point
from a2perf.records import Episode, FailureKind, StepCosts
from a2perf.runs.bundles.agreement import PlannedEpisode, episode_plan
from a2perf.storage import Journal
from a2perf.submission.evaluator.playing.action_record import ActionRecorder
from a2perf.submission.evaluator.playing.episode_records import EpisodeRecords
from a2perf.submission.evaluator.playing.episodes import (
    ConcurrentEpisodes,
    studies_reliability,
)
from a2perf.submission.evaluator.playing.media import Kept
from a2perf.submission.evaluator.playing.rollouts import StepTrace, rollout
from a2perf.submission.evaluator.playing.step_account import StepAccount, StepTotals, empty_calls, mean_costs
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from a2perf.submission.evaluator.process.participant_process import ParticipantProcess
from a2perf.submission.evaluator.process.participants import Participants
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.submission.evaluator.submitted.identity import RunTask
from a2perf.submission.settings import Episodes
from a2perf.system import stall_limit


def play(
    settings: Episodes, task: RunTask, env: Any, participants: Participants, seeds: list[int],
    journal: Journal, metrics: Path, progress: RunProgress, *, stall_s: float, pictured: int = 0,
) -> dict[int, Kept]:  # fmt: skip
    """Plays every episode that is not in the journal yet; writes ``rollouts.json`` and ``rollout_steps.npz``.

    Args:
        participants: starts the participant processes; the first one has its policy loaded.
        stall_s: seconds without a call of the policy after which the environment is taken to hang.
        pictured: number of episodes, from the first on, that get pictures.

    Returns:
        What they are made from, by episode.

    Raises:
        ParticipantFailure: the participant failed; of several episodes at the same time, in the first that failed.
    """
    plan = episode_plan(settings.repeats, settings.perturbations, seeds)
    participants.mark("rollouts")
    progress.phase(f"rollouts on {task.name}", len(plan))
    records = EpisodeRecords(journal, progress)
    waiting = [planned for planned in plan if not records.has(planned.index)]
    kept = {planned.index: Kept() for planned in waiting if planned.index < min(pictured, len(seeds))}
    run = _Rollouts(settings, task, records, kept, stall_s)
    try:
        if settings.concurrent_episodes > 1:
            participants.end_process()
            ConcurrentEpisodes(waiting, settings.concurrent_episodes, lambda: run.another_worker(participants)).play()
        else:
            with run.worker(env, participants) as worker:
                for planned in waiting:
                    worker.play(planned)
    finally:
        costs = mean_costs(run.totals)
        if costs is not None and run.transport is not None:
            costs.transport_s, costs.transport_cpu_s = run.transport.round_trip_s, run.transport.tree_s
        participants.warn(records.write(metrics, task, costs))
    return kept


@contextmanager
def environment(task: RunTask) -> Iterator[Any]:
    """Opens the environment of a task. An exception while it closes is printed: the episodes are recorded by then.

    Raises:
        UserError: it cannot be created.
    """
    try:
        env = create_domain(env_name=task.env_id, framework="gymnasium", **task.env_kwargs)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise InfrastructureError(f"the environment {task.env_id} cannot be created: {error!r}") from error
    try:
        yield env
    finally:
        try:
            env.close()
        except (Exception, SystemExit) as error:
            print(f"a2perf: the environment {task.env_id} failed in close: {error!r}", file=sys.stderr)


class _Rollouts:
    """What the episodes of a task have in common."""

    def __init__(
        self, settings: Episodes, task: RunTask, records: EpisodeRecords, kept: dict[int, Kept], stall_s: float
    ) -> None:
        self.settings, self.records, self.kept, self.stall_s = settings, records, kept, stall_s
        self.totals: list[StepTotals] = []
        self.transport: StepCosts | None = None
        # of several processes at the same time, a phase says nothing about one, and one disturbs the others
        self.one_by_one = settings.concurrent_episodes == 1
        self._task = task
        self._opening = threading.Lock()

    @contextmanager
    def worker(self, env: Any, participants: Participants) -> Iterator[_Worker]:
        """Opens a worker that plays in this environment."""
        with _perturbed_environments(self._task, env) as environments:
            worker = _Worker(self, environments, participants)
            try:
                yield worker
            finally:
                worker.end_account()

    @contextmanager
    def another_worker(self, participants: Participants) -> Iterator[_Worker]:
        """Opens a worker for another thread, with its own environment and its own participant processes."""
        with ExitStack() as opened:
            with self._opening:  # gin's configuration and the socket to the relay are not made for several threads
                env = opened.enter_context(environment(self._task))
                beside = opened.enter_context(participants.beside())
            yield opened.enter_context(self.worker(env, beside))


class _Worker:
    """Plays one episode at a time. Each participant process has one account of its steps."""

    def __init__(self, run: _Rollouts, environments: Callable[[str], Any], participants: Participants) -> None:
        self._run, self._environments, self._participants = run, environments, participants
        self._participant: ParticipantProcess | None = None
        self._account: StepAccount | None = None

    def cancel(self) -> None:
        """See ``episodes.EpisodeWorker``."""
        self._participants.cancel()

    def end_account(self) -> None:
        """Keeps the costs of the scored steps of the current participant process."""
        if self._account is not None and self._account.has_marked:
            self._run.totals.append(self._account.totals())
        self._account = None

    def play(self, planned: PlannedEpisode) -> None:
        """Plays and records one episode."""
        settings = self._run.settings
        world = self._environments(planned.perturbation)
        participant = self._participants.of_episode(planned.index, repeat=planned.repeat)
        if self._account is None or participant is not self._participant:
            self.end_account()
            self._participant, self._account = participant, StepAccount(participant)
        if self._run.one_by_one:
            self._participants.track("rollouts" if planned.is_scored else "further episodes")
        account = self._account
        recorder = ActionRecorder(world.action_space) if studies_reliability(settings) else None
        before, kept = account.calls, self._run.kept.get(planned.index)
        trace = StepTrace(account.packed) if planned.is_scored else None
        account.see = None if trace is None else trace.see
        last = _LastStep() if self._run.one_by_one and self._run.transport is None else None
        hooks = [hook for hook in (recorder, None if kept is None else _keeper(world, kept), last) if hook is not None]
        try:
            with stall_limit(self._run.stall_s, lambda: account.calls):
                episode = rollout(
                    world, account, index=planned.index, seed=planned.seed,
                    on_step=_each(hooks), trace=trace,
                )  # fmt: skip
        except ParticipantFailure as error:
            invalid = error.failure.kind in (FailureKind.BAD_OUTPUT, FailureKind.ILLEGAL)
            is_action = invalid and error.failure.where.startswith("infer_once")
            if not planned.perturbation or participant.ending is not None or not is_action:
                raise
            # The policy may rely on what the perturbation changes: the episode fails, not the run.
            episode = Episode(
                index=planned.index, seed=planned.seed, episode_return=0.0, length=account.calls - before,
                terminated=True, truncated=False, termination="invalid action", success=False,
            )  # fmt: skip
        if kept is not None:
            kept.state(world)
        fault_point("evaluator: episode played")
        episode.task_index, episode.repeat = planned.task_index, planned.repeat
        episode.perturbation = planned.perturbation
        episode.confidence = participant.confidence()
        steps = account.steps(before)
        if recorder is not None:
            episode.actions, episode.policy_cpu_s = recorder.record(), sum(steps["cpu_ns"]) * 1e-9
        if trace is not None:
            account.mark()
            self._run.records.add_scored(episode, {**steps, **trace.record()})
        else:
            self._run.records.add_further(episode)
        if last is not None:
            self._participants.track("transport")
            self._run.transport = empty_calls(participant, last.observation, last.action)
        fault_point("evaluator: episode recorded")


@contextmanager
def _perturbed_environments(task: RunTask, env: Any) -> Iterator[Callable[[str], Any]]:
    """Yields a function that returns a perturbed environment, or ``env`` for ``""``; at most one variant is open."""
    current: tuple[str, Any] = ("", env)
    with ExitStack() as variants:

        def of(perturbation: str) -> Any:
            nonlocal current
            if not perturbation:
                return env
            if current[0] != perturbation:
                variants.close()
                made = make_perturbed(task.env_id, task.env_kwargs, perturbation)
                current = (perturbation, variants.enter_context(closing(made)))
            return current[1]

        yield of


class _LastStep:
    """Remembers the observation and action of the last step."""

    observation: Any = None
    action: Any = None

    def __call__(self, observation: Any, action: Any) -> None:
        self.observation, self.action = observation, action


def _keeper(world: Any, kept: Kept) -> Callable[[Any, Any], None]:
    def keep(observation: Any, action: Any) -> None:
        kept.actions.append(action)
        kept.state(world)

    return keep


def _each(hooks: list[Callable[[Any, Any], None]]) -> Callable[[Any, Any], None] | None:
    """Returns what is called with each observation and action of an episode."""
    if len(hooks) < 2:
        return hooks[0] if hooks else None

    def call(observation: Any, action: Any) -> None:
        for hook in hooks:
            hook(observation, action)

    return call
