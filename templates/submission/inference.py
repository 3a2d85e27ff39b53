"""What a2perf calls to evaluate the submission; the three functions below are the whole contract."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np


class LinearPolicy:
    """Actions as a linear map of the observation."""

    def __init__(self, weights, low, high):
        self.weights, self.low, self.high = weights, low, high

    def act(self, observation):
        return np.clip(self.weights @ observation, self.low, self.high).astype(np.float32)


def load_policy(env, **load_kwargs):
    """Loads the trained policy. `ROOT_DIR` is what training left in `A2PERF_ARTIFACTS`, read-only.

    `env` is an environment of the same task, for its spaces; what happens in it counts for nothing.
    """
    weights = np.load(Path(os.environ["ROOT_DIR"]) / "weights.npy", allow_pickle=False)
    return LinearPolicy(weights, env.action_space.low, env.action_space.high)


def preprocess_observation(observation):
    """Turns an observation into what the policy takes; timed apart from `infer_once`."""
    return np.ravel(observation)


def infer_once(policy, observation):
    """Returns the action for one preprocessed observation; this call is timed."""
    return policy.act(observation)
