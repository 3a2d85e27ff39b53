"""The three functions that a2perf calls to evaluate this submission."""

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
    """Loads the trained policy from `ROOT_DIR`, which holds what training wrote to `A2PERF_ARTIFACTS` (read-only).

    Args:
        env: an environment of the same task, to read its spaces; steps in it are not scored.
        **load_kwargs: arguments of `--participant-args`, as strings.
    """
    weights = np.load(Path(os.environ["ROOT_DIR"]) / "weights.npy", allow_pickle=False)
    return LinearPolicy(weights, env.action_space.low, env.action_space.high)


def preprocess_observation(observation):
    """Converts an observation to the input of the policy; timed separately from `infer_once`."""
    return np.ravel(observation)


def infer_once(policy, observation):
    """Returns the action for one preprocessed observation; this call is timed."""
    return policy.act(observation)
