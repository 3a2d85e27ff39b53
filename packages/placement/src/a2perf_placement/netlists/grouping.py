"""Groups the standard cells of a flat netlist into clusters, the soft macros of a placement task.

The published procedure (Mirhoseini et al. 2021, open grouping step): each hard macro, and ports close together,
start a fixed group that takes in the cells connected to them. A partitioner distributes all other cells over fixed
and free groups and cuts few nets. Then groups that the given placement shows scattered are broken up, and small groups
join their best connected neighbour.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.netlists.netlist import KIND_MACRO, KIND_PORT, KIND_STDCELL, SIDES, Netlist
from a2perf.errors import ConfigError
from a2perf_placement.netlists.partitioning import partition

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_FREE_GROUPS = 500
_CELLS_PER_GROUP = 40  # at least, on average; a small design gets fewer free groups
_SCATTER = 16.0  # a group may span the square root of this part of the canvas's area
_SMALL = 4.0  # a group with fewer cells than the mean of the partition over this is small
_MERGE_ROUNDS = 20


@dataclass(frozen=True)
class GroupingSettings:
    """Parameters of the grouping.

    Attributes:
        groups: free groups of the partition; None for 500, or fewer for small designs.
        fixed_levels: levels of cells around a macro or port that join its group, 0..10.
        max_sinks: nets with more sinks, such as clocks, are left out.
        imbalance: how much larger than the mean a group of the partition may be, 0.01..2.
    """

    groups: int | None = None
    fixed_levels: int = 1
    max_sinks: int = 500
    imbalance: float = 0.6  # the published unbalance of 5 % per bisection adds up to 140 % over 500 parts
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises ConfigError where a value is out of its range."""
        limits = {
            "groups": (1, 100_000),
            "fixed_levels": (0, 10),
            "max_sinks": (1, 1_000_000),
            "imbalance": (0.01, 2.0),
            "seed": (0, 2**31 - 1),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ConfigError(f"{name} is {value!r}, out of its range", hint=f"give a number from {low} to {high}")


@dataclass(frozen=True, eq=False)
class Grouping:
    """Groups of a netlist.

    Attributes:
        group: group of each node, -1 for nodes that are not standard cells; int64, shape (nodes,).
        count: number of groups; all of them have cells.
        broken, merged: groups that breaking up added, and groups that joined others.
        cut: nets of the partition with vertices in several parts.
    """

    group: Ints
    count: int
    parts: int
    broken: int
    merged: int
    cut: int


@dataclass(frozen=True, eq=False)
class Hypergraph:
    """The nets over vertices: standard cells, hard macros with their pins, and ports.

    Attributes:
        starts, pins: nets of at least two distinct vertices, the driver first.
    """

    vertex_node: Ints
    starts: Ints
    pins: Ints

    @classmethod
    def of(cls, netlist: Netlist, max_sinks: int) -> Hypergraph:
        """Returns the hypergraph of a netlist without nets of more than ``max_sinks`` sinks."""
        nodes = np.flatnonzero(netlist.owner < 0)
        vertex = np.full(netlist.num_nodes, -1, np.int64)
        vertex[nodes] = np.arange(len(nodes))
        of_node = vertex[np.where(netlist.owner >= 0, netlist.owner, np.arange(netlist.num_nodes))]
        sizes = np.diff(netlist.net_start)
        net = np.repeat(np.arange(netlist.num_nets), sizes)
        keep = (sizes <= max_sinks + 1)[net]
        net, pins = net[keep], of_node[netlist.net_pins][keep]
        _, first = np.unique(net * len(nodes) + pins, return_index=True)
        first.sort()
        net, pins = net[first], pins[first]
        counts = np.bincount(net, minlength=netlist.num_nets)
        several = counts[net] > 1
        counts = counts[counts > 1]
        return cls(nodes, np.concatenate(([0], np.cumsum(counts))), pins[several])

    @property
    def net_of_pin(self) -> Ints:
        """Net of each pin."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def cut(self, part: Ints) -> int:
        """Returns how many nets have vertices in several parts."""
        return int((self.extreme(np.minimum, part) != self.extreme(np.maximum, part)).sum())

    def extreme(self, reduce: np.ufunc, values: Ints) -> Ints:
        """Returns the least or largest value (``np.minimum`` or ``np.maximum``) of each net's vertices."""
        if len(self.pins) == 0:
            return np.zeros(0, np.int64)
        found: Ints = reduce.reduceat(values[self.pins], self.starts[:-1])
        return found


def group_cells(
    netlist: Netlist,
    canvas: tuple[float, float],
    grid: tuple[int, int],
    settings: GroupingSettings | None = None,
) -> Grouping:
    """Groups the standard cells of a netlist.

    Args:
        netlist: ports, hard macros with pins, and standard cells. Where cells have positions, groups keep together.
        canvas: width and height, um.
        settings: parameters; published values by default.

    Raises:
        MissingDependency: Mt-KaHyPar is not installed.
    """
    settings = settings or GroupingSettings()
    graph = Hypergraph.of(netlist, settings.max_sinks)
    kind = netlist.kind[graph.vertex_node]
    cells = kind == KIND_STDCELL
    if not cells.any():
        return Grouping(np.full(netlist.num_nodes, -1, np.int64), 0, 0, 0, 0, 0)
    seeds = _seeds(netlist, graph, canvas, grid)
    free = settings.groups or max(1, min(_FREE_GROUPS, int(cells.sum()) // _CELLS_PER_GROUP))
    parts = free + int(seeds.max(initial=-1)) + 1
    fixed = np.where(seeds >= 0, seeds + free, -1)
    for _ in range(settings.fixed_levels):
        fixed = _with_neighbours(graph, fixed, cells)
    part = partition(
        graph.starts, graph.pins, len(kind), parts, fixed, imbalance=settings.imbalance, seed=settings.seed
    )
    cut = graph.cut(part)
    broken = merged = 0
    node = graph.vertex_node
    located = netlist.has_location[node] != 0
    if located[cells].all():
        at = np.stack([netlist.x[node], netlist.y[node]], axis=1)
        reach = math.sqrt(canvas[0] * canvas[1] / _SCATTER)
        part, broken = _broken_up(part, at, cells, reach)
        part, merged = _merged(graph, part, at, cells, reach / 2.0, parts)
    names, group = np.unique(part[cells], return_inverse=True)
    result = np.full(netlist.num_nodes, -1, np.int64)
    result[node[cells]] = group
    return Grouping(result, len(names), parts, broken, merged, cut)


def _seeds(netlist: Netlist, graph: Hypergraph, canvas: tuple[float, float], grid: tuple[int, int]) -> Ints:
    """Returns the fixed group of macros and ports, -1 for cells: one per hard macro, one per stretch of ports."""
    node = graph.vertex_node
    seeds = np.full(len(node), -1, np.int64)
    macros = np.flatnonzero(netlist.kind[node] == KIND_MACRO)
    seeds[macros] = np.arange(len(macros))
    groups = len(macros)
    ports = np.flatnonzero(netlist.kind[node] == KIND_PORT)
    cell = (canvas[0] / grid[0], canvas[1] / grid[1])
    sides = _sides(netlist, node[ports], canvas)
    for side in range(1, len(SIDES)):
        mine = ports[sides == side]
        axis = 1 if SIDES[side] in ("LEFT", "RIGHT") else 0
        along = (netlist.y if axis else netlist.x)[node[mine]]
        first = -math.inf
        for vertex, position in sorted(zip(mine.tolist(), along.tolist(), strict=True), key=lambda pair: pair[1]):
            if position - first > cell[axis]:
                first, groups = position, groups + 1
            seeds[vertex] = groups - 1
    return seeds


def _sides(netlist: Netlist, ports: Ints, canvas: tuple[float, float]) -> Ints:
    """Returns the side of each port: its own, or that of its sector of the canvas, as the diagonals cut it."""
    rising = netlist.x[ports] * canvas[1] / canvas[0]
    falling = canvas[1] - rising
    above, beyond = netlist.y[ports] > rising, netlist.y[ports] > falling
    left, right, top, bottom = map(SIDES.index, ("LEFT", "RIGHT", "TOP", "BOTTOM"))
    sector = np.where(above, np.where(beyond, top, left), np.where(beyond, right, bottom))
    own = netlist.side[ports].astype(np.int64)
    return np.where(own > 0, own, sector)


def _with_neighbours(graph: Hypergraph, fixed: Ints, cells: NDArray[np.bool_]) -> Ints:
    """Returns the fixed groups with the cells that share a net with them; of several groups the first takes a cell."""
    none = np.iinfo(np.int64).max
    net_group = graph.extreme(np.minimum, np.where(fixed >= 0, fixed, none))
    found = np.full(len(fixed), none)
    np.minimum.at(found, graph.pins, net_group[graph.net_of_pin])
    return np.where(cells & (fixed < 0) & (found < none), found, fixed)


def _broken_up(part: Ints, at: Floats, cells: NDArray[np.bool_], reach: float) -> tuple[Ints, int]:
    """Cuts groups with a box larger than ``reach`` into buckets of that size around their centre of mass."""
    members = np.flatnonzero(cells)
    _, group = np.unique(part[members], return_inverse=True)
    groups = int(group.max()) + 1
    low, high = np.full((groups, 2), np.inf), np.full((groups, 2), -np.inf)
    np.minimum.at(low, group, at[members])
    np.maximum.at(high, group, at[members])
    count = np.bincount(group)
    centre = np.stack([np.bincount(group, at[members, axis]) / count for axis in (0, 1)], axis=1)
    scattered = ((high - low) > reach).any(axis=1)
    bucket = np.floor((at[members] - centre[group]) / reach + 0.5).astype(np.int64)
    bucket[~scattered[group]] = 0
    _, split = np.unique(np.column_stack([group, bucket]), axis=0, return_inverse=True)
    result = part.copy()
    result[members] = split.reshape(-1)
    return result, int(split.max()) + 1 - groups


def _merged(
    graph: Hypergraph, part: Ints, at: Floats, cells: NDArray[np.bool_], reach: float, parts: int
) -> tuple[Ints, int]:
    """Joins small groups with the best connected group near them until none is left that can join."""
    members = np.flatnonzero(cells)
    result = part.copy()
    before = len(np.unique(result[members]))
    net = graph.net_of_pin
    cell_pins = cells[graph.pins]
    for _ in range(_MERGE_ROUNDS):
        names, group = np.unique(result[members], return_inverse=True)
        groups, count = len(names), np.bincount(group)
        small = count <= len(members) / parts / _SMALL
        if not small.any() or groups < 2:
            break
        of_vertex = np.full(len(result), -1, np.int64)
        of_vertex[members] = group
        centre = np.stack([np.bincount(group, at[members, axis]) / count for axis in (0, 1)], axis=1)
        target = _best_neighbours(net[cell_pins], of_vertex[graph.pins[cell_pins]], groups, small, centre, reach)
        # In order of size: a group that others have joined in this round stays, and waits for the next one.
        taken = np.zeros(groups, bool)
        joined = np.arange(groups)
        for index in np.argsort(count, kind="stable").tolist():
            if target[index] >= 0 and not taken[index] and joined[target[index]] == target[index]:
                joined[index] = target[index]
                taken[target[index]] = True
        if (joined == np.arange(groups)).all():
            break
        result[members] = names[joined[group]]
    return result, before - len(np.unique(result[members]))


def _best_neighbours(
    net: Ints, group: Ints, groups: int, small: NDArray[np.bool_], centre: Floats, reach: float
) -> Ints:
    """Returns the group that shares the most nets with each small group and has its centre near; -1 without one."""
    pairs = np.unique(net * groups + group)
    net, group = pairs // groups, pairs % groups
    of_small = small[group]
    # Join the small groups' nets with all groups of these nets.
    starts, ends = np.searchsorted(net, net[of_small]), np.searchsorted(net, net[of_small], side="right")
    left = np.repeat(group[of_small], ends - starts)
    offsets = np.arange(len(left)) - np.repeat(np.cumsum(ends - starts) - (ends - starts), ends - starts)
    right = group[np.repeat(starts, ends - starts) + offsets]
    near = (left != right) & (np.abs(centre[left] - centre[right]).sum(axis=1) <= reach)
    links, shared = np.unique(left[near] * groups + right[near], return_counts=True)
    best = np.full(groups, -1, np.int64)
    order = np.lexsort((-links, shared))
    best[links[order] // groups] = links[order] % groups
    return best
