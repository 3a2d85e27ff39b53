"""Plays the episodes of a task: in turn, or several at the same time with a participant process for each."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from a2perf.domains.perturbation import make_perturbed
from a2perf.domains.tfa.suite_gym import create_domain
from a2perf.errors import InfrastructureError, UserError
from a2perf.fault_point import fault_point
from a2perf.records import Episode, FailureKind
from a2perf.runs.bundles.agreement import PlannedEpisode
from a2perf.submission.evaluator.playing.action_record import ActionRecorder
from a2perf.submission.evaluator.playing.episodes import TaskEpisodes
from a2perf.submission.evaluator.playing.rollouts import rollout
from a2perf.submission.evaluator.playing.step_account import StepAccount, empty_calls
from a2perf.submission.evaluator.playing.step_trace import StepTrace
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from a2perf.submission.evaluator.process.participants import Participants
from a2perf.submission.evaluator.submitted.identity import RunTask
from a2perf.system import stall_limit


def play(episodes: TaskEpisodes, env: Any, participants: Participants) -> None:
    """Plays episodes one after the other until none is left, and records each.

    Args:
        episodes: hands them out; if several are played at the same time, to other threads too.
        env: the environment of the task, for this thread alone.
        participants: starts the participant processes of this thread.

    Raises:
        ParticipantFailure: the participant failed.
        EnvironmentFailure: the environment failed.
    """
    account: StepAccount | None = None
    with closing(Variants(episodes.task, env)) as variants:
        try:
            while (planned := episodes.next(participants)) is not None:
                variant = variants.under(planned.perturbation)
                participant = participants.of_episode(planned.index, repeat=planned.repeat)
                if account is None or account.process_tree is not participant.tree:
                    episodes.add_costs(account)
                    account = StepAccount(participant.tree)
                if episodes.in_turn:  # of several processes at the same time, a phase says nothing about one
                    participants.track("rollouts" if planned.is_scored else "further episodes")

                # What is recorded of each step.
                trace = StepTrace() if planned.is_scored else None
                participant.on_observation = None if trace is None else trace.see
                actions = ActionRecorder(variant.action_space) if episodes.settings.studies_reliability else None
                pictures = episodes.kept.get(planned.index)
                first = account.calls()
                try:
                    with stall_limit(episodes.settings.stall_s, account.calls):
                        episode = rollout(
                            variant,
                            participant,
                            index=planned.index,
                            seed=planned.seed,
                            account=account,
                            trace=trace,
                            on_step=[record for record in (actions, pictures) if record is not None],
                        )
                except ParticipantFailure as failure:
                    length = account.calls() - first
                    episode = with_invalid_action(failure, planned, participant.ending is not None, length)
                if pictures is not None:
                    pictures.state(variant)
                fault_point("evaluator: episode played")

                # What is recorded of the episode.
                steps = account.steps(first)
                episode.task_index, episode.repeat = planned.task_index, planned.repeat
                episode.perturbation, episode.confidence = planned.perturbation, participant.confidence()
                if actions is not None:
                    episode.actions, episode.policy_cpu_s = actions.record(), sum(steps["cpu_ns"]) * 1e-9
                if trace is None:
                    episodes.add_further(episode)
                else:
                    account.mark()
                    episodes.add_scored(episode, {**steps, **trace.record()})
                    if episodes.in_turn and episodes.transport is None:
                        participants.track("transport")
                        episodes.transport = empty_calls(participant, trace.observation, trace.action)
                fault_point("evaluator: episode recorded")
        finally:
            episodes.add_costs(account)


def with_invalid_action(failure: ParticipantFailure, planned: PlannedEpisode, has_ended: bool, length: int) -> Episode:
    """Returns the record of a perturbed episode that ended with an invalid action; raises any other failure.

    The policy may rely on what the perturbation changes: the episode fails, not the run.
    """
    invalid = failure.failure.kind in (FailureKind.BAD_OUTPUT, FailureKind.ILLEGAL)
    is_action = invalid and failure.failure.where.startswith("infer_once")
    if not planned.perturbation or has_ended or not is_action:
        raise failure
    return Episode(
        index=planned.index,
        seed=planned.seed,
        episode_return=0.0,
        length=length,
        terminated=True,
        truncated=False,
        termination="invalid action",
        success=False,
    )


def play_concurrently(episodes: TaskEpisodes, participants: Participants) -> None:
    """Plays the episodes in several threads, each with its own environment and its own participant processes.

    Raises:
        Exception: that of the first episode, in the order of the plan, that failed.
    """
    participants.end_process()
    count = min(episodes.settings.concurrent_episodes, len(episodes))
    if not count:
        return
    opening = threading.Lock()
    # The threads live until the last participant has ended: the kernel's parent-death signal, which ends a
    # participant with its evaluator, is sent at the end of the thread that started the process.
    with ThreadPoolExecutor(count, thread_name_prefix="a2perf-episodes") as threads:
        running = [threads.submit(_play_in_thread, episodes, participants, opening) for _ in range(count)]
        try:
            wait(running)
        except BaseException:  # an interrupt
            episodes.stop()
            raise
    if episodes.error is not None:
        raise episodes.error


def _play_in_thread(episodes: TaskEpisodes, participants: Participants, opening: threading.Lock) -> None:
    beside: Participants | None = None
    try:
        with ExitStack() as opened:
            with opening:  # gin's configuration and the socket to the relay are not made for several threads
                env = opened.enter_context(environment(episodes.task))
                beside = opened.enter_context(participants.beside())
            play(episodes, env, beside)
    except BaseException as error:
        episodes.failed(beside, error)


@contextmanager
def environment(task: RunTask) -> Iterator[Any]:
    """Opens the environment of a task. An exception while it closes is printed: the episodes are recorded by then.

    If the environment has a method ``reuse_observations``, its steps may rewrite the observation before.

    Raises:
        UserError: it cannot be created.
    """
    try:
        env = create_domain(env_name=task.env_id, framework="gymnasium", **task.env_kwargs)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise InfrastructureError(f"the environment {task.env_id} cannot be created: {error!r}") from error
    if callable(reuse := getattr(env.unwrapped, "reuse_observations", None)):
        reuse()  # an observation has been sent, and its hash made, before the next step
    try:
        yield env
    finally:
        try:
            env.close()
        except (Exception, SystemExit) as error:
            print(f"a2perf: the environment {task.env_id} failed in close: {error!r}", file=sys.stderr)


class Variants:
    """The environment of a task, and its perturbed variants, of which at most one is open."""

    def __init__(self, task: RunTask, env: Any) -> None:
        self._task, self._env = task, env
        self._perturbation, self._perturbed = "", env

    def under(self, perturbation: str) -> Any:
        """Returns the environment under a perturbation; ``""`` for none."""
        if not perturbation:
            return self._env
        if self._perturbation != perturbation:
            self.close()
            self._perturbed = make_perturbed(self._task.env_id, self._task.env_kwargs, perturbation)
            self._perturbation = perturbation
        return self._perturbed

    def close(self) -> None:
        """Closes the open variant."""
        if self._perturbation:
            self._perturbed.close()
        self._perturbation, self._perturbed = "", self._env
