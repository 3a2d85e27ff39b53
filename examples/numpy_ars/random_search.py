"""Augmented random search (Mania, Guy and Recht 2018, "Simple random search of static linear policies").

Version 1 perturbs the weights of a linear policy in random directions, keeps the best directions and moves along them,
scaled by the deviation of their returns. Version 2 also normalises observations by their running mean and deviation.
Rollouts run in worker processes. Directions and episode seeds follow from (seed, iteration) alone, so the
result depends neither on the number of workers nor on a restart.
"""

from __future__ import annotations

import math
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from linear_policy import LinearPolicy, RunningMoments
from numpy.typing import NDArray

from a2perf.domains.tfa.suite_gym import create_domain


@dataclass(frozen=True)
class SearchSettings:
    """Parameters of the search.

    Attributes:
        directions: perturbations per iteration; each is tried in both signs.
        top: how many of the best directions make the step.
        step_size: length of the step.
        noise: standard deviation of a perturbation.
        horizon: most environment steps of a training rollout.
        version: 1 raw observations, 2 normalised ones.
        least_deviation: entries of the observation that vary less are normalised as if they varied so much.
        inputs: which entries of the observation the policy sees, ``"0:4+84:103"``; empty is all.
        diagonal: 1 lets each action see one input alone, its own; there have to be as many inputs as actions. The fewer
            weights there are, the fewer rollouts a random search needs.
    """

    directions: int = 4
    top: int = 4
    step_size: float = 0.02
    noise: float = 0.02
    horizon: int = 60
    version: int = 2
    least_deviation: float = 0.1
    inputs: str = ""
    diagonal: int = 0

    def input_indices(self, observations: int) -> NDArray[np.int64]:
        """Returns ``inputs`` as indices into an observation of that many entries."""
        if not self.inputs:
            return np.arange(observations)
        parts = (part.partition(":") for part in self.inputs.split("+"))
        return np.concatenate(
            [np.arange(int(first), int(end) if colon else int(first) + 1) for first, colon, end in parts]
        )


@dataclass(frozen=True)
class Rollout:
    """What one episode brought; ``moments`` are of its observations."""

    total_reward: float
    length: int
    moments: RunningMoments


_env: gymnasium.Env[NDArray[np.float32], NDArray[np.float32]] | None = None


def _make_env(env_id: str, env_kwargs: dict[str, Any]) -> None:
    """Gives a worker its own environment; called once in each."""
    global _env
    _env = create_domain(env_id, **env_kwargs)


def _rollout(policy: LinearPolicy, seed: int, horizon: int, deadline: float) -> Rollout | None:
    """Runs one episode of at most ``horizon`` steps; None when ``deadline`` (monotonic) passes before."""
    assert _env is not None
    moments = RunningMoments.empty(policy.mean.size)
    total, length, over = 0.0, 0, False
    observation, _ = _env.reset(seed=seed)
    while not over and length < horizon:
        state = np.asarray(observation, dtype=np.float64)
        moments.add(state[policy.inputs])
        observation, reward, terminated, truncated, _ = _env.step(policy.act(state))
        total += float(reward)
        length += 1
        over = terminated or truncated
        if time.monotonic() > deadline:
            return None
    return Rollout(total, length, moments)


