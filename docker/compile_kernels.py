"""Compiles the kernels of an environment into NUMBA_CACHE_DIR by running a few steps of one episode.

An engine without a wheel for this processor (PyBullet on ARM64) has no kernels.
"""

from __future__ import annotations

import sys

import numpy as np

import a2perf
from a2perf.errors import MissingDependency

STEPS = 3


def main(env_id: str) -> None:
    """Runs the environment until its kernels are compiled."""
    try:
        env = a2perf.make(env_id)
    except MissingDependency as error:
        print(f"no kernels: {error.message}")
        return
    observation, _ = env.reset(seed=0)
    for _ in range(STEPS):
        if isinstance(observation, dict) and "mask" in observation:
            action = int(np.argmax(observation["mask"]))
        else:
            action = env.action_space.sample()
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            break
    env.close()


if __name__ == "__main__":
    main(sys.argv[1])
