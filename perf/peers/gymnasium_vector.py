"""Vector environments of Gymnasium and a2perf's own: eight websites, equal seeds and actions.

python perf/peers/gymnasium_vector.py
"""

from __future__ import annotations

from collections.abc import Callable

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv
from turns import in_turns

import a2perf  # noqa: F401 -- registers the ids

ID, COUNT, STEPS = "WebNavigation-Difficulty-01-v0", 8, 1000
KWARGS = {"num_websites": 1, "seed": 0}


def make_one() -> gymnasium.Env:
    return gymnasium.make(ID, disable_env_checker=True, **KWARGS)


def make_own() -> VectorEnv:
    return gymnasium.make_vec(ID, num_envs=COUNT, vectorization_mode="vector_entry_point", **KWARGS)


def played(make: Callable[[], VectorEnv], steps: int = STEPS) -> list[np.ndarray]:
    """Returns the rewards and the pages after each step of random actions."""
    env, random = make(), np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(steps):
        observation, reward, *_ = env.step(random.integers(env.single_action_space.n, size=COUNT))
    found = [np.array(reward), observation["dom_elements"].copy(), observation["time_step"].copy()]
    env.close()
    return found


def units(make: Callable[[], VectorEnv]) -> Callable[[], int]:
    return lambda: STEPS * COUNT * bool(played(make))


if __name__ == "__main__":
    for steps in range(1, 6):  # afterwards the modes of automatic resets differ
        for own, peer in zip(
            played(make_own, steps), played(lambda: SyncVectorEnv([make_one] * COUNT), steps), strict=True
        ):
            assert np.array_equal(own, peer), f"step {steps} differs"
    in_turns(
        {
            "AsyncVectorEnv(8)": units(lambda: AsyncVectorEnv([make_one] * COUNT)),
            "SyncVectorEnv(8)": units(lambda: SyncVectorEnv([make_one] * COUNT)),
            "a2perf": units(make_own),
        }
    )
