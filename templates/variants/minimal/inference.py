"""What a2perf calls to evaluate the submission; here: a random action for every observation."""

from __future__ import annotations

import os


def load_policy(env, **load_kwargs):
    """Returns whatever `infer_once` needs: here the action space, seeded."""
    env.action_space.seed(int(os.environ["SEED"]))
    return env.action_space


def preprocess_observation(observation):
    """Turns an observation into what the policy takes; timed apart from `infer_once`."""
    return observation


def infer_once(policy, observation):
    """Returns the action for one preprocessed observation; this call is timed."""
    return policy.sample()
