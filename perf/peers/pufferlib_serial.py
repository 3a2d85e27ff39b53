"""Sixteen websites and a policy of rows: PufferLib's ``Serial`` without confinement, a2perf's vector environment, and
``a2perf.evaluate(batch=16)``, which confines the policy, checks its actions, and hashes and records every step.

    git clone --branch 1.0 https://github.com/PufferAI/PufferLib && pip install --no-deps gym gym-notices
    python perf/peers/pufferlib_serial.py PufferLib

Wall time, because the confined policy has its own process.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import gymnasium
import numpy as np
from turns import in_turns

import a2perf

TASK, ID, KWARGS = "difficulty_level_1_num_websites_1", "WebNavigation-Difficulty-01-v0", {"num_websites": 1, "seed": 0}
ROWS, STEPS, EPISODES = 16, 2000, 6400


class FirstAction:
    """A policy that reads a part of what it sees, alone and in rows."""

    def __call__(self, observation: dict) -> int:
        return int(observation["time_step"][0] < 0)

    def infer_batch(self, observations: dict) -> np.ndarray:
        return (observations["time_step"][:, 0] < 0).astype(int)


class Terminated(gymnasium.Wrapper):
    """Ends episodes at the step limit by a termination: PufferLib 1.0 does not reset after a truncation."""

    def step(self, action: int) -> tuple:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated or truncated, truncated, info


def make_one() -> gymnasium.Env:
    return Terminated(gymnasium.make(ID, disable_env_checker=True, **KWARGS))


def evaluated(folder: str) -> int:
    result = a2perf.evaluate(
        FirstAction(), TASK, episodes=EPISODES, batch=ROWS, root_dir=folder, force=True, progress=False
    )
    return sum(result.episodes()["length"].tolist())


def main(checkout: str) -> None:
    sys.path.insert(0, checkout)
    from pufferlib import emulation, vector

    def serial() -> vector.Serial:
        return vector.make(emulation.GymnasiumPufferEnv, env_kwargs={"env_creator": make_one}, num_envs=ROWS)

    def own() -> gymnasium.vector.VectorEnv:
        return gymnasium.make_vec(ID, num_envs=ROWS, vectorization_mode="vector_entry_point", **KWARGS)

    actions = np.zeros(ROWS, int)

    def of_peer(steps: int) -> np.ndarray:
        vector.reset(peer, seed=0)
        for _ in range(steps):
            _, rewards, *_ = vector.step(peer, actions)
        return rewards

    def of_ours(steps: int) -> np.ndarray:
        ours.reset(seed=0)
        for _ in range(steps):
            _, rewards, *_ = ours.step(actions)
        return rewards

    peer, ours = serial(), own()
    for steps in range(1, 10):  # the first episodes end later, and PufferLib resets in the step after an end
        assert np.allclose(of_peer(steps), of_ours(steps), atol=1e-6), steps
    with tempfile.TemporaryDirectory() as folder:
        in_turns(
            {
                "PufferLib, Serial(16)": lambda: STEPS * len(of_peer(STEPS)),
                "a2perf, vector environment": lambda: STEPS * len(of_ours(STEPS)),
                "a2perf.evaluate(batch=16), confined": lambda: evaluated(str(Path(folder, "run"))),
            },
            clock=time.perf_counter,
        )


if __name__ == "__main__":
    main(sys.argv[1])
