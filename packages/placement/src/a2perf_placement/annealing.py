"""Simulated annealing over the positions of hard macros: the field's standard comparison with learned placers.

A move puts one macro into another feasible cell or swaps two of equal size; the Metropolis rule accepts or rejects it.
Costs are those of the environment; the force-directed placer updates the soft macros from time to time. One engine with
only the hard macros checks feasibility; `IncrementalPlacement` computes the cost after each move, or the environment's
engine if its cost function is not the standard one.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.cost_model import CostWeights, cost_info_function, cost_weights
from a2perf.domains.circuit_training.errors import ArgumentError
from a2perf_placement.incremental import IncrementalPlacement


@dataclass(frozen=True)
class Schedule:
    """The schedule of the annealing.

    Attributes:
        time_budget_s: wall-clock seconds.
        first_temperature: of the cost, at the start; it falls geometrically.
        replace_every: moves between two runs of the force-directed placer.
        max_moves: maximum number of moves; 0 for no limit.
    """

    time_budget_s: float = 20.0
    first_temperature: float = 0.02
    last_temperature: float = 2e-4
    swap_probability: float = 0.3
    replace_every: int = 1000
    max_moves: int = 0


class Annealing:
    """Anneals the placement of one environment's design.

    Args:
        env: a circuit training environment; its engine is used, which ends its episode.
        schedule: duration and temperatures.
        incremental: evaluate moves with `IncrementalPlacement`; otherwise with the environment's engine.
    """

    def __init__(self, env: Any, schedule: Schedule, seed: int, *, incremental: bool = True) -> None:
        self.env, self.schedule = env.unwrapped, schedule
        self.generator = np.random.default_rng(seed)
        self.plc: Any = self.env.plc
        self.order: list[int] = list(self.env.macro_order)
        self.moves = 0
        self.cells: dict[int, int] = self._legal_start(env)
        self.legal: Any = type(self.plc)(self.plc.netlist, 0.1, 0.1)
        self.legal.make_soft_macros_square()
        self.legal.set_canvas_size(*self.plc.get_canvas_width_height())
        self.legal.set_placement_grid(*self.plc.get_grid_num_columns_rows())
        self.legal.unplace_all_nodes()
        for blockage in self.plc.get_blockages():
            self.legal.create_blockage(*blockage)
        for node, cell in self.cells.items():
            self.legal.place_node(node, cell)
        weights = _weights_of(self.env.cost_function) if incremental else None
        self._costs = None if weights is None else IncrementalPlacement(self.plc, weights=weights)
        sizes = [self.plc.get_node_width_height(node) for node in self.order]
        self.alike = {
            node: [other for other, that in zip(self.order, sizes, strict=True) if that == size and other != node]
            for node, size in zip(self.order, sizes, strict=True)
        }

    def _legal_start(self, env: Any) -> dict[int, int]:
        """Returns a cell per macro: the feasible one nearest to its force-directed position, or the first one."""
        for nearest in (True, False):
            observation, info = env.reset(seed=0)
            cells: dict[int, int] = {}
            ended = False
            for node in self.order:
                actions = np.flatnonzero(info["action_mask"])
                if len(actions) == 0:
                    break
                action = self._nearest(observation, actions) if nearest else int(actions[0])
                cells[node] = self.env.translate_to_original_canvas(action)
                observation, _, ended, _, info = env.step(action)
            if ended and len(cells) == len(self.order):
                return cells
        raise ArgumentError(
            "no legal start was found for annealing", hint="the design is too full for its greedy start"
        )

    def _nearest(self, observation: Any, actions: NDArray[np.int64]) -> int:
        index = int(observation["current_node"][0])
        width, height = self.plc.get_canvas_width_height()
        x = float(observation["locations_x"][index]) * (width + height)
        y = float(observation["locations_y"][index]) * (width + height)
        cells = np.array([self.env.translate_to_original_canvas(int(action)) for action in actions])
        row, column = np.divmod(cells, self.env.grid_cols)
        cell_width, cell_height = width / self.env.grid_cols, height / self.env.grid_rows
        distance = np.abs((column + 0.5) * cell_width - x) + np.abs((row + 0.5) * cell_height - y)
        return int(actions[int(np.argmin(distance))])

    def cost(self) -> float:
        """Returns the cost of the placement as it is."""
        return float(self.env.get_cost_info(done=True)[0])

    def run(self, report: Callable[[int, float, float], None] | None = None) -> dict[int, int]:
        """Anneals, and returns the best placement found: a cell per macro.

        Args:
            report: called after every run of the placer with the number of moves, the current cost and the best cost.
        """
        schedule, started = self.schedule, time.monotonic()
        cost = self._replace()
        best, best_cells = cost, dict(self.cells)
        while True:
            share = (time.monotonic() - started) / schedule.time_budget_s
            if schedule.max_moves:
                share = max(share, self.moves / schedule.max_moves)
            if share >= 1.0:
                break
            cooling = (schedule.last_temperature / schedule.first_temperature) ** share
            cost = self._try_move(cost, schedule.first_temperature * cooling)
            self.moves += 1
            if self.moves % schedule.replace_every == 0:
                cost = self._replace()
                if cost < best:
                    best, best_cells = cost, dict(self.cells)
                if report is not None:
                    report(self.moves, cost, best)
        if self._replace() < best:
            best_cells = dict(self.cells)
        return best_cells

    def _replace(self) -> float:
        """Places hard macros in their cells and soft ones by forces; returns the cost."""
        for node, cell in self.cells.items():
            self.plc.place_node(node, cell)
        self.env.analytical_placer()
        return self.cost() if self._costs is None else self._costs.reload().cost

    def _try_move(self, cost: float, temperature: float) -> float:
        node = self.order[int(self.generator.integers(len(self.order)))]
        others = self.alike[node]
        if others and self.generator.random() < self.schedule.swap_probability:
            other = others[int(self.generator.integers(len(others)))]
            change = {node: self.cells[other], other: self.cells[node]}
        else:
            self.legal.unplace_node(node)
            allowed = np.flatnonzero(self.legal.get_node_mask(node))
            self.legal.place_node(node, self.cells[node])
            if len(allowed) == 0:
                return cost
            change = {node: int(allowed[int(self.generator.integers(len(allowed)))])}
        changed = self._changed_cost(change)
        if changed <= cost or self.generator.random() < math.exp((cost - changed) / temperature):
            self._put(change, self.legal)
            self.cells.update(change)
            return changed
        if self._costs is None:
            self._put({moved: self.cells[moved] for moved in change}, self.plc)
        else:
            self._costs.undo()
        return cost

    def _changed_cost(self, change: dict[int, int]) -> float:
        """Moves macros to other cells and returns the cost."""
        if self._costs is None:
            self._put(change, self.plc)
            return self.cost()
        if len(change) == 2:
            return self._costs.swap(*change).cost
        ((node, cell),) = change.items()
        return self._costs.move(node, *self.plc.cell_centre(cell)).cost

    @staticmethod
    def _put(cells: dict[int, int], engine: Any) -> None:
        for node, cell in cells.items():
            engine.place_node(node, cell)


def _weights_of(cost_function: Callable[..., Any]) -> CostWeights | None:
    """Returns the weights of a cost function if it is `cost_info_function`, or that with weights bound to it.

    Any other function may depend on more than the three parts of the cost.
    """
    if isinstance(cost_function, functools.partial) and cost_function.func is cost_info_function:
        weights = cost_function.keywords["weights"]
    elif cost_function is cost_info_function:
        weights = cost_weights()
    else:
        return None
    # Like cost_info_function, which skips a part unless its weight is positive.
    return CostWeights(*(max(weight, 0.0) for weight in dataclasses.astuple(weights)))
