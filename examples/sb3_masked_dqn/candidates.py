"""Environments as choices among candidates: one row of features per action, first column 1 where it is valid.

A network that scores rows one by one needs no output per action, so the same weights serve pages and grids of any size.
"""

from __future__ import annotations

from typing import Any, Protocol

import gymnasium
import numpy as np
from circuit_candidates import CircuitCandidates
from numpy.typing import NDArray
from web_candidates import WebCandidates

Rows = NDArray[np.float32]


class Candidates(Protocol):
    """Reads observations of one domain.

    Attributes:
        features: columns of a table of candidates.
        reward_offset, reward_scale: what training learns is ``(reward + offset) * scale``, the offset only at the end
            of an episode.
    """

    features: int
    reward_offset: float
    reward_scale: float

    def size(self, elements: int, fields: int) -> int:
        """Returns the number of rows that training keeps; the arguments matter for web pages."""

    def table(self, observation: Any) -> tuple[Rows, NDArray[np.int64]]:
        """Returns the candidates, float32, shape (n, features), and the environment's action of each, shape (n,)."""


def candidates_of(env: gymnasium.Env[Any, Any]) -> Candidates:
    """Returns the reader for an environment, chosen by the keys of its observations.

    Raises:
        ValueError: it is neither circuit training nor web navigation.
    """
    keys = set(getattr(env.observation_space, "spaces", {}))
    if {"mask", "current_node"} <= keys:
        return CircuitCandidates(env)
    if {"dom_elements", "dom_profile_joint_mask"} <= keys:
        return WebCandidates(env)
    raise ValueError(f"no candidates are known for observations with the keys {sorted(keys)}")


class CandidateEnv(gymnasium.Wrapper):
    """Shows tables of a fixed number of candidates; an action is a row.

    Args:
        env: of one of the two domains.
        elements, fields: page elements and profile rows that fit; what lies beyond cannot be chosen in training.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], elements: int, fields: int) -> None:
        super().__init__(env)
        self.candidates = candidates_of(env)
        self._size = self.candidates.size(elements, fields)
        # half precision: the replay memory holds two tables per step
        self.observation_space = gymnasium.spaces.Box(
            -np.inf, np.inf, (self._size, self.candidates.features), np.float16
        )
        self.action_space = gymnasium.spaces.Discrete(self._size)
        self._actions = np.zeros(0, np.int64)
        self._return = 0.0

    def reset(self, **arguments: Any) -> tuple[NDArray[np.float16], dict[str, Any]]:
        observation, info = self.env.reset(**arguments)
        self._return = 0.0
        return self._show(observation), info

    def step(self, action: Any) -> tuple[NDArray[np.float16], float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(int(self._actions[int(action)]))
        self._return += float(reward)
        info = dict(info)
        if terminated or truncated:
            info["episode_return"] = self._return
            reward += self.candidates.reward_offset
        return self._show(observation), float(reward) * self.candidates.reward_scale, terminated, truncated, info

    def _show(self, observation: Any) -> NDArray[np.float16]:
        rows, self._actions = self.candidates.table(observation)
        table = np.zeros(self.observation_space.shape, np.float16)
        kept = min(len(rows), self._size)
        table[:kept] = rows[:kept]
        return table
