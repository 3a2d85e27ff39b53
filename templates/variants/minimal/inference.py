"""The three functions that a2perf calls to evaluate this submission: here, a random policy."""

from __future__ import annotations

import os


def load_policy(env, **load_kwargs):
    """Returns the policy that `infer_once` receives: here the seeded action space."""
    env.action_space.seed(int(os.environ["SEED"]))
    return env.action_space


def preprocess_observation(observation):
    """Converts an observation to the input of the policy; timed separately from `infer_once`."""
    return observation


def infer_once(policy, observation):
    """Returns the action for one preprocessed observation; this call is timed."""
    return policy.sample()
