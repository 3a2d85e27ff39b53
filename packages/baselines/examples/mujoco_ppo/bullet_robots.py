"""Robots in PyBullet with the interface of the batch in MuJoCo: the same training in the task's own physics."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray

from a2perf.domains.quadruped_locomotion.environment import build_imitation_env
from a2perf.domains.quadruped_locomotion.vector import ThreadedVectorEnv
from a2perf_baselines.learning.batch import BatchStep
from a2perf_baselines.quadruped_locomotion.mujoco_batch import CompletedEpisodes
from a2perf_baselines.quadruped_locomotion.residual_control import ResidualControl, ResidualControlWrapper


class BulletRobots:
    """Robots that step together; implements ``learning.batch.BatchEnvironment``.

    Episodes begin and fall as in test mode, with the nominal robot. The value sees no more than the policy.

    Args:
        count: number of robots.
        clip: one clip.
        control: meaning of actions and observations.
        longest: steps after which an episode is cut off.
        threads: that step them.

    Attributes:
        count: number of robots.
        episodes: complete episodes.
        reward_scale: of the returned rewards; the returns of ``episodes`` are not scaled.
    """

    def __init__(self, count: int, clip: str, control: ResidualControl, longest: int, threads: int) -> None:
        def robot() -> gymnasium.Env[Any, Any]:
            task = build_imitation_env(clip=clip, mode="test")
            return ResidualControlWrapper(TimeLimit(task, longest), control)

        self.count, self.reward_scale = count, 1.0
        self.episodes = CompletedEpisodes()
        self._envs = ThreadedVectorEnv(count, threads, autoreset_mode=AutoresetMode.SAME_STEP, make=robot)
        self._returns, self._lengths = np.zeros(count), np.zeros(count, dtype=np.int64)
        self._nothing = np.zeros((count, 0), dtype=np.float32)

    @property
    def observation_sizes(self) -> tuple[int, int]:
        """Numbers that the policy sees, and those that only the value sees besides."""
        return int(np.prod(self._envs.single_observation_space.shape or (0,))), 0

    def reset(self, seed: int) -> dict[str, NDArray[np.float32]]:
        """Begins an episode of each robot; the seed determines all later episodes, too."""
        observations, _ = self._envs.reset(seed=seed)
        self.episodes = CompletedEpisodes()
        self._returns[:], self._lengths[:] = 0.0, 0
        return self._observations(observations)

    def step(self, actions: NDArray[Any]) -> BatchStep:
        """Steps each robot; ``actions`` has the shape (n, 12)."""
        observations, rewards, terminated, truncated, infos = self._envs.step(actions)
        self._returns += rewards
        self._lengths += 1
        ended = np.flatnonzero(terminated | truncated)
        self.episodes.returns += self._returns[ended].tolist()
        self.episodes.lengths += self._lengths[ended].tolist()
        self._returns[ended], self._lengths[ended] = 0.0, 0
        cut_off = truncated & ~terminated
        rows = np.flatnonzero(cut_off)
        final = None
        if len(rows):
            final = self._observations(np.stack([infos["final_obs"][row] for row in rows]))
        scaled = (rewards * self.reward_scale).astype(np.float32)
        return BatchStep(self._observations(observations), scaled, terminated, cut_off, final, rows)

    def close(self) -> None:
        """Closes the simulations."""
        self._envs.close()

    def _observations(self, seen: NDArray[Any]) -> dict[str, NDArray[np.float32]]:
        return {"policy": seen.astype(np.float32), "privileged": self._nothing[: len(seen)]}
