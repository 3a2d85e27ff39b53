"""Half-perimeter wirelength: per net the width plus the height of the box around its pins, times its weight.

The length of each net is stored, and a move recomputes only the nets of the moved nodes. The sum always runs over all
nets in order: floating-point addition is not associative, and an incremental sum would depend on earlier moves.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.placement import Placement
from a2perf.domains.circuit_training.netlists.netlist import Netlist
from a2perf.domains.compilation import compiled_part, compiled_without_allocation

Floats = NDArray[np.float64]


@compiled_part
def net_length(
    net: int,
    net_start: NDArray[np.int64],
    net_pins: NDArray[np.int32],
    weight: Floats,
    x: Floats,
    y: Floats,
    placed: NDArray[np.uint8],
    half_perimeter: float,
) -> float:
    """Returns the share of one net.

    Until its driver is placed a net counts as half the canvas's perimeter, unweighted; until its sinks are, weighted.
    """
    first = net_start[net]
    driver = net_pins[first]
    if not placed[driver]:
        return half_perimeter
    low_x = high_x = x[driver]
    low_y = high_y = y[driver]
    for i in range(first + 1, net_start[net + 1]):
        pin = net_pins[i]
        if not placed[pin]:
            return float(weight[driver] * half_perimeter)
        low_x = min(low_x, x[pin])
        high_x = max(high_x, x[pin])
        low_y = min(low_y, y[pin])
        high_y = max(high_y, y[pin])
    return float(weight[driver] * ((high_x - low_x) + (high_y - low_y)))


@compiled_without_allocation
def update_lengths(
    nets: NDArray[np.int32],
    net_start: NDArray[np.int64],
    net_pins: NDArray[np.int32],
    weight: Floats,
    x: Floats,
    y: Floats,
    placed: NDArray[np.uint8],
    half_perimeter: float,
    shares: Floats,
) -> float:
    """Fills in the shares of the given nets, shape (all nets,), um; returns the sum of all shares in net order."""
    for net in nets:
        shares[net] = net_length(net, net_start, net_pins, weight, x, y, placed, half_perimeter)
    total = 0.0
    for share in shares:
        total += share
    return total


class NetsOfNodes:
    """The nets at each macro (through its pins), standard cell and port; made on first use."""

    def __init__(self, netlist: Netlist) -> None:
        self._netlist = netlist

    def at(self, nodes: list[int]) -> NDArray[np.int32]:
        """Returns the nets at the nodes, ascending, each once."""
        start, all_nets = self.lists
        parts = [all_nets[start[node] : start[node + 1]] for node in dict.fromkeys(nodes)]
        # The nets of a single node are sorted and distinct already.
        return parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))

    @functools.cached_property
    def lists(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Where the nets of each node start, shape (nodes + 1,), and the nets, ascending per node."""
        netlist = self._netlist
        owner = netlist.owner[netlist.net_pins]
        node = np.where(owner >= 0, owner, netlist.net_pins).astype(np.int64)
        net = np.repeat(np.arange(netlist.num_nets), np.diff(netlist.net_start))
        pairs = np.unique(node * max(netlist.num_nets, 1) + net)
        counts = np.bincount(pairs // max(netlist.num_nets, 1), minlength=netlist.num_nodes)
        start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        return start, (pairs % max(netlist.num_nets, 1)).astype(np.int32)


class Wirelength:
    """The wirelength of a placement, kept up to date."""

    def __init__(self, placement: Placement, nets_of_nodes: NetsOfNodes) -> None:
        self._placement = placement
        self._nets_of_nodes = nets_of_nodes
        netlist = placement.netlist
        self._weight = netlist.weight
        self._shares = np.zeros(netlist.num_nets)
        self._all_nets = np.arange(netlist.num_nets, dtype=np.int32)
        drivers = netlist.net_pins[netlist.net_start[:-1]]
        # Only whole parts count here, as in the engine that this one must agree with.
        self.total_weight = float(np.trunc(netlist.weight[drivers]).sum())
        self._version = -1
        self._half_perimeter = -1.0
        self._total = 0.0

    def value(self, canvas_width: float, canvas_height: float) -> float:
        """Returns the sum over all nets, um."""
        placement, netlist = self._placement, self._placement.netlist
        half_perimeter = canvas_width + canvas_height
        changed = placement.changed_since(self._version)
        if half_perimeter != self._half_perimeter:
            changed = None
        if changed is not None and not changed:
            return self._total
        nets = None if changed is None else self._nets_of_nodes.at(changed)
        arrays = (netlist.net_start, netlist.net_pins, self._weight, placement.x, placement.y, placement.placed)
        if nets is None or 4 * len(nets) > netlist.num_nets:
            nets = self._all_nets
        self._total = float(update_lengths(nets, *arrays, half_perimeter, self._shares))
        self._version = placement.version
        self._half_perimeter = half_perimeter
        return self._total

    def cost(self, canvas_width: float, canvas_height: float) -> float:
        """Returns the wirelength relative to nets as long as half the canvas's perimeter."""
        total = self.value(canvas_width, canvas_height)
        if self.total_weight == 0:
            return total
        return total / ((canvas_width + canvas_height) * self.total_weight)
