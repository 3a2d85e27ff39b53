"""The policies published with "Learning Agile Robotic Locomotion Skills by Imitating Animals" (Peng et al. 2020).

Three gaits of a dog; the environment's id chooses one. NumPy reads the file. On a generated gait the policy for the
dog's gait of the same name runs, although it was not trained for it.
"""

from __future__ import annotations

import os

import numpy as np

from a2perf.assets import fetch
from a2perf.domains.quadruped_locomotion import ASSETS
from a2perf.domains.quadruped_locomotion.pretrained import load_actor

GAITS = ("pace", "trot", "spin")


def load_policy(env, **load_kwargs):
    """Loads the policy for the gait that ``A2PERF_ENV_ID`` names.

    Raises:
        AssetUnavailable: the policy was not fetched: ``a2perf data fetch quadruped_locomotion``.
        ValueError: the id names none of the gaits.
    """
    env_id = os.environ["A2PERF_ENV_ID"]
    for gait in GAITS:
        if gait in env_id.lower():
            return load_actor(fetch(ASSETS[f"policies/dog_{gait}.zip"]))
    raise ValueError(f"there is no pre-trained policy for {env_id}; there are policies for {', '.join(GAITS)}")


def preprocess_observation(observation):
    """The network takes the raw observation."""
    return np.asarray(observation, dtype=np.float32)


def infer_once(policy, observation):
    """Returns the mean action."""
    return policy(observation)
