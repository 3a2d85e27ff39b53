"""An environment with nested spaces; an action ends it, and its observation shows the seed."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

CONTINUE, TERMINATE, TRUNCATE, BOTH = range(4)


class ToyEnvironment(gymnasium.Env[Any, Any]):
    """The action's ``ending`` is one of the constants above; its ``force`` is the reward."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Dict(
            {
                "draw": spaces.Box(0.0, 1.0, (2,), np.float64),
                "count": spaces.Discrete(100),
                "pair": spaces.Tuple((spaces.MultiBinary(3), spaces.MultiDiscrete([2, 3]))),
            }
        )
        self.action_space = spaces.Dict(
            {"ending": spaces.Discrete(4), "force": spaces.Box(-1.0, 1.0, (1,), np.float32)}
        )
        self._count = 0
        self._draw = np.zeros(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._count = 0
        return self._observation(), {"seed": seed}

    def step(self, action: dict[str, Any]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self._count += 1
        ending = action["ending"]
        reward = float(action["force"][0])
        return self._observation(), reward, ending in (1, 3), ending in (2, 3), {"count": self._count}

    def render(self, height: int = 4) -> np.ndarray:
        return np.full((height, 6, 3), self._count, np.uint8)

    def _observation(self) -> dict[str, Any]:
        self._draw[:] = self.np_random.random(2)  # the same array every time, as careless environments do
        pair = (np.ones(3, np.int8), np.array([1, 2]))
        return {"draw": self._draw, "count": np.int64(self._count), "pair": pair}
