"""The three functions that a2perf calls to evaluate this submission."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from policy import Policy


def load_policy(env, **participant_args):
    """Loads the trained policy from `ROOT_DIR`, which holds what training wrote to `A2PERF_ARTIFACTS` (read-only).

    Args:
        env: an environment of the same task, to read its spaces; steps in it are not scored.
        **participant_args: arguments of `--participant_args`, as strings.
    """
    policy = Policy(env)
    policy.weights = np.load(Path(os.environ["ROOT_DIR"]) / "weights.npy", allow_pickle=False)
    return policy


def preprocess_observation(observation):
    """Converts an observation to the input of the policy; timed separately from `infer_once`."""
    return observation


def infer_once(policy, observation):
    """Returns the action for one preprocessed observation; this call is timed."""
    return policy.act(observation)
