"""Circuit training: the candidates are the cells of the placement grid, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

WAVES = 3  # sines and cosines of a cell's place, per axis
RECENT = 4  # the last macros placed; the distance of a cell to each is a feature
ORDER_WAVES = 6  # sines and cosines of the share of macros placed, each of twice the frequency of the one before
SIZE = 512
"""Rows of a training table: one policy serves the toy circuit (200 cells) and Ariane (504); larger grids need more.
"""

Floats = NDArray[np.float64]


class CircuitCandidates:
    """Features of a cell: its position, distances to placed and connected nodes, and the progress of the episode.

    Columns, in order: valid; place, 2; waves of the place, 4 * ``WAVES``; share of macros placed; where forces alone
    would put the macro, 2; for each of the macros placed last, the last first: 1, distance with sign, 2, without, 2;
    distance to where forces would put the macro with sign, 2, and without, 2; width and height of the macro; mean
    Manhattan distance to what the macro is connected with, weighted by the number of wires, and how much longer it is
    than from the best valid cell; waves of the share. Lengths are in the observation's unit.

    Args:
        env: a circuit training environment; its grid, the order of its macros and their connections are read.
        size: rows of a table that is kept for training; by default all cells, but at least ``SIZE``.
    """

    features = 1 + 2 + 4 * WAVES + 1 + 2 + 5 * RECENT + 4 + 2 + 2 + 2 * ORDER_WAVES
    # A placement costs about 1, and good and bad ones differ by a few hundredths.
    reward_offset = 1.0
    reward_scale = 20.0

    def __init__(self, env: Any, size: int | None = None) -> None:
        core = env.unwrapped
        grid = core.observation_config.max_grid_size
        rows, columns = core.grid_rows, core.grid_cols
        row, column = np.divmod(np.arange(rows * columns), columns)
        self._actions = (row + (grid - rows) // 2) * grid + column + (grid - columns) // 2
        self.size = max(SIZE, len(self._actions)) if size is None else size
        width, height = core.plc.get_canvas_width_height()
        position = {int(node): place for place, node in enumerate(core.plc.get_macro_indices())}
        self._order = np.array([position[int(node)] for node in core.macro_order], np.int64)
        at = np.stack([(column + 0.5) / columns, (row + 0.5) / rows], axis=1)
        angles = np.pi * at[:, :, None] * np.arange(1, WAVES + 1)
        waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=2).reshape(len(at), -1)
        self._fixed = np.concatenate([at, waves], axis=1)
        self._at = at * [width / (width + height), height / (width + height)]  # in the observation's unit
        self._column_at, self._row_at = self._at[:columns, 0], self._at[::columns, 1]
        static = core.get_static_obs()
        self._sizes = np.stack([static["macros_w"], static["macros_h"]], axis=1).astype(np.float64)
        self._neighbours = _neighbours(static, self._order)

    def table(self, observation: Any) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Returns the candidates, shape (cells, features), and their actions."""
        rows = np.zeros((len(self._actions), self.features), np.float32)
        valid = np.asarray(observation["mask"])[self._actions] > 0
        rows[:, 0] = valid
        end = 1 + self._fixed.shape[1]
        rows[:, 1:end] = self._fixed
        x, y = np.asarray(observation["locations_x"], np.float64), np.asarray(observation["locations_y"], np.float64)
        placed = self._order[np.asarray(observation["is_node_placed"])[self._order] > 0]
        current = int(np.asarray(observation["current_node"]).item())
        share = len(placed) / max(1, len(self._order))
        rows[:, end] = share
        rows[:, end + 1 : end + 3] = x[current], y[current]
        for number, macro in enumerate(placed[::-1][:RECENT]):
            start = end + 3 + 5 * number
            away = self._at - [x[macro], y[macro]]
            rows[:, start] = 1.0
            rows[:, start + 1 : start + 3] = away
            rows[:, start + 3 : start + 5] = np.abs(away)
        start = end + 3 + 5 * RECENT
        wanted = self._at - [x[current], y[current]]
        rows[:, start : start + 2], rows[:, start + 2 : start + 4] = wanted, np.abs(wanted)
        rows[:, start + 4 : start + 6] = self._sizes[current]
        pull = self._pull(current, x, y)
        rows[:, start + 6] = pull
        rows[:, start + 7] = pull - (pull[valid].min() if valid.any() else 0.0)
        phases = np.pi * share * 2.0 ** np.arange(ORDER_WAVES)
        rows[:, start + 8 :] = np.concatenate([np.sin(phases), np.cos(phases)])
        return rows, self._actions

    def _pull(self, node: int, x: Floats, y: Floats) -> Floats:
        """Returns the weighted mean distance of each cell to what a node is connected with, shape (cells,)."""
        others, weights = self._neighbours.get(node, _NONE)
        if len(others) == 0:
            return np.zeros(len(self._at))
        across = np.abs(self._column_at[:, None] - x[others]) @ weights
        along = np.abs(self._row_at[:, None] - y[others]) @ weights
        pull: Floats = (along[:, None] + across[None, :]).reshape(-1)
        return pull


_NONE = (np.zeros(0, np.int64), np.zeros(0))


def _neighbours(static: Any, macros: NDArray[np.int64]) -> dict[int, tuple[NDArray[np.int64], Floats]]:
    """Returns, for each macro, the nodes that it is connected with and their weights, which sum to 1."""
    one, other = static["sparse_adj_i"].astype(np.int64), static["sparse_adj_j"].astype(np.int64)
    weight = static["sparse_adj_weight"].astype(np.float64)
    found = {}
    for macro in macros.tolist():
        first, second = (one == macro) & (weight > 0), (other == macro) & (weight > 0)
        nodes = np.concatenate([other[first], one[second]])
        weights = np.concatenate([weight[first], weight[second]])
        if len(nodes):
            found[macro] = (nodes, weights / weights.sum())
    return found
