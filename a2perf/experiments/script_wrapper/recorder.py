"""Gymnasium's statistics wrappers, put around the environments that a wrapped script makes.

The statistics go to the journal and not into the script's ``info``. Imports Gymnasium, and so is imported at the first
``gymnasium.make`` of the script only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from gymnasium import Env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics
from gymnasium.wrappers.vector import RecordEpisodeStatistics as RecordVectorStatistics

Key = tuple[str, str]
"""The place that makes an environment, and its name."""

_STATISTICS = "a2perf_episode"


class EpisodeRecorder(RecordEpisodeStatistics):
    """Records the episodes of one environment; ``episode_returns`` has the return of the running or last one."""

    record: ClassVar[Callable[[Key, float, int], None]]
    """Takes key, return and length of an episode; of the class, since scripts copy and pickle environments."""

    def __init__(self, env: Env[Any, Any], key: Key) -> None:
        super().__init__(env, buffer_length=1, stats_key=_STATISTICS)
        self.key = key

    def step(self, action: Any) -> Any:
        """Steps the environment."""
        result = super().step(action)
        if (statistics := result[-1].pop(_STATISTICS, None)) is not None:
            EpisodeRecorder.record(self.key, float(statistics["r"]), int(statistics["l"]))
        return result

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """The environment's specification, without this wrapper."""
        return self.env.spec

    def __getattr__(self, name: str) -> Any:
        if name == "env":  # not set yet: the object is being unpickled
            raise AttributeError(name)
        return getattr(self.env, name)


class VectorEpisodeRecorder(RecordVectorStatistics):
    """Records the episodes of an environment with many members that are not environments themselves."""

    def __init__(self, env: VectorEnv[Any, Any, Any], key: Key) -> None:
        super().__init__(env, buffer_length=1, stats_key=_STATISTICS)
        self.key = key

    def step(self, actions: Any) -> Any:
        """Steps all members."""
        result = super().step(actions)
        statistics = result[-1].pop(_STATISTICS, None)
        ended = result[-1].pop(f"_{_STATISTICS}", ())
        for member in np.flatnonzero(ended):
            EpisodeRecorder.record(self.key, float(statistics["r"][member]), int(statistics["l"][member]))
        return result

    def __getattr__(self, name: str) -> Any:
        if name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)


def recorded(env: Any, describe: Callable[[str], Key], record: Callable[[Key, float, int], None]) -> Any:
    """Returns the environment with a recorder around it; the members of a vector environment have theirs already.

    Args:
        describe: takes the environment's name and returns its key.
        record: takes key, return and length of each episode.
    """
    EpisodeRecorder.record = staticmethod(record)
    if isinstance(env, SyncVectorEnv | AsyncVectorEnv):
        return env
    key = describe(str(env.spec.id if env.spec is not None else type(env.unwrapped).__name__))
    return VectorEpisodeRecorder(env, key) if isinstance(env, VectorEnv) else EpisodeRecorder(env, key)


def own_return(env: Any) -> float | None:
    """Returns the return of the last episode below the script's wrappers; None if the environment is not recorded."""
    while env is not None and not isinstance(env, EpisodeRecorder):
        env = getattr(env, "env", None)
    return None if env is None else float(env.episode_returns)
