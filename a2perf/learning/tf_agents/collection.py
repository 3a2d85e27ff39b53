"""Distributed collection: one learner and N actor processes, through TF-Agents' own ``ParallelPyEnvironment``.

The policy goes to the actors as a picklable NumPy function, once per request, and runs there: a request is hundreds of
environment steps, so that the way between the processes costs next to nothing. One actor runs in the learner's process.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from a2perf.errors import ConfigError
from a2perf.learning.tf_agents.frameworks import tf

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
    """What acts in an actor: a picklable object without TensorFlow in it."""

    def __call__(self, observations: Any, rng: np.random.Generator) -> tuple[Any, Mapping[str, Any]]:
        """Returns the actions for a batch of observations, and further arrays that the learner wants to have."""


@dataclass(frozen=True)
class Rollout:
    """What actors saw, as a stream of TF-Agents' transitions; arrays of shape (steps, members of all actors, ...).

    A row whose ``step_type`` is ``LAST`` is the boundary between two episodes: nothing was stepped, its reward is 0,
    and its observation is the last one of the episode before. The row after it begins the next episode.

    Attributes:
        step_type: int32; ``FIRST``, ``MID`` or ``LAST``.
        observation: a nest as the observation space is.
        action: what the policy chose.
        extras: the policy's further arrays.
        next_step_type: int32; ``LAST`` where the episode ended with this step.
        reward: float32.
        discount: float32; 0 where the episode terminated, else 1, also where it was truncated.
        last_observation: the observation after the last row, shape (members, ...).
        last_step_type: its step type, int32, shape (members,).
        episode_returns: of the episodes that ended in these rows.
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
        """Environment steps that it took."""
        return int(np.count_nonzero(self.step_type != LAST))

    def first_returns(self) -> NDArray[np.float64]:
        """Returns the return of each member's first episode, as far as it went; short episodes do not weigh more."""
        ended = np.cumsum(self.step_type == LAST, axis=0) > 0
        returns: NDArray[np.float64] = np.where(ended, 0.0, self.reward).sum(axis=0, dtype=np.float64)
        return returns

    def trajectory(self, policy_info: Any = ()) -> Any:
        """Returns it as TF-Agents' ``Trajectory``, tensors of shape (members, steps, ...).

        Args:
            policy_info: a nest of arrays of shape (steps, members, ...), usually made of ``extras``.
        """
        parts: tuple[Any, ...] = (self.step_type, self.observation, self.action, policy_info)
        parts = (*parts, self.next_step_type, self.reward, self.discount)
        turned = tf.nest.map_structure(lambda array: tf.constant(np.ascontiguousarray(np.swapaxes(array, 0, 1))), parts)
        return trajectory.Trajectory(*turned)


class Actor(GymnasiumEnvironment):
    """Steps one or more environments of a kind with a policy that it is given.

    To TF-Agents it is the first of them, which is where the specs come from.

    Args:
        make_env: makes one environment.
        members: number of environments; one batch of observations has one of each.
        number: of this actor among all.
        parent: id of the process with which it ends; None where it runs in that process itself.
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
        """Starts an episode in every environment and seeds all that is random, members of all actors differently."""
        seeds = np.random.SeedSequence([*entropy, self._number]).generate_state(len(self._members) + 1)
        self._rng = np.random.default_rng(int(seeds[-1]))
        self._observations = [
            env.reset(seed=int(seed >> 1))[0] for env, seed in zip(self._members, seeds, strict=False)
        ]
        self._types[:] = FIRST
        self._returns[:] = 0.0

    def collect(self, policy: ActorPolicy, steps: int) -> Rollout:
        """Acts for a number of rows; see ``Rollout``."""
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
        """Returns the return of the episode that each environment is in, from here to its end or for ``steps``."""
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
    """N actors; one runs in this process, several in processes of their own. A context.

    Args:
        make_env: makes one environment, a Gymnasium one; it may be a lambda.
        count: number of actors.
        seed: of everything random in them.
        members: environments in each actor.

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
                multiprocessing.enable_interactive_mode()  # a participant's main program is not its own
            makers = [functools.partial(Actor, make_env, members, number, os.getpid()) for number in range(count)]
            self._parallel = parallel_py_environment.ParallelPyEnvironment(makers)
        self.restart(0)

    @property
    def batch_size(self) -> int:
        """Environments of all actors together."""
        return self.count * self.members

    def restart(self, moment: int) -> None:
        """Starts new episodes everywhere, seeded by the run's seed and a moment of the training.

        A run that does so at each of its checkpoints continues after a resume exactly as it would have without.
        """
        self._ask("restart", [self.seed, moment])

    def collect(self, policy: ActorPolicy, steps: int) -> Rollout:
        """Has every actor act for a number of rows at the same time.

        Returns:
            The rows of all, the members of the first actor first.
        """
        parts: list[Rollout] = self._ask("collect", policy, steps)
        if len(parts) == 1:
            return parts[0]
        joined = {name: _joined([getattr(part, name) for part in parts], axis=1) for name in _COLUMNS}
        joined |= {name: _joined([getattr(part, name) for part in parts], axis=0) for name in _ENDS}
        return Rollout(**joined, episode_returns=[value for part in parts for value in part.episode_returns])

    def evaluate(self, policy: ActorPolicy, moment: int, steps: int = 1_000_000) -> NDArray[np.float64]:
        """Runs one episode in every environment, those of a moment of the training; see ``restart``.

        Call ``restart`` before the next ``collect``.

        Args:
            policy: what acts.
            moment: the same one has the same episodes.
            steps: after which an episode is looked at no further.

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the processes."""
        self.close()


def throughput(make_env: MakeEnv, policy: ActorPolicy, count: int, *, members: int = 1, seconds: float = 5.0) -> float:
    """Returns the environment steps a second of N actors, after a warm-up, over at least ``seconds``."""
    with Actors(make_env, count, 0, members=members) as actors:
        actors.collect(policy, 8)
        steps, started = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - started) < seconds:
            steps += actors.collect(policy, 64).env_steps
        return steps / elapsed


def _end_with(parent: int) -> None:
    """Has the kernel end this process with its parent: TF-Agents' own actors outlive a learner that is killed."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended before
            os._exit(1)


def _stacked(items: Sequence[Any]) -> Any:
    if isinstance(items[0], Mapping):
        return {key: _stacked([item[key] for item in items]) for key in items[0]}
    if isinstance(items[0], tuple):
        return tuple(_stacked(parts) for parts in zip(*items, strict=True))
    return np.stack([np.asarray(item) for item in items])


def _joined(items: Sequence[Any], axis: int) -> Any:
    if isinstance(items[0], Mapping):
        return {key: _joined([item[key] for item in items], axis) for key in items[0]}
    if isinstance(items[0], tuple):
        return tuple(_joined(parts, axis) for parts in zip(*items, strict=True))
    return np.concatenate(items, axis=axis)


def _member(nest: Any, index: int) -> Any:
    if isinstance(nest, Mapping):
        return {key: _member(value, index) for key, value in nest.items()}
    if isinstance(nest, tuple):
        return tuple(_member(value, index) for value in nest)
    return nest[index]
