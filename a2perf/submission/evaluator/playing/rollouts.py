"""Rollouts: the evaluator steps the environment, the participant only maps observations to actions.

``rollout`` is the loop of an episode; ``batch`` plays several together. What both do in each step, and the record of
the episode, is in ``PlayedEpisode``.

Rewards, terminations and times are recorded here, in the evaluator. Nothing here depends on the domain.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from a2perf.errors import IllegalAnswer, SubmissionError
from a2perf.records import Episode, FailureKind
from a2perf.submission.evaluator.playing.actions import ActionChecker
from a2perf.submission.evaluator.playing.step_account import StepAccount
from a2perf.submission.evaluator.playing.step_trace import StepTrace
from a2perf.submission.evaluator.process.failures import EnvironmentFailure, ParticipantFailure

_MAX_INFO_ITEMS = 16
_NO_TERMS: dict[str, float] = {}


class Policy(Protocol):
    """Maps an observation to an action; a participant process is one."""

    def infer(self, observation: Any) -> Any:
        """Returns a record with the attribute ``action``."""


def rollout(
    env: Any,
    policy: Policy,
    *,
    index: int,
    seed: int,
    account: StepAccount | None = None,
    trace: StepTrace | None = None,
    on_step: Sequence[Callable[[Any, Any, Any], None]] = (),
) -> Episode:
    """Plays one episode.

    Args:
        account: measures what each call of the policy costs.
        trace: gets actions and rewards; a participant process gives it the observations, see its ``on_observation``.
        on_step: called with environment, observation and checked action before each step of the environment.

    Raises:
        ParticipantFailure: the participant failed, or its action is not valid in the action space or in this state.
        EnvironmentFailure: the environment raised an exception, or a reward is not finite.
    """
    episode = PlayedEpisode(index=index, seed=seed, trace=trace)
    observation = episode.reset(env)
    while not episode.is_over:
        if account is not None:
            account.before_call()
        answer = policy.infer(observation)
        if account is not None:
            account.after_call(answer)
        action = episode.checked(answer.action)
        for observe in on_step:
            observe(env, observation, action)
        observation = episode.step(env, action)
    return episode.record()


class PlayedEpisode:
    """An episode while it is played: checks answers, adds up rewards, and becomes the record.

    Attributes:
        is_over: whether the environment has ended it.
    """

    def __init__(self, *, index: int, seed: int, trace: StepTrace | None = None) -> None:
        self.is_over = False
        self._index, self._seed, self._trace = index, seed, trace
        self._started = time.perf_counter()
        self._return, self._length = 0.0, 0
        self._terms: dict[str, float] = {}

    def reset(self, env: Any) -> Any:
        """Starts it in an environment and returns the first observation.

        Raises:
            EnvironmentFailure: the environment raised an exception.
        """
        try:
            observation, _ = env.reset(seed=self._seed)
            self.begin(env.action_space)
        except BaseException as error:
            raise self.failure("reset", error)  # noqa: B904 -- it has its cause
        return observation

    def begin(self, action_space: Any) -> None:
        """Starts it after a reset by the caller."""
        self.action_space, self._check = action_space, ActionChecker(action_space)

    def checked(self, answer: Any) -> Any:
        """Returns the action to step with, and adds it to the trace.

        Raises:
            ParticipantFailure: the answer is not valid in the action space.
        """
        action = self._check(answer)
        if self._trace is not None:
            self._trace.act(action)
        return action

    def step(self, env: Any, action: Any) -> Any:
        """Steps an environment and returns the observation.

        Raises:
            ParticipantFailure: the action is not valid in this state.
            EnvironmentFailure: the environment raised an exception.
        """
        try:
            observation, reward, terminated, truncated, info = env.step(action)
            self.add(reward, terminated, truncated, info)
        except SubmissionError as error:  # the action is in the space, but not allowed in this state
            kind = FailureKind.ILLEGAL if isinstance(error, IllegalAnswer) else FailureKind.BAD_OUTPUT
            raise ParticipantFailure.of(kind, "infer_once", error.message) from error
        except BaseException as error:
            raise self.failure(f"step {self._length + 1}", error)  # noqa: B904 -- it has its cause
        return observation

    def add(self, reward: Any, terminated: Any, truncated: Any, info: Any) -> None:
        """Adds what a step returned beside the observation.

        Raises:
            TypeError: ``info`` is not a dict, or a reward is not a number.
        """
        if type(info) is not dict and not isinstance(info, Mapping):
            raise TypeError(f"info is {info!r}, not a dict")
        paid = float(reward)
        self._return += paid
        for name, value in info.get("reward_terms", _NO_TERMS).items():
            self._terms[name] = self._terms.get(name, 0.0) + float(value)
        if self._trace is not None:
            self._trace.reward(paid)
        self._length += 1
        if terminated or truncated:
            self.is_over = True
            self._end = bool(terminated), bool(truncated), info

    def record(self) -> Episode:
        """Returns the record of the ended episode.

        Raises:
            EnvironmentFailure: the sum of the rewards is not finite.
        """
        if not math.isfinite(self._return):
            raise self.failure(f"step {self._length}", ValueError(f"the sum of the rewards is {self._return}"))
        terminated, truncated, info = self._end
        success = info.get("is_success", info.get("success"))
        termination = info.get("termination")
        return Episode(
            index=self._index,
            seed=self._seed,
            episode_return=self._return,
            length=self._length,
            terminated=terminated,
            truncated=truncated,
            termination=None if termination is None else str(termination),
            clipped_actions=self._check.clipped,
            wall_s=time.perf_counter() - self._started,
            reward_terms={name: value / self._length for name, value in self._terms.items()},
            success=None if success is None else bool(success),
            final_info=_small_items(info),
        )

    def failure(self, where: str, error: BaseException) -> BaseException:
        """Returns the failure for an exception of its environment."""
        return EnvironmentFailure.of(where, self._seed, error)


def _small_items(info: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the scalars and short vectors of an ``info``; a record does not need the rest."""
    kept: dict[str, Any] = {}
    for name, value in info.items():
        if isinstance(value, np.generic):  # first: numpy.float64 is a float too
            kept[name] = value.item()
        elif isinstance(value, bool | int | float | str) or value is None:
            kept[name] = value
        elif isinstance(value, np.ndarray | list | tuple):
            array = np.asarray(value)
            if array.size <= _MAX_INFO_ITEMS and array.dtype.kind in "biuf":
                kept[name] = array.tolist()
    return kept
