"""``IncrementalPlacement``: moves, swaps and turns of nodes with the exact cost after each, and undo.

The cost is bit for bit that of a full evaluation of the same places, after any sequence of changes. It agrees with
`PlacementCost` to better than 1e-11: each contribution is rounded once, to a fixed resolution (`incremental_kernels`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike, NDArray

from a2perf.domains.circuit_training.engine.cost_model import CostWeights
from a2perf.domains.circuit_training.engine.engine_nodes import NetlistNode
from a2perf.domains.circuit_training.engine.placement import PlacementError
from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.netlists.netlist import KIND_MACRO, KIND_MACRO_PIN, ORIENTATIONS
from a2perf.errors import did_you_mean
from a2perf_placement.incremental.kernels import RESULTS, evaluate_all, evaluate_changes
from a2perf_placement.incremental.setup import copied, new_evaluation, new_places, no_changes, terms_of, wiring_of
from a2perf_placement.incremental.state import Changes, CostState
from a2perf_placement.profiles import CostProfile, PlacementCosts, cost_profile

Floats = NDArray[np.float64]
_FEWEST_PER_THREAD = 16  # copying the state for a thread costs about as much as this many probes


class IncrementalPlacement:
    """A placement with a cost that stays exact while nodes move.

    It copies the places from an engine and does not change the engine; `write_to` puts the places back.

    Args:
        plc: the engine with the design, its settings and its placement.
        profile: conventions of the evaluation: ``"circuit_training"``, ``"tilos"`` or a profile.
        weights: weights of the parts of the cost; the profile's by default.

    Raises:
        ConfigError: the profile is unknown, or a weight is out of range.
        PlacementError: a node is farther than (width + height) beyond the canvas.
    """

    def __init__(
        self,
        plc: PlacementCost,
        profile: str | CostProfile = "circuit_training",
        weights: CostWeights | None = None,
        undo_limit: int = 1000,
    ) -> None:
        self.profile = cost_profile(profile, weights)
        self._plc, self._netlist = plc, plc.netlist
        self._history: deque[Changes] = deque(maxlen=undo_limit)
        self._next, self._unused = no_changes(1), no_changes(1)
        self._results = np.zeros((1, RESULTS))
        self._everything = no_changes(1, plc.netlist.num_nodes)
        self._everything.nodes[0] = np.arange(plc.netlist.num_nodes)
        self._all_nets = np.arange(plc.netlist.num_nets, dtype=np.int32)
        self.reload()

    # --- places ----------------------------------------------------------------------------------------------------

    def reload(self) -> PlacementCosts:
        """Takes places, sizes and settings from the engine again; forgets what could be undone.

        Raises:
            PlacementError: a node is farther than (width + height) beyond the canvas.
        """
        plc, state = self._plc, self._plc.state
        self._terms = terms_of(plc, self.profile)
        standing = np.flatnonzero((state.placed == 1) & (self._netlist.kind != KIND_MACRO_PIN))
        for position in zip(state.x[standing].tolist(), state.y[standing].tolist(), strict=True):
            self._position(*position)
        self._wiring = wiring_of(plc, self._terms)
        self._now = new_evaluation(new_places(plc, self._terms), self._terms)
        self._history.clear()
        return self._evaluate(self._now, self._results[0])

    def write_to(self, plc: PlacementCost) -> None:
        """Puts places and orientations of all nodes into an engine of the same netlist."""
        places, state = self._now.places, plc.state
        for node in np.flatnonzero(places.orientation != state.orientation).tolist():
            state.turn(node, int(places.orientation[node]))
        state.x[:], state.y[:], state.placed[:] = places.x, places.y, places.placed
        state.place_all_pins()

    def location(self, node: NetlistNode) -> tuple[float, float]:
        """Returns the centre of a node, um; (-1, -1) if the node is not placed."""
        index, places = self._index(node), self._now.places
        return (float(places.x[index]), float(places.y[index])) if places.placed[index] else (-1.0, -1.0)

    def orientation(self, node: NetlistNode) -> str:
        """Returns the orientation of a macro."""
        return ORIENTATIONS[self._now.places.orientation[self._index(node)]]

    # --- changes ---------------------------------------------------------------------------------------------------

    def move(self, node: NetlistNode, x: float, y: float, orientation: str | None = None) -> PlacementCosts:
        """Moves the centre of a node, and turns it if an orientation is given; a node off the canvas is placed.

        Args:
            node: a macro, standard cell or port, by index or name.
            x: of the centre, um; at most (width + height) beyond the canvas.
            y: of the centre, um.
            orientation: N, S, FN, FS, E, W, FE, FW or FD; by default as it is.

        Returns:
            The costs after the move.

        Raises:
            PlacementError: the node is unknown, fixed or a pin, or the position or orientation is not valid.
        """
        self._set(self._movable(node), *self._position(x, y), orientation)
        return self._commit()

    def swap(self, one: NetlistNode, other: NetlistNode) -> PlacementCosts:
        """Exchanges the centres of two placed nodes, each in its orientation; returns the costs.

        Raises:
            PlacementError: a node is unknown, fixed, a pin or not placed, or both are the same.
        """
        self._set_swap(self._next, 0, one, other)
        return self._commit()

    def flip(self, node: NetlistNode, orientation: str) -> PlacementCosts:
        """Gives a placed macro an orientation, about its centre; returns the costs.

        Raises:
            PlacementError: the node is unknown, fixed, not a macro or not placed, or the orientation is unknown.
        """
        index = self._movable(node)
        self._check_placed(index)
        if self._netlist.kind[index] != KIND_MACRO:
            raise PlacementError(f"{self._name(index)} is not a macro", hint="name a macro")
        places = self._now.places
        return self.move(index, float(places.x[index]), float(places.y[index]), orientation)

    def remove(self, node: NetlistNode) -> PlacementCosts:
        """Takes a node off the canvas; returns the costs.

        Raises:
            PlacementError: the node is unknown, fixed or a pin.
        """
        index, places = self._movable(node), self._now.places
        self._set(index, float(places.x[index]), float(places.y[index]), None)
        self._next.placed[0, 0] = 0
        return self._commit()

    def undo(self) -> PlacementCosts:
        """Takes the last change back; returns the costs, which are those before it to the last bit.

        Raises:
            PlacementError: every kept change is undone already.
        """
        if not self._history:
            raise PlacementError(
                "there is no change to undo", hint=f"up to undo_limit = {self._history.maxlen} changes are kept"
            )
        self._keep(self._history.pop(), self._unused)
        return self.cost()

    # --- costs -----------------------------------------------------------------------------------------------------

    def cost(self) -> PlacementCosts:
        """Returns the costs of the placement as it is."""
        return PlacementCosts(*self._results[0].tolist())

    def maps(self) -> tuple[list[float], list[float], list[float]]:
        """Returns density, horizontal and vertical congestion of each cell, rows from the lower edge."""
        terms, congestion = self._terms, self._now.congestion.values / self._terms.congestion_unit
        horizontal, vertical = congestion.reshape(2, -1)
        horizontal = horizontal.reshape(terms.columns, terms.rows).T.ravel()
        return (self._now.density.values / terms.density_unit).tolist(), horizontal.tolist(), vertical.tolist()

    def recompute(self) -> PlacementCosts:
        """Returns the costs computed from scratch from the places alone; the kept sums are neither read nor changed."""
        results = np.zeros(RESULTS)
        return self._evaluate(new_evaluation(copied(self._now.places), self._terms), results)

    def probe(
        self,
        nodes: Sequence[NetlistNode] | NDArray[np.integer],
        x: ArrayLike,
        y: ArrayLike,
        orientations: Sequence[str] | None = None,
        threads: int = 1,
    ) -> Floats:
        """Returns the costs after each of some moves, none of which is kept.

        Moves of the same node are fastest one after the other.

        Args:
            x: of its centre, um, shape (moves,).
            y: of its centre, um.
            orientations: the orientation of each move; by default each node's own.
            threads: number of threads; each works on a copy of the state.

        Returns:
            Wirelength, density, congestion and cost of each move, shape (moves, 4).

        Raises:
            PlacementError: a node, position or orientation is not valid, the lengths differ, or ``threads`` is below 1.
        """
        at_x, at_y = np.asarray(x, np.float64).reshape(-1), np.asarray(y, np.float64).reshape(-1)
        moves = no_changes(len(nodes))
        if not len(at_x) == len(at_y) == len(nodes) or (orientations is not None and len(orientations) != len(nodes)):
            raise PlacementError(
                f"{len(nodes)} nodes, {len(at_x)} x, {len(at_y)} y and "
                f"{'no' if orientations is None else len(orientations)} orientations do not fit together",
                hint="give one of each per move",
            )
        for position in zip(at_x.tolist(), at_y.tolist(), strict=True):
            self._position(*position)
        indices = {node: self._movable(node) for node in dict.fromkeys(nodes)}
        moves.nodes[:, 0] = [indices[node] for node in nodes]
        moves.x[:, 0], moves.y[:, 0] = at_x, at_y
        own = self._now.places.orientation[moves.nodes[:, 0]]
        moves.orientations[:, 0] = own if orientations is None else [self._turned(name) for name in orientations]
        return self._probe(moves, threads)

    def probe_swaps(self, pairs: Sequence[tuple[NetlistNode, NetlistNode]], threads: int = 1) -> Floats:
        """Returns the costs after each of some swaps, none of which is kept, shape (swaps, 4); see `probe`.

        Raises:
            PlacementError: as `swap`, or ``threads`` is below 1.
        """
        swaps = no_changes(len(pairs))
        for row, (one, other) in enumerate(pairs):
            self._set_swap(swaps, row, one, other)
        return self._probe(swaps, threads)

    # --- the evaluation --------------------------------------------------------------------------------------------

    def _evaluate(self, evaluation: CostState, results: Floats) -> PlacementCosts:
        evaluate_all(self._everything, self._all_nets, self._wiring, self._terms, evaluation, results)
        return PlacementCosts(*results.tolist())

    def _commit(self) -> PlacementCosts:
        """Applies the prepared change and notes how to undo it."""
        before = no_changes(1)
        self._keep(self._next, before)
        self._history.append(before)
        return self.cost()

    def _keep(self, change: Changes, before: Changes) -> None:
        """Applies a change; ``before`` becomes the change that takes it back."""
        evaluate_changes(0, 1, True, change, before, self._wiring, self._terms, self._now, self._results)

    def _probe(self, changes: Changes, threads: int) -> Floats:
        if threads < 1:
            raise PlacementError(f"threads is {threads}", hint="give a number from 1 on")
        count = len(changes.nodes)
        results = np.zeros((count, RESULTS))
        threads = max(1, min(threads, count // _FEWEST_PER_THREAD))
        # All copies are made before the first thread changes the original.
        evaluations = [self._now]
        for _ in range(threads - 1):
            evaluations.append(CostState(*(copied(part) for part in self._now)))  # type: ignore[arg-type]

        def work(part: int) -> None:
            first, after = part * count // threads, (part + 1) * count // threads
            now = evaluations[part]
            evaluate_changes(first, after, False, changes, no_changes(1), self._wiring, self._terms, now, results)

        if threads == 1:
            work(0)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(work, range(threads)))
        return results

    # --- arguments -------------------------------------------------------------------------------------------------

    def _set(self, node: int, x: float, y: float, orientation: str | None) -> None:
        change = self._next
        change.nodes[0], change.x[0, 0], change.y[0, 0], change.placed[0, 0] = (node, -1), x, y, 1
        own = self._now.places.orientation[node]
        change.orientations[0, 0] = own if orientation is None else self._turned(orientation)

    def _set_swap(self, changes: Changes, row: int, one: NetlistNode, other: NetlistNode) -> None:
        first, second = self._movable(one), self._movable(other)
        if first == second:
            raise PlacementError(f"cannot swap {self._name(first)} with itself", hint="name two nodes")
        self._check_placed(first)
        self._check_placed(second)
        nodes, places = [first, second], self._now.places
        changes.nodes[row], changes.orientations[row], changes.placed[row] = nodes, places.orientation[nodes], 1
        changes.x[row], changes.y[row] = places.x[nodes[::-1]], places.y[nodes[::-1]]

    def _index(self, node: NetlistNode) -> int:
        return self._plc.get_node_index(node) if isinstance(node, str) else int(node)

    def _name(self, index: int) -> str:
        return repr(self._netlist.names[index])

    def _movable(self, node: NetlistNode) -> int:
        index = self._index(node)
        if not 0 <= index < self._netlist.num_nodes:
            raise PlacementError(
                f"there is no node {node!r}", hint=f"nodes are numbered from 0 to {self._netlist.num_nodes - 1}"
            )
        if self._netlist.kind[index] == KIND_MACRO_PIN:
            raise PlacementError(
                f"{self._name(index)} is a macro pin and goes where its macro goes", hint="name the macro"
            )
        if self._plc.state.fixed[index]:
            raise PlacementError(f"{self._name(index)} is fixed", hint="unfix it in the engine first")
        return index

    def _check_placed(self, index: int) -> None:
        if not self._now.places.placed[index]:
            raise PlacementError(f"{self._name(index)} is not placed", hint="move it onto the canvas first")

    def _position(self, x: float, y: float) -> tuple[float, float]:
        reach = self._terms.half_perimeter
        width, height = self._plc.get_canvas_width_height()
        # This form of the comparison also refuses a NaN.
        if not (-reach <= x <= width + reach and -reach <= y <= height + reach):
            raise PlacementError(
                f"({x}, {y}) is not a position near the canvas ({width:g} x {height:g} um)",
                hint=f"give finite coordinates at most {reach:g} um beyond the canvas",
            )
        return float(x), float(y)

    @staticmethod
    def _turned(orientation: str) -> int:
        if orientation not in ORIENTATIONS:
            raise PlacementError(
                f"{orientation!r} is not an orientation{did_you_mean(str(orientation), ORIENTATIONS)}",
                hint=f"choose one of: {', '.join(ORIENTATIONS)}",
            )
        return ORIENTATIONS.index(orientation)


def evaluate_placement(
    plc: PlacementCost, profile: str | CostProfile = "circuit_training", weights: CostWeights | None = None
) -> PlacementCosts:
    """Returns the costs of the placement in an engine by the conventions of a profile.

    Args:
        plc: the engine with the design, its settings and its placement.
        profile: ``"circuit_training"``, ``"tilos"`` or a profile.
        weights: weights of the parts of the cost; the profile's by default.

    Raises:
        ConfigError: the profile is unknown, or a weight is out of range.
    """
    return IncrementalPlacement(plc, profile, weights).cost()