class RandomSearch:
    """The search itself: its state is the weights, the moments of the observations, and two counters."""

    def __init__(
        self, env_id: str, env_kwargs: dict[str, Any], settings: SearchSettings, *, seed: int, workers: int
    ) -> None:
        self.settings = settings
        self.seed = seed
        with create_domain(env_id, **env_kwargs) as env:
            self._low = np.asarray(env.action_space.low, dtype=np.float32)
            self._high = np.asarray(env.action_space.high, dtype=np.float32)
            self._inputs = settings.input_indices(int(np.prod(env.observation_space.shape)))
        if settings.diagonal and self._inputs.size != self._low.size:
            raise ValueError(f"diagonal needs as many inputs as actions: {self._low.size}, not {self._inputs.size}")
        self._free = np.ones((self._low.size, self._inputs.size + 1))  # 1 where a weight may differ from 0
        if settings.diagonal:
            self._free[:, :-1] = np.eye(self._low.size)
        self.weights = np.zeros_like(self._free)
        self.moments = RunningMoments.empty(self._inputs.size)
        self.iteration = 0
        self.env_steps = 0
        self._pool = ProcessPoolExecutor(
            workers, multiprocessing.get_context("fork"), initializer=_make_env, initargs=(env_id, env_kwargs)
        )

    def policy(self, weights: NDArray[np.float64] | None = None) -> LinearPolicy:
        """Returns the current policy, or the one with other weights under the current normalisation."""
        normalised = self.settings.version == 2 and self.moments.count > 1
        mean = self.moments.mean if normalised else np.zeros_like(self.moments.mean)
        deviation = self.moments.deviation(self.settings.least_deviation) if normalised else np.ones_like(mean)
        chosen = self.weights if weights is None else weights
        return LinearPolicy(chosen, mean, deviation, self._inputs, self._low, self._high)

    def step(self, deadline: float = math.inf) -> NDArray[np.float64] | None:
        """Makes one iteration, or nothing at all when the monotonic clock passes ``deadline`` before its end.

        Returns:
            The returns of its rollouts, shape (directions, 2): with the perturbation added and subtracted; or None.
        """
        settings = self.settings
        if self.moments.count == 0 and not self._observe(deadline):
            return None
        deltas, jobs = [], []
        rng = np.random.default_rng([self.seed, self.iteration])
        episode = int(rng.integers(2**31))  # the same for all directions: returns differ by the weights only
        for _ in range(settings.directions):
            delta = rng.standard_normal(self.weights.shape) * self._free
            deltas.append(delta)
            for sign in (1, -1):
                policy = self.policy(self.weights + sign * settings.noise * delta)
                jobs.append(self._pool.submit(_rollout, policy, episode, settings.horizon, deadline))
        rollouts = [rollout for job in jobs if (rollout := job.result()) is not None]
        if len(rollouts) < len(jobs):
            return None
        returns = np.array([rollout.total_reward for rollout in rollouts]).reshape(-1, 2)
        best = np.argsort(-returns.max(axis=1), kind="stable")[: settings.top]
        deviation = returns[best].std()
        if deviation > 0:
            gradient = sum((returns[k, 0] - returns[k, 1]) * deltas[k] for k in best) / len(best)
            self.weights = self.weights + settings.step_size / deviation * gradient
        for rollout in rollouts:
            self.moments.merge(rollout.moments)
            self.env_steps += rollout.length
        self.iteration += 1
        return returns

    def _observe(self, deadline: float) -> bool:
        """Estimates the moments of observations with the current policy before the first update uses them."""
        jobs = [
            self._pool.submit(_rollout, self.policy(), seed, self.settings.horizon, deadline)
            for seed in range(self.settings.directions)
        ]
        for rollout in [job.result() for job in jobs]:
            if rollout is None:
                return False
            self.moments.merge(rollout.moments)
            self.env_steps += rollout.length
        return True

    def evaluate(self, episodes: int, deadline: float = math.inf) -> float | None:
        """Returns the current policy's mean return in episodes that are the same every time; None past ``deadline``.

        They are four times as long as those of the training.
        """
        seeds = np.random.default_rng([self.seed, 2**32 - 1]).integers(2**31, size=episodes)
        horizon = 4 * self.settings.horizon
        jobs = [self._pool.submit(_rollout, self.policy(), int(seed), horizon, deadline) for seed in seeds]
        results = [job.result() for job in jobs]
        rewards = [result.total_reward for result in results if result is not None]
        return float(np.mean(rewards)) if len(rewards) == episodes else None

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns all that a restart needs, as arrays."""
        counters = np.array([self.seed, self.iteration, self.env_steps], dtype=np.int64)
        return {
            "weights": self.weights,
            "mean": self.moments.mean,
            "squares": self.moments.squares,
            "count": np.array(self.moments.count),
            "counters": counters,
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Continues from what `state` returned.

        Raises:
            ValueError: it belongs to another seed or to an environment of other sizes.
        """
        seed, iteration, env_steps = (int(value) for value in state["counters"])
        if seed != self.seed or state["weights"].shape != self.weights.shape:
            raise ValueError("the checkpoint belongs to another seed or environment; choose another folder")
        self.weights = state["weights"]
        self.moments = RunningMoments(state["mean"], state["squares"], float(state["count"]))
        self.iteration, self.env_steps = iteration, env_steps

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
