"""The order in which macros are placed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.errors import ArgumentError
from a2perf.domains.circuit_training.placement_cost import PlacementCost
from a2perf.domains.circuit_training.rules import PlacementRules
from a2perf.errors import did_you_mean

NODE_ORDERS = ("descending_size_macro_first", "random", "random_macro_first")


def node_order(plc: PlacementCost, order: str, generator: np.random.Generator, rules: PlacementRules) -> list[int]:
    """Returns all macros that are not fixed, in the order of placing: hard ones first.

    Args:
        order: one of ``NODE_ORDERS``.
        generator: for random orders.

    Raises:
        ArgumentError: no such order.
    """
    hard, soft = np.asarray(plc.hard_macro_indices), np.asarray(plc.soft_macro_indices)
    if order == "descending_size_macro_first":
        ordered = np.concatenate([_descending(plc, hard), _descending(plc, soft)])
    elif order == "random":
        ordered = rules.random_order(hard, soft, generator)
    elif order == "random_macro_first":
        ordered = np.concatenate([generator.permutation(hard), soft])
    else:
        raise ArgumentError(
            f"node_order is {order!r}{did_you_mean(str(order), NODE_ORDERS)}",
            hint=f"choose one of: {', '.join(NODE_ORDERS)}",
        )
    return [int(node) for node in ordered if not plc.is_node_fixed(int(node))]


def _descending(plc: PlacementCost, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns nodes by area, largest first, equal ones by descending index."""
    sizes = [plc.get_node_width_height(int(node)) for node in nodes]
    areas = np.array([width * height for width, height in sizes])
    return nodes[np.argsort(areas, kind="stable")[::-1]] if len(nodes) else nodes
