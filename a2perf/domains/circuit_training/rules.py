"""What version 0 does and ``compat`` undoes, where the earlier environment did something else; and the order of macros.

One class of small decisions keeps branches on ``compat`` out of the main path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.arguments import one_of
from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.errors import ArgumentError

NODE_ORDERS = ("descending_size_macro_first", "random", "random_macro_first")
Step = tuple[Any, float, bool, bool, dict[str, Any]]


class PlacementRules:
    """Version 0, or with ``compat`` what it fixes of the earlier environment, to check published curves.

    Attributes:
        seeded_orders: the seed of reset() determines a random node order; the earlier environment ignores it.
        runtime_every_step: ``total_episode_runtime`` appears at every step, as in the earlier environment; otherwise at
            the end of an episode only, since equal steps would have different infos.
        fixed_macros_stay: fixed hard macros keep their positions in the force-directed start; otherwise it fails.
    """

    def __init__(self, compat: bool = False) -> None:
        self._compat = compat
        self.seeded_orders = not compat
        self.runtime_every_step = compat
        self.fixed_macros_stay = not compat

    def netlist_index_bound(self, netlist_index: int) -> int:
        """Largest ``netlist_index`` of the observation space; 0 with ``compat``, for every index."""
        return 0 if self._compat else max(1, netlist_index)  # Gymnasium warns of an empty range

    def vertical_allocation(self, horizontal: float, vertical: float) -> float:
        """Routing that macros take, per um, in the feature ``total_macro_vertical_routes_k``."""
        return horizontal if self._compat else vertical

    def random_order(
        self, hard: NDArray[np.int64], soft: NDArray[np.int64], generator: np.random.Generator
    ) -> NDArray[np.int64]:
        """Order of the nodes for ``node_order="random"``: hard macros before soft ones, each shuffled.

        With ``compat`` all macros are shuffled together, so soft macros can come first.
        """
        if self._compat:
            every = np.sort(np.concatenate([hard, soft]))
            generator.shuffle(every)
            return every
        return np.concatenate([generator.permutation(hard), generator.permutation(soft)])

    def infeasible_end(self, last: Any, reset: Callable[[], Any], info: dict[str, Any]) -> Step:
        """What a step returns when no cell is left for the next macro: the end, with the last observation.

        With ``compat`` the next episode starts at once, and the last observation is lost.
        """
        return (reset(), -1.0, True, True, info) if self._compat else (last, -1.0, True, False, info)

    def final_info(self, info: dict[str, Any], *, runtimes: dict[str, float], infeasible: bool) -> dict[str, Any]:
        """Adds the seconds that the placer and the episode took; ``compat`` leaves them out at an infeasible end."""
        return info if self._compat and infeasible else {**info, **runtimes}

    def reset_info(self, info: dict[str, Any]) -> dict[str, Any]:
        """What reset returns as ``info``: the keys of every step; with ``compat`` nothing."""
        return {} if self._compat else info


def node_order(plc: PlacementCost, order: str, generator: np.random.Generator, rules: PlacementRules) -> list[int]:
    """Returns all macros that are not fixed, in the order of placing: hard ones first.

    Raises:
        ArgumentError: no such order.
    """
    one_of("node_order", order, NODE_ORDERS, error=ArgumentError)
    hard, soft = np.asarray(plc.hard_macro_indices), np.asarray(plc.soft_macro_indices)
    if order == "descending_size_macro_first":
        ordered = np.concatenate([_descending(plc, hard), _descending(plc, soft)])
    elif order == "random":
        ordered = rules.random_order(hard, soft, generator)
    else:
        ordered = np.concatenate([generator.permutation(hard), soft])
    return [int(node) for node in ordered if not plc.is_node_fixed(int(node))]


def _descending(plc: PlacementCost, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns nodes by area, largest first, equal ones by descending index."""
    sizes = [plc.get_node_width_height(int(node)) for node in nodes]
    areas = np.array([width * height for width, height in sizes])
    return nodes[np.argsort(areas, kind="stable")[::-1]] if len(nodes) else nodes
