"""A scripted solver of websites that reads text: the instruction and the page, nothing else."""

from __future__ import annotations

import reading


def load_policy(env, **load_kwargs):
    """Returns the function that chooses; it needs nothing of the environment."""
    return reading.choose


def preprocess_observation(observation):
    """Nothing to change."""
    return observation


def infer_once(policy, observation):
    """Returns the next action, a text."""
    return policy(observation)
