"""Distributed collection: one learner and N actor processes, with ``ParallelPyEnvironment`` of TF-Agents.

Each request sends the policy to the actors as a picklable NumPy function, and the actors execute it. A request covers
hundreds of environment steps, which makes the communication cheap. A single actor runs in the learner's process.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from a2perf.errors import ConfigError
from a2perf_baselines.learning.tf_agents.frameworks import tf

from a2perf.domains.tfa.py_environment import GymnasiumEnvironment  # isort: skip  needs TensorFlow
from tf_agents.environments import parallel_py_environment  # isort: skip
from tf_agents.system import multiprocessing  # isort: skip
from tf_agents.system.default import multiprocessing_core  # isort: skip
from tf_agents.trajectories import trajectory  # isort: skip

FIRST, MID, LAST = 0, 1, 2
_PR_SET_PDEATHSIG = 1
_COLUMNS = ("step_type", "observation", "action", "extras", "next_step_type", "reward", "discount")
_ENDS = ("last_observation", "last_step_type")
MakeEnv = Callable[[], gymnasium.Env[Any, Any]]


class ActorPolicy(Protocol):
    """A policy for actors: a picklable object without TensorFlow."""

    def __call__(self, observations: Any, rng: np.random.Generator) -> tuple[Any, Mapping[str, Any]]:
        """Returns the actions for a batch of observations, and further arrays for the learner."""


@dataclass(frozen=True)
class Rollout:
    """Collected data as a stream of TF-Agents' transitions; arrays of shape (steps, members of all actors, ...).

    A row with ``step_type`` ``LAST`` is the boundary between two episodes: it is not a step, its reward is 0, and its
    observation is the last one of the episode before. The row after it starts the next episode.

    Attributes:
        step_type: int32; ``FIRST``, ``MID`` or ``LAST``.
        observation: a nest with the structure of the observation space.
        next_step_type: int32; ``LAST`` if the episode ended with this step.
        reward: float32.
        discount: float32; 0 if the episode terminated, otherwise 1, including truncation.
        last_observation: the observation after the last row, shape (members, ...).
        last_step_type: its step type, int32, shape (members,).
        episode_returns: returns of the episodes that ended in these rows.
    """

    step_type: NDArray[np.int32]
    observation: Any
    action: Any
    extras: dict[str, Any]
    next_step_type: NDArray[np.int32]
    reward: NDArray[np.float32]
    discount: NDArray[np.float32]
    last_observation: Any
    last_step_type: NDArray[np.int32]
    episode_returns: list[float]

    @property
    def env_steps(self) -> int:
        """Number of environment steps."""
        return int(np.count_nonzero(self.step_type != LAST))

    def first_returns(self) -> NDArray[np.float64]:
        """Returns the return of each member's first episode so far: short episodes do not count more than long ones."""
        ended = np.cumsum(self.step_type == LAST, axis=0) > 0
        returns: NDArray[np.float64] = np.where(ended, 0.0, self.reward).sum(axis=0, dtype=np.float64)
        return returns

    def trajectory(self, policy_info: Any = ()) -> Any:
        """Returns the data as a ``Trajectory`` of TF-Agents with tensors of shape (members, steps, ...).

        Args:
            policy_info: a nest of arrays of shape (steps, members, ...), usually from ``extras``.
        """
        parts: tuple[Any, ...] = (self.step_type, self.observation, self.action, policy_info)
        parts = (*parts, self.next_step_type, self.reward, self.discount)
        turned = tf.nest.map_structure(lambda array: tf.constant(np.ascontiguousarray(np.swapaxes(array, 0, 1))), parts)
        return trajectory.Trajectory(*turned)


class Actor(GymnasiumEnvironment):
    """Steps one or more environments of one kind with a given policy.

    TF-Agents sees only the first one and takes the specs from it.

    Args:
        members: number of environments; one batch of observations has one of each.
        number: index of this actor.
        parent: id of the process with which it ends; None if it runs in that process.
    """

    def __init__(self, make_env: MakeEnv, members: int, number: int, parent: int | None = None) -> None:
        if parent is not None and parent != os.getpid():
            _end_with(parent)
        self._members = [make_env() for _ in range(members)]
        super().__init__(self._members[0])
        self._number = number
        self._rng = np.random.default_rng(0)
        self._observations: list[Any] = []
        self._types = np.full(members, FIRST, np.int32)
        self._returns = np.zeros(members)

    def restart(self, entropy: Sequence[int]) -> None:
        """Starts an episode in every environment and seeds all generators, differently for each member and actor."""
        seeds = np.random.SeedSequence([*entropy, self._number]).generate_state(len(self._members) + 1)
        self._rng = np.random.default_rng(int(seeds[-1]))
        self._observations = [
            env.reset(seed=int(seed >> 1))[0] for env, seed in zip(self._members, seeds, strict=False)
        ]
        self._types[:] = FIRST
        self._returns[:] = 0.0

    def collect(self, policy: ActorPolicy, steps: int) -> Rollout:
        """Steps for a number of rows; see ``Rollout``."""
        rows: list[tuple[Any, ...]] = []
        finished: list[float] = []
        for _ in range(steps):
            observations = _stacked(self._observations)
            actions, extras = policy(observations, self._rng)
            types, rewards = self._types.copy(), np.zeros(len(self._members), np.float32)
            discounts = np.ones(len(self._members), np.float32)
            for index, env in enumerate(self._members):
                if types[index] == LAST:
                    self._observations[index], _ = env.reset()
                    self._types[index], self._returns[index] = FIRST, 0.0
                    continue
                action = _member(actions, index)
                self._observations[index], reward, terminated, truncated, _ = env.step(action)
                rewards[index] = reward
                self._returns[index] += float(reward)
                discounts[index] = 0.0 if terminated else 1.0
                self._types[index] = LAST if terminated or truncated else MID
                if terminated or truncated:
                    finished.append(float(self._returns[index]))
            rows.append((types, observations, actions, dict(extras), self._types.copy(), rewards, discounts))
        columns = [_stacked(column) for column in zip(*rows, strict=True)]
        ends = (_stacked(self._observations), self._types.copy())
        return Rollout(**dict(zip(_COLUMNS + _ENDS, [*columns, *ends], strict=True)), episode_returns=finished)

    def evaluate(self, policy: ActorPolicy, steps: int) -> NDArray[np.float64]:
        """Returns the return of each environment's current episode, from now to its end or for ``steps``."""
        returns = np.zeros(len(self._members))
        going = self._types != LAST
        for _ in range(steps):
            actions, _ = policy(_stacked(self._observations), self._rng)
            for index in np.flatnonzero(going):
                outcome = self._members[index].step(_member(actions, int(index)))
                self._observations[index], reward, terminated, truncated, _ = outcome
                returns[index] += float(reward)
                going[index] = not (terminated or truncated)
            if not going.any():
                break
        return returns

    def close(self) -> None:
        """Closes every environment."""
        for env in self._members:
            env.close()


