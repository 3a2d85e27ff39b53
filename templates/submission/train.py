"""Trains a linear policy by a small random search; replace it with your own method.

Write everything that inference needs to the folder `A2PERF_ARTIFACTS`, and seed random numbers with `SEED`.
`create_domain` makes the environment of the task, which `A2PERF_ENV_ID` and `A2PERF_ENV_KWARGS` describe.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from a2perf.domains.tfa.suite_gym import create_domain


def train(episodes: str = "20", steps: str = "100", **participant_args: str) -> None:
    """Perturbs the weights at random and keeps the best ones.

    Args:
        episodes: number of candidates. Arguments of `--participant-args` are always strings.
        steps: length of a candidate's episode.
        **participant_args: accepted and ignored.
    """
    rng = np.random.default_rng(int(os.environ["SEED"]))
    env = create_domain()
    shape = (int(np.prod(env.action_space.shape)), int(np.prod(env.observation_space.shape)))
    weights, best = np.zeros(shape), -np.inf
    for episode in range(int(episodes)):
        candidate = weights + 0.02 * rng.standard_normal(shape) if episode else weights
        total = _episode_return(env, candidate, int(steps), seed=int(rng.integers(2**31)))
        if total > best:
            weights, best = candidate, total
            np.save(
                Path(os.environ["A2PERF_ARTIFACTS"]) / "weights.npy", weights
            )  # saved now: a time limit may end the run
            print(f"episode {episode}: return {best:.2f}", flush=True)
    env.close()


def _episode_return(env, weights, steps, seed):
    observation, _ = env.reset(seed=seed)
    total = 0.0
    for _ in range(steps):
        action = np.clip(weights @ np.ravel(observation), env.action_space.low, env.action_space.high)
        observation, reward, terminated, truncated, _ = env.step(action.astype(np.float32))
        total += float(reward)
        if terminated or truncated:
            break
    return total
