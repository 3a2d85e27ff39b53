"""A scripted solver of websites: fills what the labels name, from the observation alone."""

from __future__ import annotations

from reader import Reader


def load_policy(env, **load_kwargs):
    """Returns the solver; it needs nothing of the environment."""
    return Reader()


def preprocess_observation(observation):
    """Nothing to change."""
    return observation


def infer_once(policy, observation):
    """Returns the next action."""
    return policy.choose(observation)
