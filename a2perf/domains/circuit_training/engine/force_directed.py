"""The force-directed placer: pulls soft macros and standard cells along their nets and pushes overlapping macros apart.

Prepares a placement for the kernels: every movable node and every fixed pin of a net gets a slot in one array of
positions. Edges between two fixed ends move nothing and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.force_kernels import Edges, run_phase, scratch
from a2perf.domains.circuit_training.engine.placement import Placement, PlacementError
from a2perf.domains.circuit_training.netlists.netlist import KIND_MACRO, KIND_PORT

Floats = NDArray[np.float64]

FULL_SLACK_UP_TO = 10.0  # attraction above which the slack of an edge shrinks


Schedule = tuple[Sequence[int], Sequence[float], Sequence[float], Sequence[float]]
"""Of each phase: steps; um that the node with the largest force moves along an axis in one step; pull per um and unit
of net weight; push between two overlapping macros."""


def _phases(schedule: Schedule) -> list[tuple[int, float, float, float]]:
    lists = [np.atleast_1d(np.asarray(given, dtype=np.float64)) for given in schedule]
    if len({len(given) for given in lists}) != 1:
        raise PlacementError(
            f"the schedule's lists have {', '.join(str(len(given)) for given in lists)} entries",
            hint="give num_steps, max_move_distance, attract_factor and repel_factor the same length",
        )
    if not all(np.isfinite(given).all() and (given >= 0).all() for given in lists):
        raise PlacementError("the schedule holds a negative or infinite value", hint="use finite values from 0 on")
    return [(int(steps), move, attract, repel) for steps, move, attract, repel in zip(*lists, strict=True)]


class _Edges:
    """The nets as edges between slots.

    Attributes:
        slot_node: the node (a pin where fixed) of each slot; movable nodes first.
        drivers, start, sinks: nets with edges: driver's slot, first edge, sinks' slots.
    """

    def __init__(self, placement: Placement, movable: NDArray[np.int64]) -> None:
        netlist = placement.netlist
        owner = np.where(netlist.owner >= 0, netlist.owner, np.arange(netlist.num_nodes))
        rank = np.full(netlist.num_nodes, -1, dtype=np.int64)
        rank[movable] = np.arange(len(movable))
        counts = np.diff(netlist.net_start) - 1
        net_driver = netlist.net_pins[netlist.net_start[:-1]].astype(np.int64)
        is_sink = np.ones(len(netlist.net_pins), dtype=bool)
        is_sink[netlist.net_start[:-1]] = False
        net = np.repeat(np.arange(netlist.num_nets), counts)
        driver, sink = net_driver[net], netlist.net_pins[is_sink].astype(np.int64)
        # A node that will move counts as placed: the run gives it a position.
        present = (placement.placed[driver] | (rank[owner[driver]] >= 0)) & (
            placement.placed[sink] | (rank[owner[sink]] >= 0)
        )
        moves = (rank[owner[driver]] >= 0) | (rank[owner[sink]] >= 0)
        chosen = (owner[driver] != owner[sink]) & moves & present.astype(bool)
        net, driver, sink = net[chosen], driver[chosen], sink[chosen]
        ends = np.concatenate((driver, sink))
        fixed = np.unique(ends[rank[owner[ends]] < 0])
        slot = rank[owner]
        slot[fixed] = len(movable) + np.arange(len(fixed))
        self.slot_node = np.concatenate((movable, fixed))
        _, first = np.unique(net, return_index=True)
        self.drivers = slot[driver[first]].astype(np.uint32)
        self.start = np.append(first, len(net)).astype(np.uint64)
        self.sinks = slot[sink].astype(np.uint32)
        self.driver_of_edge = slot[driver]
        self.weight = netlist.weight[driver]
        self.at_port = (netlist.kind[driver] == KIND_PORT) | (netlist.kind[sink] == KIND_PORT)


def _half_sizes(placement: Placement) -> Floats:
    """Returns the half sizes of nodes for repulsion and for the canvas border, um, shape (nodes, 2)."""
    netlist = placement.netlist
    half = np.zeros((netlist.num_nodes, 2))
    half[placement.hard, 0] = placement.width[placement.hard] / 2
    half[placement.hard, 1] = placement.height[placement.hard] / 2
    half[placement.soft] = (np.sqrt(placement.width[placement.soft] * placement.height[placement.soft]) / 2)[:, None]
    return half


def place_by_forces(
    placement: Placement,
    canvas: tuple[float, float],
    grid: tuple[int, int],
    schedule: Schedule,
    *,
    use_current_location: bool,
    move_standard_cells: bool = True,
    move_macros: bool = False,
    io_factor: float = 1.0,
    skip_fixed: bool = False,
) -> None:
    """Moves the movable nodes; all of them are placed afterwards.

    Args:
        use_current_location: start from where placed nodes are instead of from the canvas's centre.
        skip_fixed: keep fixed nodes in place instead of refusing them.

    Raises:
        PlacementError: a node to be moved is fixed, or the lists of the schedule differ in length or have a value that
            is negative or not finite.
    """
    phases = _phases(schedule)
    groups = [placement.soft, placement.standard_cells] if move_standard_cells else []
    groups += [placement.hard] if move_macros else []
    nodes = np.sort(np.concatenate([*groups, np.zeros(0, dtype=np.int64)]).astype(np.int64))
    fixed = placement.fixed[nodes] == 1
    if fixed.any() and not skip_fixed:
        name = placement.netlist.names[int(nodes[np.argmax(fixed)])]
        raise PlacementError(f"cannot place fixed node {name!r}", hint="unfix it, or do not move macros")
    movable = nodes[~fixed]
    if len(movable) == 0:
        return
    start_here = placement.placed[movable] == 1 if use_current_location else np.zeros(len(movable), dtype=bool)
    placement.x[movable[~start_here]] = canvas[0] / 2
    placement.y[movable[~start_here]] = canvas[1] / 2
    # the edges depend on which nodes move and are placed, and a placer runs many times on one state of both
    key = (movable.tobytes(), placement.placed.tobytes())
    if placement.edges is None or placement.edges[0] != key:
        placement.edges = (key, _Edges(placement, movable))
    edges = placement.edges[1]
    moves = np.zeros(placement.netlist.num_nodes, dtype=bool)
    moves[movable] = True
    standing = placement.macros[~moves[placement.macros] & (placement.placed[placement.macros] == 1)]
    nodes = np.concatenate((edges.slot_node, standing))
    position = np.ascontiguousarray(np.stack((placement.x[nodes], placement.y[nodes]), axis=1))
    half = _half_sizes(placement)[nodes]
    moving_macros = np.flatnonzero(placement.netlist.kind[movable] == KIND_MACRO)
    slots = np.concatenate((moving_macros, len(edges.slot_node) + np.arange(len(standing))))
    # In the order of nodes, not slots: the pushes are added in this order, which the result depends on.
    macro_slots = slots[np.argsort(nodes[slots])].astype(np.uint32)
    reach = half[edges.driver_of_edge] + half[edges.sinks]
    memory = scratch(len(nodes), len(macro_slots), grid[0] * grid[1])
    for steps, max_move, attract, repel in phases:
        # Without attraction it stays uninitialised, since the kernel then reads no spring.
        springs = np.empty((len(edges.sinks), 3))
        if attract != 0:
            stiffness = edges.weight * attract
            springs[:, 0] = np.where(edges.at_port, stiffness * io_factor, stiffness)
            springs[:, 1:] = reach * min(1.0, FULL_SLACK_UP_TO / attract)
        run_phase(
            steps,
            max_move,
            attract,
            repel,
            len(movable),
            position,
            half,
            Edges(edges.drivers, edges.start, edges.sinks, springs),
            macro_slots,
            np.array(canvas),
            *grid,
            memory,
        )
    placement.x[movable] = position[: len(movable), 0]
    placement.y[movable] = position[: len(movable), 1]
    placement.placed[movable] = 1
    placement.place_all_pins()
