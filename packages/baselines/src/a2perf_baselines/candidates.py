"""Environments as choices among candidates: a table with a row of features per action, valid rows marked in column 0.

A network that scores rows one by one needs no output per action: the same weights serve pages and grids of any size,
and invalid actions are never chosen. Each domain has a reader of its observations (entry points of ``GROUP``). This
module has the Gymnasium wrapper and the adapter for an ``inference.py``. It needs NumPy only.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any, Protocol, cast

import gymnasium
import numpy as np
from numpy.typing import NDArray

from a2perf.domains.registry import find_environment
from a2perf.errors import ConfigError

GROUP = "a2perf_baselines.candidates"
"""Entry points by domain: each names the class of its readers."""
Rows = NDArray[np.float32]
Actions = NDArray[np.int64]


class CandidateReader(Protocol):
    """Reads the observations of one environment.

    Attributes:
        features: columns of a table; the first one is 1 for a valid candidate, else 0.
        size: rows of a training table; more candidates do not fit.
        reward_offset, reward_scale: training uses ``(reward + offset) * scale``, the offset only at the end of an
            episode.
    """

    features: int
    size: int
    reward_offset: float
    reward_scale: float

    def table(self, observation: Any) -> tuple[Rows, Actions]:
        """Returns the candidates, float32, shape (n, features), and the environment's action of each, shape (n,)."""


def candidates_of(env: Any, **arguments: Any) -> CandidateReader:
    """Returns the reader of an environment's domain.

    Args:
        env: the environment; its id tells the domain.
        **arguments: of the domain's reader, as the number of rows.

    Raises:
        ConfigError: the environment has no registered id, or its domain has no candidates.
    """
    spec = env.unwrapped.spec
    if spec is None:
        raise ConfigError(
            f"{type(env.unwrapped).__name__} was made without an id, which tells the kind of its candidates",
            hint="make it with gymnasium.make",
        )
    domain = find_environment(spec.id)[0].name
    points = metadata.entry_points(group=GROUP)
    if domain not in points.names:
        raise ConfigError(
            f"no candidates are known for {spec.id}: its domain {domain} has no finite choice of actions",
            hint=f"use an environment of {' or '.join(sorted(points.names))}",
        )
    return cast(CandidateReader, points[domain].load()(env, **arguments))


def padded(rows: Rows, size: int) -> NDArray[np.float16]:
    """Returns a table of ``size`` rows: the first ones as given, those beyond dropped, missing ones invalid.

    It has half precision, since a replay memory holds a table per step.
    """
    table = np.zeros((size, rows.shape[1]), np.float16)
    kept = min(len(rows), size)
    table[:kept] = rows[:kept]
    return table


class CandidateEnv(gymnasium.Wrapper[NDArray[Any], int, Any, Any]):
    """Shows tables of a fixed number of candidates, float16; an action is a row.

    ``info`` holds ``episode_return``, the environment's own, where an episode ends.

    Args:
        size: number of rows; by default that of the reader.
        shaped: whether rewards are shifted and scaled for training.
        **arguments: of the domain's reader.

    Raises:
        ConfigError: see ``candidates_of``; in ``step``, a row without a candidate.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], size: int | None = None, *, shaped: bool = True, **arguments: Any
    ) -> None:
        super().__init__(env)
        self.candidates = candidates_of(env, **arguments)
        self._size = self.candidates.size if size is None else size
        self._offset, self._scale = (
            (self.candidates.reward_offset, self.candidates.reward_scale) if shaped else (0.0, 1.0)
        )
        self.observation_space = gymnasium.spaces.Box(
            -np.inf, np.inf, (self._size, self.candidates.features), np.float16
        )
        self.action_space = gymnasium.spaces.Discrete(self._size)  # type: ignore[assignment]
        self.actions: Actions = np.zeros(0, np.int64)
        self._return = 0.0

    def reset(self, **arguments: Any) -> tuple[NDArray[Any], dict[str, Any]]:
        """Starts an episode, with the arguments of the environment."""
        observation, info = self.env.reset(**arguments)
        self._return = 0.0
        return self._show(observation), info

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Takes the action of a row of the table shown last."""
        row = int(action)
        if not 0 <= row < len(self.actions):
            raise ConfigError(
                f"row {row} holds no candidate; there are {len(self.actions)}",
                hint="choose where the first column is 1",
            )
        observation, reward, terminated, truncated, info = self.env.step(int(self.actions[row]))
        self._return += float(reward)
        info = dict(info)
        learnt = float(reward)
        if terminated or truncated:
            info["episode_return"] = self._return
            learnt += self._offset
        return self._show(observation), learnt * self._scale, terminated, truncated, info

    def row_of(self, action: int) -> int:
        """Returns the row that holds an action of the environment.

        Raises:
            ConfigError: none does.
        """
        found = np.flatnonzero(self.actions[: self._size] == action)
        if len(found) == 0:
            raise ConfigError(f"no candidate stands for the action {action}", hint="more rows, or other limits")
        return int(found[0])

    def _show(self, observation: Any) -> NDArray[Any]:
        rows, self.actions = self.candidates.table(observation)
        return padded(rows, self._size)


class CandidateChoice:
    """Adapter of a policy that chooses rows: converts observations to tables, and the chosen row to the action.

    It is created without an environment, as an ``inference.py`` needs; call ``read_from`` first.

    Args:
        size: rows of a table; ``None`` for all candidates, in full precision.
        **arguments: of the domain's reader.

    Attributes:
        arguments: of the domain's reader.
    """

    def __init__(self, size: int | None = None, **arguments: Any) -> None:
        self._size, self.arguments = size, arguments
        self._reader: CandidateReader | None = None
        self._actions: Actions = np.zeros(0, np.int64)

    def read_from(self, env: Any, size: int | None = None) -> CandidateReader:
        """Makes the reader of an environment.

        Args:
            env: the environment; its layout is read.
            size: new number of rows, if given.

        Raises:
            ConfigError: see ``candidates_of``.
        """
        self._size = self._size if size is None else size
        self._reader = candidates_of(env, **self.arguments)
        return self._reader

    def table(self, observation: Any) -> NDArray[Any]:
        """Returns the table of an observation: float16 of ``size`` rows, or float32 of all."""
        if self._reader is None:
            raise ConfigError("candidates are read before read_from(env) was called", hint="call it in load_policy")
        rows, self._actions = self._reader.table(observation)
        return rows if self._size is None else padded(rows, self._size)

    def action(self, row: Any) -> int:
        """Returns the environment's action of a row of the table made last."""
        return int(self._actions[int(row)])
