"""Wraps an environment and records the episodes of ordinary rollouts as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from a2perf.datasets.hdf5_file import Array, EpisodeArrays
from a2perf.datasets.noise import POLICY_ACTION, ActionNoise
from a2perf.datasets.space_json import flatten
from a2perf.errors import UserError, did_you_mean


class RecordingEnvironment:
    """An environment that records its episodes.

    Args:
        env: the environment; the caller closes it.
        infos: entries of ``info`` to record in addition to observations, actions and rewards.
        keeps: whether to record anything.
        noise: action noise; with it the policy's actions are recorded as well.

    Attributes:
        info: the latest ``info``.
    """

    def __init__(
        self, env: Any, infos: Sequence[str] = (), *, keeps: bool = True, noise: ActionNoise | None = None
    ) -> None:
        self.observation_space = env.observation_space
        self.action_space = env.action_space
        self.info: dict[str, Any] = {}
        self._keeps = keeps
        self._noise = noise
        self._env = env
        self._wanted = tuple(infos)
        self._rows: dict[str, list[Array]] = {}
        self._seed = -1
        self._scalars: dict[str, list[Any]] = {}

    def reset(self, *, seed: int) -> tuple[Any, dict[str, Any]]:
        """Starts a new episode and discards the previous one."""
        observation, info = self._env.reset(seed=seed)
        self._seed, self._rows = seed, {}
        self._scalars = {"rewards": [], "terminations": [], "truncations": []}
        self._keep_seen(observation, info)
        if self._noise is not None:
            self._noise.begin(seed)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Steps the environment."""
        if self._noise is not None:
            self._rows.setdefault(f"infos/{POLICY_ACTION}", []).append(np.array(action, self.action_space.dtype))
            action = self._noise.disturbed(action, self.info.get("action_mask"))
        # Copied before the step: an environment may change the action in place.
        taken = list(flatten(self.action_space, action, "actions")) if self._keeps else []
        observation, reward, terminated, truncated, info = self._env.step(action)
        for name, value in taken:
            self._rows.setdefault(name, []).append(value)
        for name, scalar in (("rewards", reward), ("terminations", terminated), ("truncations", truncated)):
            self._scalars[name].append(scalar)
        self._keep_seen(observation, info)
        return observation, reward, terminated, truncated, info

    def episode(self, **attributes: Any) -> EpisodeArrays:
        """Returns the episode since the last reset."""
        arrays = {name: np.stack(rows) for name, rows in self._rows.items()}
        if self._noise is not None:
            wanted = arrays[f"infos/{POLICY_ACTION}"]
            arrays[f"infos/{POLICY_ACTION}"] = np.concatenate([wanted, wanted[-1:]])
        arrays["rewards"] = np.array(self._scalars["rewards"], np.float64)
        for name in ("terminations", "truncations"):
            arrays[name] = np.array(self._scalars[name], np.bool_)
        return EpisodeArrays(self._seed, arrays, attributes)

    def _keep_seen(self, observation: Any, info: dict[str, Any]) -> None:
        self.info = info
        if not self._keeps:
            return
        for name, value in flatten(self.observation_space, observation, "observations"):
            self._rows.setdefault(name, []).append(value)
        for entry in self._wanted:
            if entry not in info:
                raise UserError(
                    f"the environment's info has no {entry!r}{did_you_mean(entry, info)}",
                    hint=f"choose --info from: {', '.join(sorted(info)) or 'none'}",
                )
            # A copy, because an environment may reuse the array in its next step.
            kept = np.array(info[entry])
            if kept.dtype.kind not in "biuf":
                raise UserError(f"the info {entry!r} is not an array of numbers", hint="remove it from --info")
            self._rows.setdefault(f"infos/{entry}", []).append(kept)
