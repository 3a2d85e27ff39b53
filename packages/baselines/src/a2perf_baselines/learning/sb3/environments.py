"""Adapts a Gymnasium vector environment to Stable-Baselines3.

The members may step in threads of one process if their physics engine releases the global interpreter lock.
"""

from __future__ import annotations

from a2perf_baselines.learning.sb3 import frameworks  # noqa: F401  # isort: skip  raises MissingDependency

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices

from a2perf.errors import UserError


class GymnasiumVecEnv(VecEnv):  # type: ignore[misc]  # mypy does not follow the library
    """Adapts a vector environment with autoreset mode ``SAME_STEP``.

    Args:
        envs: the vector environment; its observations are arrays.

    Raises:
        UserError: it has another autoreset mode.
    """

    def __init__(self, envs: gymnasium.vector.VectorEnv[Any, Any, Any]) -> None:
        mode = (envs.metadata or {}).get("autoreset_mode")
        if mode is not AutoresetMode.SAME_STEP:
            raise UserError(
                f"members with the autoreset mode {mode} cannot be trained on",
                hint="make them with autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP",
            )
        self.envs = envs
        self.finished: list[tuple[float, int]] = []
        """Return and length of each episode that has ended since the list was last emptied."""
        self._actions: NDArray[Any] | None = None
        self._returns = np.zeros(envs.num_envs)
        self._lengths = np.zeros(envs.num_envs, dtype=np.int64)
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> NDArray[Any]:
        """Starts an episode in every member, with the seeds from ``seed``."""
        reset: Any = self.envs.reset  # Gymnasium's annotation does not allow a list of seeds
        observations, _ = reset(seed=list(self._seeds))
        self._reset_seeds()
        self._returns[:], self._lengths[:] = 0.0, 0
        return np.asarray(observations)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Stores the actions for ``step_wait``."""
        self._actions = actions

    def step_wait(self) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Steps every member; the infos hold only the keys that a learner reads."""
        observations, rewards, terminations, truncations, infos = self.envs.step(self._actions)
        self._returns += rewards
        self._lengths += 1
        dones = np.logical_or(terminations, truncations)
        described: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for member in np.flatnonzero(dones):
            episode = (float(self._returns[member]), int(self._lengths[member]))
            self.finished.append(episode)
            described[member] = {
                "terminal_observation": infos["final_obs"][member],
                "TimeLimit.truncated": bool(truncations[member] and not terminations[member]),
                "episode": {"r": episode[0], "l": episode[1]},
            }
            self._returns[member], self._lengths[member] = 0.0, 0
        return np.asarray(observations), np.asarray(rewards, dtype=np.float32), dones, described

    def close(self) -> None:
        """Closes the members."""
        self.envs.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Returns an attribute of the vector environment once per named member."""
        found = getattr(self.envs, attr_name, None)
        return [found for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Not supported: members of a vector environment share their attributes.

        Raises:
            AttributeError: always.
        """
        raise AttributeError(f"{attr_name} of single members cannot be set")

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any) -> list[Any]:
        """Not supported: members of a vector environment have no separate methods.

        Raises:
            AttributeError: always.
        """
        raise AttributeError(f"{method_name} of single members cannot be called")

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """Returns false for every member: this adapter counts episodes, so no ``Monitor`` is needed."""
        return [False for _ in self._get_indices(indices)]
