"""The smallest submission: a random action for every observation, on any environment; valid if there is a mask."""

from __future__ import annotations

import os

import numpy as np


def load_policy(env, **load_kwargs):
    """Returns the action space, seeded, as the policy."""
    env.action_space.seed(int(os.environ.get("SEED", "0")))
    return env.action_space


def preprocess_observation(observation):
    """Nothing to change."""
    return observation


def infer_once(policy, observation):
    """Draws an action."""
    if isinstance(observation, dict) and "mask" in observation:
        return policy.sample(np.asarray(observation["mask"]).astype(np.int8))
    return policy.sample()
