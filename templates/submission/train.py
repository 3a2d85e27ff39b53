"""Trains a linear policy by a small random search; replace it with your own method.

Write whatever inference needs into the folder `A2PERF_ARTIFACTS`. The environment also holds `A2PERF_ENV_ID` and
`A2PERF_ENV_KWARGS` (the task), and `SEED`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import gymnasium
import numpy as np


def train(episodes: str = "20", **participant_args: str) -> None:
    """Keeps the best of many perturbed policies.

    Args:
        episodes: how many candidates to try. Arguments of `--participant-args` are always strings.
        **participant_args: accepted and ignored.
    """
    rng = np.random.default_rng(int(os.environ["SEED"]))
    env = gymnasium.make(os.environ["A2PERF_ENV_ID"], **json.loads(os.environ["A2PERF_ENV_KWARGS"]))
    shape = (int(np.prod(env.action_space.shape)), int(np.prod(env.observation_space.shape)))
    weights, best = np.zeros(shape), -np.inf
    for episode in range(int(episodes)):
        candidate = weights + 0.02 * rng.standard_normal(shape) if episode else weights
        total = _episode_return(env, candidate, seed=int(rng.integers(2**31)))
        if total > best:
            weights, best = candidate, total
            print(f"episode {episode}: return {best:.2f}", flush=True)
    env.close()
    np.save(Path(os.environ["A2PERF_ARTIFACTS"]) / "weights.npy", weights)


def _episode_return(env: gymnasium.Env, weights: np.ndarray, seed: int) -> float:
    observation, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        action = np.clip(weights @ np.ravel(observation), env.action_space.low, env.action_space.high)
        observation, reward, terminated, truncated, _ = env.step(action.astype(np.float32))
        total, over = total + float(reward), terminated or truncated
    return total
