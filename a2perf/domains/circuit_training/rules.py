"""What version 0 does where the earlier environment did something else, what ``compat=True`` restores of that, and the
order in which macros are placed.

One class of small decisions keeps branches on ``compat`` out of the main path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.arguments import one_of
from a2perf.domains.circuit_training.errors import ArgumentError
from a2perf.domains.circuit_training.placement_cost import PlacementCost

NODE_ORDERS = ("descending_size_macro_first", "random", "random_macro_first")
Step = tuple[Any, float, bool, bool, dict[str, Any]]


class PlacementRules:
    """Version 0."""

    # The seed of reset() determines a random node order.
    seeded_orders = True
    # total_episode_runtime appears at the end of an episode only: otherwise equal steps would have different infos.
    runtime_every_step = False
    # Fixed hard macros keep their positions in the force-directed start.
    fixed_macros_stay = True

    def netlist_index_bound(self, netlist_index: int) -> int:
        """Largest ``netlist_index`` of the observation space; one at least, or Gymnasium warns of an empty range."""
        return max(1, netlist_index)

    def vertical_allocation(self, horizontal: float, vertical: float) -> float:
        """Routing that macros take, per um, in the feature ``total_macro_vertical_routes_k``."""
        del horizontal
        return vertical

    def random_order(
        self, hard: NDArray[np.int64], soft: NDArray[np.int64], generator: np.random.Generator
    ) -> NDArray[np.int64]:
        """Order of the nodes for ``node_order="random"``: hard macros before soft ones, each shuffled."""
        return np.concatenate([generator.permutation(hard), generator.permutation(soft)])

    def infeasible_end(self, last: Callable[[], Any], reset: Callable[[], Any], info: dict[str, Any]) -> Step:
        """What a step returns when no cell is left for the next macro: the end, with the last observation."""
        del reset
        return last(), -1.0, True, False, info

    def final_info(self, info: dict[str, Any], *, runtimes: dict[str, float], infeasible: bool) -> dict[str, Any]:
        """Adds the seconds that the placer and the episode took; the latter at the end of an episode only."""
        del infeasible
        return {**info, **runtimes}

    def reset_info(self, info: dict[str, Any]) -> dict[str, Any]:
        """What reset returns as ``info``: the keys of every step."""
        return info


class CompatPlacementRules(PlacementRules):
    """``compat=True``: restores what version 0 fixes of the earlier environment, to check published curves.

    An infeasible state resets the environment at once and sets ``terminated`` and ``truncated``, with keys missing in
    ``info``; seeds of ``reset`` are ignored; a feature has the wrong allocation; ``netlist_index`` can leave its space;
    the engine fails on fixed hard macros.
    """

    seeded_orders = False
    runtime_every_step = True
    fixed_macros_stay = False

    def netlist_index_bound(self, netlist_index: int) -> int:
        """Returns zero, whatever the index is."""
        return 0

    def vertical_allocation(self, horizontal: float, vertical: float) -> float:
        """Returns the horizontal allocation for both directions."""
        return horizontal

    def random_order(
        self, hard: NDArray[np.int64], soft: NDArray[np.int64], generator: np.random.Generator
    ) -> NDArray[np.int64]:
        """Shuffles all macros together; soft macros can come first."""
        every = np.sort(np.concatenate([hard, soft]))
        generator.shuffle(every)
        return every

    def infeasible_end(self, last: Callable[[], Any], reset: Callable[[], Any], info: dict[str, Any]) -> Step:
        """Starts the next episode at once; the last observation is lost."""
        return reset(), -1.0, True, True, info

    def final_info(self, info: dict[str, Any], *, runtimes: dict[str, float], infeasible: bool) -> dict[str, Any]:
        """Without the seconds at an infeasible end."""
        return info if infeasible else {**info, **runtimes}

    def reset_info(self, info: dict[str, Any]) -> dict[str, Any]:
        """Empty."""
        return {}


def node_order(plc: PlacementCost, order: str, generator: np.random.Generator, rules: PlacementRules) -> list[int]:
    """Returns all macros that are not fixed, in the order of placing: hard ones first.

    Args:
        order: one of ``NODE_ORDERS``.
        generator: for random orders.

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
