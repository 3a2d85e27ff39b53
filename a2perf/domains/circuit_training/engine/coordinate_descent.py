"""Coordinate descent: one macro after the other is moved to the near cell where the cost is least.

A refinement of a finished placement, as the earlier environment ran it after its policy. Names and parameters are those
of its gin files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gin
import numpy as np

from a2perf.domains.circuit_training import starting_point
from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.errors import ArgumentError
from a2perf.domains.circuit_training.netlists.netlist import KIND_STDCELL
from a2perf.domains.circuit_training.rules import PlacementRules
from a2perf.domains.circuit_training.rules import node_order as ordered_nodes

_LEAST_GAIN = 1e-3  # of the cost, by an epoch
_ORDER_SEED = 111
_FAMILIES = (("N", "FN", "S", "FS"), ("E", "FE", "W", "FW"))


@gin.configurable(module="a2perf.circuit_training")
class CoordinateDescentPlacer:
    """Refines a placement in which all hard macros are placed.

    Args:
        plc: the engine with the placement.
        cost_fn: (plc, done) -> (cost, info).
        epochs: passes over all macros, at most.
        use_stdcell_placer: let the placer move soft macros and cells after each pass; else move them like
            macros.
        stdcell_placer: ``"fd"`` is the only one there is.
        node_order: ``"random"`` shuffles before each pass.
        accept_bad_stdcell_moves: keep what the placer did also where the cost grew.
        stdcell_place_every_n_macros: also run the placer after so many macros; 0 for never.
        optimize_only_orientation: turn macros in place instead of moving them.
        cell_search_prob: probability of looking at a cell other than the present one.
        k_distance_bounded_search: look at cells within ``k_distance_bound`` only.
        k_distance_bound: Manhattan distance in cells; grows by itself until a cell is found.
        seed: of shuffling and of ``cell_search_prob``.

    Raises:
        ArgumentError: the placer is not "fd", or a hard macro is not placed.
    """

    def __init__(
        self,
        plc: PlacementCost,
        cost_fn: Callable[..., tuple[float, dict[str, Any]]],
        epochs: int = 2,
        use_stdcell_placer: bool = True,
        stdcell_placer: str = "fd",
        node_order: str = "random",
        accept_bad_stdcell_moves: bool = False,
        stdcell_place_every_n_macros: int = 0,
        optimize_only_orientation: bool = False,
        cell_search_prob: float = 1.0,
        k_distance_bounded_search: bool = True,
        k_distance_bound: int = 5,
        seed: int = 123,
    ) -> None:
        if use_stdcell_placer and stdcell_placer != "fd":
            raise ArgumentError(f"stdcell_placer is {stdcell_placer!r}", hint="use 'fd', the force-directed placer")
        self._plc, self._cost_fn = plc, cost_fn
        self._epochs, self._places_cells = epochs, use_stdcell_placer
        self._accepts_bad = accept_bad_stdcell_moves
        self._every = stdcell_place_every_n_macros
        self._turns_only = optimize_only_orientation
        self._probability = cell_search_prob
        self._bound = k_distance_bound if k_distance_bounded_search else 0
        self._shuffles = node_order == "random"
        self._generator = np.random.default_rng(seed)
        nodes = ordered_nodes(plc, node_order, np.random.default_rng(_ORDER_SEED), PlacementRules())
        hard = {int(node) for node in plc.hard_macro_indices}
        self._hard = hard
        self._nodes = [node for node in nodes if node in hard or not use_stdcell_placer]
        if self._turns_only:
            self._nodes = [node for node in self._nodes if node in hard]
        for node in hard:
            if not plc.is_node_placed(node):
                raise ArgumentError(f"{plc.get_node_name(node)} is not placed", hint="place all hard macros first")

    def place(self) -> float:
        """Refines the placement in the engine and returns its cost."""
        cost = self._cost()
        for _ in range(self._epochs):
            before = cost
            if self._shuffles:
                self._generator.shuffle(self._nodes)
            for count, node in enumerate(self._nodes, start=1):
                cost = self._turn(node) if self._turns_only else self._move(node)
                if self._every and count % self._every == 0:
                    cost = self._place_cells(cost)
            cost = self._place_cells(cost)
            if before <= 0.0 or (before - cost) / before < _LEAST_GAIN:
                break
        return cost

    def _cost(self) -> float:
        return float(self._cost_fn(self._plc, True)[0])

    def _move(self, node: int) -> float:
        """Moves a node to the best candidate cell, turning hard macros too; returns the cost there."""
        plc = self._plc
        here = int(plc.get_grid_cell_of_node(node))
        at, facing = plc.get_node_location(node), self._orientations(node)
        # Off the canvas first: the mask counts what the node itself covers.
        plc.unplace_node(node)
        cells = self._candidates(node, here)
        # A node need not be at the middle of its cell; in its present cell it keeps its exact position.
        places = [at if cell == here else plc.cell_centre(cell) for cell in cells]
        plc.update_node_coords(node, *at)
        return self._put_at_best(node, [(x, y, orientation) for x, y in places for orientation in facing])

    def _turn(self, node: int) -> float:
        """Turns a macro in place to the best orientation of its family; returns the cost with it."""
        at = self._plc.get_node_location(node)
        return self._put_at_best(node, [(*at, orientation) for orientation in self._orientations(node)])

    def _put_at_best(self, node: int, tried: list[tuple[float, float, str]]) -> float:
        """Puts a node at the cheapest of some places; returns the cost there."""
        costs = []
        for place in tried:
            self._put(node, *place)
            costs.append(self._cost())
        # The first of equals: the present cell comes first, so a node stays if nothing is gained.
        best = int(np.argmin(costs))
        self._put(node, *tried[best])
        return costs[best]

    def _put(self, node: int, x: float, y: float, orientation: str) -> None:
        if orientation:
            self._plc.update_macro_orientation(node, orientation)
        self._plc.update_node_coords(node, x, y)

    def _orientations(self, node: int) -> tuple[str, ...]:
        """The family of the present orientation, the present one first; one empty word for soft macros."""
        if node not in self._hard:
            return ("",)
        now = self._plc.get_macro_orientation(node)
        family = _FAMILIES[1] if now in _FAMILIES[1] else _FAMILIES[0]
        return (now, *(orientation for orientation in family if orientation != now))

    def _candidates(self, node: int, here: int) -> list[int]:
        columns, _ = self._plc.get_grid_num_columns_rows()
        allowed = np.flatnonzero(np.asarray(self._plc.get_node_mask(node)))
        if self._bound:
            distance = np.abs(allowed // columns - here // columns) + np.abs(allowed % columns - here % columns)
            bound = self._bound
            while len(allowed) and not (distance <= bound).any():
                bound += self._bound
            allowed = allowed[distance <= bound]
        chosen = [
            int(cell)
            for cell in allowed
            if cell != here and (self._probability >= 1.0 or self._generator.random() < self._probability)
        ]
        return [here, *chosen]

    def _place_cells(self, cost: float) -> float:
        """Lets the placer move soft macros and cells from their positions; undoes it if the cost grew."""
        if not self._places_cells:
            return cost
        plc = self._plc
        movable = [int(node) for node in plc.soft_macro_indices] + np.flatnonzero(
            plc.netlist.kind == KIND_STDCELL
        ).tolist()
        before = {node: plc.get_node_location(node) for node in movable}
        starting_point.place_soft_macros(plc, use_current_loc=True)
        after = self._cost()
        if after <= cost or self._accepts_bad:
            return after
        for node, at in before.items():
            plc.update_node_coords(node, *at)
        return cost
