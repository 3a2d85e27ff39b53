"""Circuit training: the candidates are the cells of the placement grid, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

WAVES = 3  # sines and cosines of a cell's place, per axis
RECENT = 4  # macros placed last whose distance to a cell is a feature


class CircuitCandidates:
    """Features of a cell: its place, the share of macros placed, where the last of them went, where the next started.

    Args:
        env: a circuit training environment; its grid and the order of its macros are looked at.
    """

    features = 1 + 2 + 4 * WAVES + 1 + 2 + 5 * RECENT
    # A placement costs about 1, and good and bad ones differ by a few hundredths.
    reward_offset = 1.0
    reward_scale = 20.0

    def __init__(self, env: Any) -> None:
        core = env.unwrapped
        size = core.observation_config.max_grid_size
        rows, columns = core.grid_rows, core.grid_cols
        row, column = np.divmod(np.arange(rows * columns), columns)
        self._actions = (row + (size - rows) // 2) * size + column + (size - columns) // 2
        width, height = core.plc.get_canvas_width_height()
        position = {int(node): place for place, node in enumerate(core.plc.get_macro_indices())}
        self._order = np.array([position[int(node)] for node in core.macro_order], np.int64)
        at = np.stack([(column + 0.5) / columns, (row + 0.5) / rows], axis=1)
        angles = np.pi * at[:, :, None] * np.arange(1, WAVES + 1)
        waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=2).reshape(len(at), -1)
        self._fixed = np.concatenate([at, waves], axis=1)
        self._at = at * [width / (width + height), height / (width + height)]  # in the observation's unit

    def size(self, elements: int, fields: int) -> int:
        """Returns the number of cells."""
        return len(self._actions)

    def table(self, observation: Any) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Returns the candidates and their actions."""
        rows = np.zeros((len(self._actions), self.features), np.float32)
        rows[:, 0] = np.asarray(observation["mask"])[self._actions]
        end = 1 + self._fixed.shape[1]
        rows[:, 1:end] = self._fixed
        x, y = np.asarray(observation["locations_x"]), np.asarray(observation["locations_y"])
        placed = self._order[np.asarray(observation["is_node_placed"])[self._order] > 0]
        current = int(np.asarray(observation["current_node"]).item())
        rows[:, end] = len(placed) / max(1, len(self._order))
        rows[:, end + 1 : end + 3] = x[current], y[current]
        for number, macro in enumerate(placed[::-1][:RECENT]):
            start = end + 3 + 5 * number
            away = self._at - [x[macro], y[macro]]
            rows[:, start] = 1.0
            rows[:, start + 1 : start + 3] = away
            rows[:, start + 3 : start + 5] = np.abs(away)
        return rows, self._actions
