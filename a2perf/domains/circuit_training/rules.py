"""What version 0 does where the earlier environment did something else; ``compat`` overrides these.

One class of small decisions keeps branches on ``compat`` out of the main path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
