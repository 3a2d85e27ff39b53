"""Runs the linear policy that `train.py` wrote to the artifacts."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from linear_policy import LinearPolicy


def load_policy(env, **load_kwargs):
    """Loads ``policy.npz`` from ``ROOT_DIR``, the read-only artifacts of the training run."""
    return LinearPolicy.load(Path(os.environ["ROOT_DIR"]) / "policy.npz")


def preprocess_observation(observation):
    """The policy computes in float64."""
    return np.asarray(observation, dtype=np.float64)


def infer_once(policy, observation):
    """Returns the action for one observation, float32 within the action's bounds."""
    return policy.act(observation)
