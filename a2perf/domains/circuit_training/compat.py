"""The behaviour of the earlier environment where version 0 mends it: one class of overrides.

Used with ``compat=True``, to check published curves. An infeasible state resets the environment at once, ends the
episode both ways and keys are missing in ``info``; seeds of ``reset`` are ignored; a feature has the wrong allocation;
``netlist_index`` can leave its space; fixed hard macros end in an error of the engine.
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
        """Zero, whatever the index is."""
        return 0

    def vertical_allocation(self, horizontal: float, vertical: float) -> float:
        """The horizontal allocation was taken for both."""
        return horizontal

    def random_order(
        self, hard: NDArray[np.int64], soft: NDArray[np.int64], generator: np.random.Generator
    ) -> NDArray[np.int64]:
        """One shuffle of all macros, so that soft ones can come first."""
        every = np.sort(np.concatenate([hard, soft]))
        generator.shuffle(every)
        return every

    def infeasible_end(self, last: Callable[[], Any], reset: Callable[[], Any], info: dict[str, Any]) -> Step:
        """The next episode began at once, and the last observation was lost."""
        return reset(), -1.0, True, True, info

    def final_info(self, info: dict[str, Any], *, runtimes: dict[str, float], infeasible: bool) -> dict[str, Any]:
        """Without the seconds at an infeasible end."""
        return info if infeasible else {**info, **runtimes}

    def reset_info(self, info: dict[str, Any]) -> dict[str, Any]:
        """Empty."""
        return {}
