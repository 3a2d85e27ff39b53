"""Rollouts: the evaluator steps the environment, the participant only maps observations to actions.

``episode_steps`` is the loop of an episode. ``rollout`` answers its observations one at a time, ``batch`` those of
several episodes together.

Rewards, terminations and times are recorded here, in the evaluator. Nothing here depends on the domain.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from a2perf.errors import IllegalAnswer, SubmissionError
from a2perf.records import Episode, FailureKind
from a2perf.submission.evaluator.playing.actions import ActionChecker
from a2perf.submission.evaluator.playing.step_account import StepAccount
from a2perf.submission.evaluator.playing.step_trace import StepTrace
from a2perf.submission.evaluator.process.failures import EnvironmentFailure, ParticipantFailure

_MAX_INFO_ITEMS = 16


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
    episode = episode_steps(env, index=index, seed=seed, trace=trace, on_step=on_step)
    observation = next(episode)
    while True:
        if account is not None:
            account.before_call()
        answer = policy.infer(observation)
        if account is not None:
            account.after_call(answer)
        try:
            observation = episode.send(answer.action)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def episode_steps(
    env: Any,
    *,
    index: int,
    seed: int,
    trace: StepTrace | None = None,
    on_step: Sequence[Callable[[Any, Any, Any], None]] = (),
) -> Generator[Any, Any, Episode]:
    """Yields the observations of one episode, takes the unchecked action for each, and returns the record.

    Args and Raises: see ``rollout``.
    """
    started = time.perf_counter()
    try:
        observation, info = env.reset(seed=seed)
        checked = ActionChecker(env.action_space)
    except BaseException as error:
        raise EnvironmentFailure.of("reset", seed, error)  # noqa: B904 -- it has its cause
    total, length, terminated, truncated = 0.0, 0, False, False
    terms: dict[str, float] = {}
    while not (terminated or truncated):
        answer = yield observation
        action = checked(answer)
        for observe in on_step:
            observe(env, observation, action)
        if trace is not None:
            trace.act(action)
        try:
            observation, reward, terminated, truncated, info = env.step(action)
            if not isinstance(info, Mapping):
                raise TypeError(f"info is {info!r}, not a dict")
            total += float(reward)
            for name, value in info.get("reward_terms", {}).items():
                terms[name] = terms.get(name, 0.0) + float(value)
        except SubmissionError as error:  # the action is in the space, but not allowed in this state
            kind = FailureKind.ILLEGAL if isinstance(error, IllegalAnswer) else FailureKind.BAD_OUTPUT
            raise ParticipantFailure.of(kind, "infer_once", error.message) from error
        except BaseException as error:
            raise EnvironmentFailure.of(f"step {length + 1}", seed, error)  # noqa: B904 -- it has its cause
        if trace is not None:
            trace.reward(float(reward))
        length += 1
    if not math.isfinite(total):
        raise EnvironmentFailure.of(f"step {length}", seed, ValueError(f"the sum of the rewards is {total}"))
    success = info.get("is_success", info.get("success"))
    termination = info.get("termination")
    return Episode(
        index=index,
        seed=seed,
        episode_return=total,
        length=length,
        terminated=bool(terminated),
        truncated=bool(truncated),
        termination=None if termination is None else str(termination),
        clipped_actions=checked.clipped,
        wall_s=time.perf_counter() - started,
        reward_terms={name: value / length for name, value in terms.items()},
        success=None if success is None else bool(success),
        final_info=_small_items(info),
    )


def _small_items(info: dict[str, Any]) -> dict[str, Any]:
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
