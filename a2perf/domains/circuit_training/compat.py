"""``compat=True``: restores the behaviour of the earlier environment that version 0 fixes.

It serves to check published curves. An infeasible state resets the environment at once and sets ``terminated`` and
``truncated``, with keys missing in ``info``; seeds of ``reset`` are ignored; a feature has the wrong allocation;
``netlist_index`` can leave its space; the engine fails on fixed hard macros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.rules import PlacementRules, Step


class CompatPlacementRules(PlacementRules):
    """Overrides of ``PlacementRules``."""

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