class Actors:
    """N actors; one runs in this process, several in separate processes. A context manager.

    Args:
        make_env: creates one Gymnasium environment; it may be a lambda.

    Raises:
        ConfigError: ``count`` or ``members`` is not positive.
    """

    def __init__(self, make_env: MakeEnv, count: int, seed: int, *, members: int = 1) -> None:
        for name, value in (("actors", count), ("members", members)):
            if value < 1:
                raise ConfigError(f"{name} is {value}", hint="give at least 1")
        self.count, self.members, self.seed = count, members, seed
        self._parallel: Any = None
        if count == 1:
            self._local = Actor(make_env, members, 0)
        else:
            if not multiprocessing_core.initialized():
                multiprocessing.enable_interactive_mode()  # the main module is a2perf's and not the participant's
            makers = [functools.partial(Actor, make_env, members, number, os.getpid()) for number in range(count)]
            self._parallel = parallel_py_environment.ParallelPyEnvironment(makers)
        self.restart(0)

    @property
    def batch_size(self) -> int:
        """Environments of all actors together."""
        return self.count * self.members

    def restart(self, moment: int) -> None:
        """Starts new episodes in all environments, seeded by the run's seed and a step of the training.

        A run that does this at each checkpoint continues after a resume exactly like an uninterrupted one.
        """
        self._ask("restart", [self.seed, moment])

    def collect(self, policy: ActorPolicy, steps: int) -> Rollout:
        """Lets all actors step for a number of rows at the same time.

        Returns:
            The rows of all actors, the members of the first actor first.
        """
        parts: list[Rollout] = self._ask("collect", policy, steps)
        if len(parts) == 1:
            return parts[0]
        joined = {name: _joined([getattr(part, name) for part in parts], axis=1) for name in _COLUMNS}
        joined |= {name: _joined([getattr(part, name) for part in parts], axis=0) for name in _ENDS}
        return Rollout(**joined, episode_returns=[value for part in parts for value in part.episode_returns])

    def evaluate(self, policy: ActorPolicy, moment: int, steps: int = 1_000_000) -> NDArray[np.float64]:
        """Runs one episode in every environment, seeded like ``restart``.

        Call ``restart`` before the next ``collect``.

        Args:
            moment: step of the training; the same one gives the same episodes.

        Returns:
            The returns, shape (members of all actors,).
        """
        self.restart(moment)
        return np.concatenate(self._ask("evaluate", policy, steps))

    def _ask(self, what: str, *arguments: Any) -> list[Any]:
        if self._parallel is None:
            return [getattr(self._local, what)(*arguments)]
        promises = [env.call(what, *arguments) for env in self._parallel.envs]
        return [promise() for promise in promises]

    def close(self) -> None:
        """Ends the processes."""
        (self._parallel or self._local).close()

    def __enter__(self) -> Actors:
        """Returns the actors."""
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the processes."""
        self.close()


def _end_with(parent: int) -> None:
    """Lets the kernel end this process with its parent: otherwise actors of TF-Agents outlive a killed learner."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the setting was made
            os._exit(1)


def _stacked(items: Sequence[Any]) -> Any:
    return _together(lambda arrays: np.stack([np.asarray(array) for array in arrays]), items)


def _joined(items: Sequence[Any], axis: int) -> Any:
    return _together(lambda arrays: np.concatenate(arrays, axis=axis), items)


def _member(nest: Any, index: int) -> Any:
    return _together(lambda arrays: arrays[0][index], [nest])


def _together(function: Callable[[Sequence[Any]], Any], items: Sequence[Any]) -> Any:
    """Applies a function to what is at the same place of mappings and tuples."""
    if isinstance(items[0], Mapping):
        return {key: _together(function, [item[key] for item in items]) for key in items[0]}
    if isinstance(items[0], tuple):
        return tuple(_together(function, parts) for parts in zip(*items, strict=True))
    return function(items)
