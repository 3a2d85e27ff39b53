"""A Gymnasium vector environment as Stable-Baselines3 wants it.

Members may step in threads of one process if their physics releases the interpreter lock; this adapter gives them to a
learner of Stable-Baselines3.
"""

from __future__ import annotations

from a2perf.learning.sb3 import frameworks  # noqa: F401  # isort: skip  says what is missing

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices

from a2perf.errors import UserError


class GymnasiumVecEnv(VecEnv):  # type: ignore[misc]  # mypy does not follow the library
    """Adapts a vector environment whose members reset within the step in which they end.

    Args:
        envs: the vector environment; its observations are arrays.

    Raises:
        UserError: its members do not reset in that way.
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
        """Return and length of each episode that ended since somebody emptied the list."""
        self._actions: NDArray[Any] | None = None
        self._returns = np.zeros(envs.num_envs)
        self._lengths = np.zeros(envs.num_envs, dtype=np.int64)
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> NDArray[Any]:
        """Starts an episode in every member, with the seeds that ``seed`` has set."""
        reset: Any = self.envs.reset  # Gymnasium's annotation leaves the list of seeds out
        observations, _ = reset(seed=list(self._seeds))
        self._reset_seeds()
        self._returns[:], self._lengths[:] = 0.0, 0
        return np.asarray(observations)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Keeps the actions for ``step_wait``."""
        self._actions = actions

    def step_wait(self) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Steps every member; only what a learner reads is in the infos."""
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

    def evaluate(self, act: Callable[[NDArray[Any]], NDArray[Any]], seeds: Sequence[int]) -> NDArray[np.float64]:
        """Runs one episode for each seed on the members themselves; ``reset`` has to follow.

        Args:
            act: from a batch of observations to one of actions.
            seeds: at most as many as there are members.

        Returns:
            The returns, shape ``(len(seeds),)``.

        Raises:
            UserError: there are more seeds than members.
        """
        if len(seeds) > self.num_envs:
            raise UserError(f"{len(seeds)} episodes cannot run on {self.num_envs} members at the same time")
        reset: Any = self.envs.reset
        given = [*seeds, *[seeds[-1]] * (self.num_envs - len(seeds))]
        observations, _ = reset(seed=[int(seed) for seed in given])
        returns, over = np.zeros(self.num_envs), np.zeros(self.num_envs, dtype=np.bool_)
        while not over[: len(seeds)].all():
            observations, rewards, terminations, truncations, _ = self.envs.step(act(np.asarray(observations)))
            returns += np.where(over, 0.0, rewards)
            over |= terminations | truncations
        return returns[: len(seeds)]

    def close(self) -> None:
        """Closes the members."""
        self.envs.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Returns an attribute of the vector environment for each of the members named."""
        found = getattr(self.envs, attr_name, None)
        return [found for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Refused: members of a vector environment share their attributes.

        Raises:
            AttributeError: always.
        """
        raise AttributeError(f"{attr_name} of single members cannot be set")

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any) -> list[Any]:
        """Refused: members of a vector environment have no methods of their own.

        Raises:
            AttributeError: always.
        """
        raise AttributeError(f"{method_name} of single members cannot be called")

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """Returns that no member is wrapped in what Stable-Baselines3 looks for: episodes are counted here."""
        return [False for _ in self._get_indices(indices)]
