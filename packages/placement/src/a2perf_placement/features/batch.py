"""Many placement episodes in one process, for learning: one call places a macro in each of them.

An episode costs what the environment says: at its end the engine of the design places the soft macros by forces and
computes the cost. Between, only the features of the next macro are computed, without the environment's observations.
Rewards are relative to the running mean cost of the same design; designs of different difficulty can then be mixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.errors import ArgumentError
from a2perf_placement.features.design import PlacementDesign
from a2perf_placement.features.features import FEATURES, SUMMARY, PlacementState, PositionEstimate

INFEASIBLE_COST = 2.0
"""Cost of an episode that ends with macros left; the environment's own reward, -1, is that of a good placement."""

_MEMORY = 0.9  # of the running mean of a design's costs


class FinishedEpisode(NamedTuple):
    """One finished episode.

    Attributes:
        design: index of the design.
        cost: of the placement, with the environment's weights; ``INFEASIBLE_COST`` if macros were left.
        cells: cell of each macro in the order of placing.
    """

    design: int
    cost: float
    cells: tuple[int, ...]
    parts: tuple[float, float, float]


class PlacementBatchStep(NamedTuple):
    """What a step returns, in the form that ``learning.torch.ppo`` of a2perf-baselines expects."""

    observations: dict[str, NDArray[Any]]
    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    final_observations: None = None
    final_indices: None = None


class PlacementTask:
    """A design with its engine.

    Args:
        env: a circuit training environment; its engine computes the costs, which ends its episode.
    """

    def __init__(self, env: Any, name: str = "") -> None:
        self._core = env.unwrapped
        self.name = name or self._core.environment_name
        self.macros: list[str] = self._core.macro_names
        self.design = PlacementDesign(env)
        self.start = PositionEstimate(self.design, self.design.start_x, self.design.start_y)
        self.mean_cost: float | None = None

    def finish(self, cells: Sequence[int]) -> tuple[float, tuple[float, float, float]]:
        """Returns the environment's cost of a placement and its parts.

        Args:
            cells: a cell per macro, in the order of placing.
        """
        plc = self._core.plc
        for node, cell in zip(self.design.order.tolist(), cells, strict=True):
            plc.place_node(node, cell)
        self._core.analytical_placer()
        cost, parts = self._core.get_cost_info(done=True)
        return float(cost), (parts["wirelength"], parts["congestion"], parts["density"])


class PlacementBatch:
    """Episodes that step together, over a set of designs.

    Args:
        tasks: the designs; each episode draws one.
        count: episodes at the same time.

    Attributes:
        count: episodes at the same time.
        cells: rows of the tables, the largest grid of all designs.
        finished: episodes that ended since the list was emptied; the caller empties it.
    """

    def __init__(self, tasks: Sequence[PlacementTask], count: int, reward_scale: float = 20.0) -> None:
        if not tasks:
            raise ArgumentError("no designs to place", hint="give at least one task")
        self.tasks, self.count = list(tasks), count
        self.cells = max(task.design.cells for task in tasks)
        self.finished: list[FinishedEpisode] = []
        self.episodes = 0
        self._scale = reward_scale
        self._states: dict[int, PlacementState] = {}
        self._design = np.zeros(count, np.int64)
        self._generator = np.random.default_rng(0)
        self._queue: list[int] = []
        self._tables = np.zeros((count, self.cells, len(FEATURES)), np.float32)
        self._masks = np.zeros((count, self.cells), np.bool_)
        self._summaries = np.zeros((count, len(SUMMARY)), np.float32)

    def reset(self, seed: int) -> dict[str, NDArray[Any]]:
        """Begins an episode in each slot; ``seed`` determines the order of the designs."""
        self._generator = np.random.default_rng(seed)
        self._queue = []
        for slot in range(self.count):
            self._begin(slot)
        return self._observations()

    def step(self, actions: NDArray[Any]) -> PlacementBatchStep:
        """Places a macro in each slot; episodes that end begin the next one.

        Args:
            actions: a feasible cell per slot, int64, shape (count,).
        """
        rewards = np.zeros(self.count, np.float32)
        ended = np.zeros(self.count, np.bool_)
        for slot, cell in enumerate(np.asarray(actions).tolist()):
            state = self.state(slot)
            state.place(cell)
            if state.done or not state.mask.any():
                ended[slot] = True
                rewards[slot] = self._finish(slot, state)
                self._begin(slot)
            else:
                self._observe(slot)
        return PlacementBatchStep(self._observations(), rewards, ended, np.zeros(self.count, np.bool_))

    def state(self, slot: int) -> PlacementState:
        """Returns the episode of a slot."""
        return self._states[slot]

    def _begin(self, slot: int) -> None:
        if not self._queue:
            self._queue = self._generator.permutation(len(self.tasks)).tolist()
        number = self._queue.pop()
        task = self.tasks[number]
        known = self._states.get(slot)
        if known is not None and self._design[slot] == number:
            known.reset(task.start)
        else:
            self._states[slot] = PlacementState(task.design, task.start)
        self._design[slot] = number
        self._observe(slot)

    def _observe(self, slot: int) -> None:
        state = self.state(slot)
        cells = state.design.cells
        self._tables[slot, :cells] = state.table()
        self._masks[slot, :cells] = state.mask > 0
        self._masks[slot, cells:] = False
        self._summaries[slot] = state.summary()

    def _observations(self) -> dict[str, NDArray[Any]]:
        return {"table": self._tables, "mask": self._masks, "summary": self._summaries}

    def _finish(self, slot: int, state: PlacementState) -> float:
        number = int(self._design[slot])
        task = self.tasks[number]
        cells = tuple(state.placed)
        cost, parts = task.finish(cells) if state.done else (INFEASIBLE_COST, (-1.0, -1.0, -1.0))
        self.finished.append(FinishedEpisode(number, cost, cells, parts))
        self.episodes += 1
        if task.mean_cost is None:
            task.mean_cost = cost if state.done else 1.2
        reward = task.mean_cost - cost
        if state.done:
            task.mean_cost = _MEMORY * task.mean_cost + (1.0 - _MEMORY) * cost
        return float(np.clip(self._scale * reward, -4.0, 4.0))
