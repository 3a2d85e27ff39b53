"""Reference placers: random, greedy, simulated annealing, coordinate descent. Each takes a `Benchmark`.

Hard macros go to cells of the grid that the engine's masks allow; soft macros move freely. Costs come from
`IncrementalPlacement`, so each probed or tried move costs a fraction of a full evaluation.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.errors import ArgumentError
from a2perf.domains.circuit_training.netlists.netlist import ORIENTATIONS
from a2perf_placement.benchmark import SOFT, Benchmark
from a2perf_placement.incremental import IncrementalPlacement
from a2perf_placement.profiles import cost_profile

SPACING = 0.1  # um; keeps positions legal that are rounded to single precision
_RANDOM_TRIES = 10
_COOLING = 1e-3  # last temperature of the annealing relative to the first
_SAMPLED_MOVES = 200
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class PlacerResult(NamedTuple):
    """A placement: centres, um, shape (nodes, 2), and the index of each orientation, shape (nodes,)."""

    positions: Floats
    orientations: Ints

    def named(self) -> tuple[Floats, list[str]]:
        """Returns positions and names of orientations, as ``place`` may return them."""
        return self.positions, [ORIENTATIONS[code] for code in self.orientations]


class HardMacros:
    """Which cells are free for each movable hard macro while others are placed.

    Attributes:
        nodes: movable hard macros, the largest first; indices of the netlist.
    """

    def __init__(self, benchmark: Benchmark) -> None:
        self.plc = plc = benchmark.engine(SPACING)
        plc.unplace_all_nodes()
        hard = benchmark.order[: benchmark.num_hard]
        movable = hard[~benchmark.fixed[: benchmark.num_hard]]
        area = plc.state.width[movable] * plc.state.height[movable]
        self.nodes: list[int] = movable[np.argsort(-area, kind="stable")].tolist()

    def free(self, node: int) -> Ints:
        """Returns the free cells of a macro; its own counts as free."""
        placed = self.plc.is_node_placed(node)
        x, y = self.plc.get_node_location(node)
        if placed:
            self.plc.unplace_node(node)
        cells = np.flatnonzero(self.plc.get_node_mask(node))
        if placed:
            self.plc.state.put(node, x, y)
        return cells.astype(np.int64)

    def put(self, node: int, cell: int) -> tuple[float, float]:
        """Places a macro in a cell and returns its centre, um."""
        x, y = self.plc.cell_centre(cell)
        self.plc.state.put(node, x, y)
        return x, y


def random_placement(benchmark: Benchmark, generator: np.random.Generator) -> PlacerResult:
    """Places each hard macro in a random free cell; all other nodes stay at their initial positions.

    Raises:
        ArgumentError: no legal placement was found.
    """
    macros = HardMacros(benchmark)
    for attempt in range(_RANDOM_TRIES + 1):
        macros.plc.unplace_all_nodes()
        # The last try packs the macros from the lower left corner.
        last = attempt == _RANDOM_TRIES
        for node in macros.nodes:
            cells = macros.free(node)
            if not len(cells):
                break
            macros.put(node, int(cells[0] if last else generator.choice(cells)))
        else:
            return _result(benchmark, macros.plc)
    raise ArgumentError(
        f"no legal placement of {benchmark.name} was found", hint="the grid is too coarse or the design too full"
    )


def greedy_placement(benchmark: Benchmark) -> PlacerResult:
    """Places hard macros by size, each in the free cell with the lowest cost; all other nodes keep their positions.

    Raises:
        ArgumentError: no legal placement was found.
    """
    macros, costs = HardMacros(benchmark), _costs(benchmark)
    for node in macros.nodes:
        costs.remove(node)
    for node in macros.nodes:
        cells = macros.free(node)
        if not len(cells):
            return random_placement(benchmark, np.random.default_rng(0))
        centres = np.array([macros.plc.cell_centre(int(cell)) for cell in cells])
        probed = costs.probe([node] * len(cells), centres[:, 0], centres[:, 1])
        costs.move(node, *macros.put(node, int(cells[int(np.argmin(probed[:, 3]))])))
    return _written(benchmark, costs)


def annealed_placement(
    benchmark: Benchmark, *, max_moves: int = 0, time_s: float = math.inf, seed: int = 0
) -> PlacerResult:
    """Anneals from the greedy placement: moves, swaps and flips of hard macros, and moves of soft ones.

    The temperature falls geometrically, from the median cost of a worsening move to a thousandth of it.

    Args:
        max_moves: number of moves; 0 for no limit.
        time_s: wall time, seconds.

    Raises:
        ArgumentError: neither limit is given, or no legal placement was found.
    """
    if not max_moves and not math.isfinite(time_s):
        raise ArgumentError("neither max_moves nor time_s is given", hint="give one of them")
    started = time.monotonic()
    search = _Search(benchmark, greedy_placement(benchmark), seed)
    cost, move = search.costs.cost().cost, 0
    first, start = cost, _written(benchmark, search.costs)
    hottest = search.median_worsening(cost)
    while True:
        share = (time.monotonic() - started) / time_s
        share = max(share, move / max_moves) if max_moves else share
        if share >= 1.0:
            break
        cost = search.step(cost, hottest * _COOLING**share, share)
        move += 1
    return start if first < cost else _written(benchmark, search.costs)


def coordinate_descent_placement(
    benchmark: Benchmark, *, sweeps: int = 3, time_s: float = math.inf, seed: int = 0
) -> PlacerResult:
    """Improves the greedy placement node by node: hard macros over all free cells, soft ones over their neighbourhood.

    Args:
        sweeps: how often each node is looked at; soft macros move half as far in each further one.
        time_s: wall time, seconds.
        seed: of the order of nodes.

    Raises:
        ArgumentError: no legal placement was found.
    """
    started = time.monotonic()
    search = _Search(benchmark, greedy_placement(benchmark), seed)
    costs, macros = search.costs, search.macros
    for sweep in range(sweeps):
        before = costs.cost().cost
        for node in search.generator.permutation(np.concatenate((macros.nodes, search.soft)).astype(np.int64)).tolist():
            if time.monotonic() - started > time_s:
                return _written(benchmark, costs)
            if node in search.alike:
                centres = np.array([macros.plc.cell_centre(int(cell)) for cell in macros.free(node)]).reshape(-1, 2)
            else:
                centres = search.around(node, 0.5**sweep)
            if not len(centres):
                continue
            probed = costs.probe([node] * len(centres), centres[:, 0], centres[:, 1])[:, 3]
            at = int(np.argmin(probed))
            if probed[at] < costs.cost().cost:
                costs.move(node, *centres[at])
                if node in search.alike:
                    macros.plc.state.put(node, *centres[at])
        if costs.cost().cost > before * (1.0 - 1e-4):
            break
    return _written(benchmark, costs)


class _Search:
    """The state of a local search: the exact cost, and which cells are free.

    Attributes:
        alike: movable hard macros of the same size as each.
    """

    def __init__(self, benchmark: Benchmark, start: PlacerResult, seed: int) -> None:
        self.benchmark, self.generator = benchmark, np.random.default_rng(seed)
        self.macros, self.costs = HardMacros(benchmark), _costs(benchmark, start)
        state = self.macros.plc.state
        for node in self.macros.nodes:
            state.put(node, *self.costs.location(node))
        sizes = {node: (float(state.width[node]), float(state.height[node])) for node in self.macros.nodes}
        self.alike = {
            node: [other for other in self.macros.nodes if other != node and sizes[other] == size]
            for node, size in sizes.items()
        }
        self.soft = benchmark.order[(benchmark.node_kinds >= SOFT) & ~benchmark.fixed]
        self.cell = np.array(benchmark.canvas) / np.array(benchmark.grid)
        half = np.stack((state.width, state.height), axis=1) / 2
        self.low = np.minimum(half, np.array(benchmark.canvas) / 2)
        self.high = np.array(benchmark.canvas) - self.low
        self.worsened: list[float] = []
        self.flips = [name for name in benchmark.allowed_orientations if name in ("N", "FN", "S", "FS")]

    def around(self, node: int, scale: float) -> Floats:
        """Returns 24 positions around a node, up to two cells times ``scale`` away, shape (24, 2)."""
        steps = np.array([(i, j) for i in range(-2, 3) for j in range(-2, 3) if i or j], np.float64)
        at = np.array(self.costs.location(node)) + steps * self.cell * scale
        return np.asarray(np.clip(at, self.low[node], self.high[node]))

    def median_worsening(self, cost: float) -> float:
        """Returns by how much a random move raises the cost if it does, the median over some moves; none is kept."""
        self.worsened = []
        for _ in range(_SAMPLED_MOVES):
            self.step(cost, 0.0, 0.0)
        return float(np.median(self.worsened)) if self.worsened else 1e-6 * cost

    def step(self, cost: float, temperature: float, share: float) -> float:
        """Tries one move; returns the cost after it was kept or taken back."""
        draw = self.generator.random()
        if len(self.soft) and (draw < 0.5 or not self.macros.nodes):
            node = int(self.soft[int(self.generator.integers(len(self.soft)))])
            reach = self.cell * (4.0 * (1.0 - share) + 0.25)
            at = np.array(self.costs.location(node)) + self.generator.normal(size=2) * reach
            changed = self.costs.move(node, *np.clip(at, self.low[node], self.high[node])).cost
            return self._judged(cost, changed, temperature)
        if not self.macros.nodes:
            return cost
        node = self.macros.nodes[int(self.generator.integers(len(self.macros.nodes)))]
        if draw < 0.6 and len(self.flips) > 1 and self.costs.orientation(node) in self.flips:
            changed = self.costs.flip(node, self.flips[int(self.generator.integers(len(self.flips)))]).cost
            return self._judged(cost, changed, temperature)
        if draw < 0.8 and self.alike[node]:
            other = self.alike[node][int(self.generator.integers(len(self.alike[node])))]
            return self._hard(cost, self.costs.swap(node, other).cost, temperature, (node, other))
        cells = self.macros.free(node)
        if not len(cells):
            return cost
        at_cell = self.macros.plc.cell_centre(int(self.generator.choice(cells)))
        return self._hard(cost, self.costs.move(node, *at_cell).cost, temperature, (node,))

    def _hard(self, cost: float, changed: float, temperature: float, nodes: tuple[int, ...]) -> float:
        after = self._judged(cost, changed, temperature)
        for node in nodes:
            self.macros.plc.state.put(node, *self.costs.location(node))
        return after

    def _judged(self, cost: float, changed: float, temperature: float) -> float:
        if temperature == 0.0:
            if changed > cost:
                self.worsened.append(changed - cost)
            self.costs.undo()
            return cost
        if changed <= cost or self.generator.random() < math.exp((cost - changed) / temperature):
            return changed
        self.costs.undo()
        return cost


def _costs(benchmark: Benchmark, start: PlacerResult | None = None) -> IncrementalPlacement:
    plc = benchmark.engine()
    if start is not None:
        state = plc.state
        for node, code in zip(benchmark.order.tolist(), start.orientations.tolist(), strict=True):
            if code != max(int(state.orientation[node]), 0):
                state.turn(node, code)
        state.x[benchmark.order], state.y[benchmark.order] = start.positions.T
        state.place_all_pins()
    return IncrementalPlacement(plc, cost_profile(benchmark.profile, benchmark.cost_weights()))


def _result(benchmark: Benchmark, hard: PlacementCost) -> PlacerResult:
    """Returns the hard macros of an engine with the initial positions of all other nodes."""
    positions = benchmark.positions.copy()
    macros = benchmark.order[: benchmark.num_hard]
    positions[: benchmark.num_hard] = np.stack((hard.state.x[macros], hard.state.y[macros]), axis=1)
    return PlacerResult(positions, np.array([ORIENTATIONS.index(name) for name in benchmark.orientations], np.int64))


def _written(benchmark: Benchmark, costs: IncrementalPlacement) -> PlacerResult:
    plc = benchmark.engine()
    costs.write_to(plc)
    state, order = plc.state, benchmark.order
    codes = np.maximum(state.orientation[order], 0).astype(np.int64)
    return PlacerResult(np.stack((state.x[order], state.y[order]), axis=1), codes)
