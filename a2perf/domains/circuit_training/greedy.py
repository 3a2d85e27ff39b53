"""Greedy placing by the exact cost: each macro goes to the feasible cell where the placement costs least.

Soft macros and standard cells stand where forces alone would put them, and macros that are not placed yet are missing.
All cells of a macro are probed at once (`IncrementalPlacement`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from a2perf.domains.circuit_training.cost_model import CostWeights
from a2perf.domains.circuit_training.errors import ArgumentError
from a2perf.domains.circuit_training.incremental import IncrementalPlacement
from a2perf.domains.circuit_training.placement_design import PlacementDesign
from a2perf.domains.circuit_training.profiles import CostProfile


class GreedyPlacement(NamedTuple):
    """What `place_greedily` returns.

    Attributes:
        cells: cell of the placement grid of each macro, in the order of placing.
        cost: the environment's cost with the soft macros placed around them.
        probed: number of placements evaluated on the way.
    """

    cells: dict[int, int]
    cost: float
    probed: int


def place_greedily(
    env: Any,
    profile: str | CostProfile = "circuit_training",
    weights: CostWeights | None = None,
    threads: int = 1,
) -> GreedyPlacement:
    """Plays one episode of an environment greedily.

    Args:
        env: a circuit training environment; its episode ends.
        profile: conventions of the cost that is minimised.
        weights: weights of its parts; the profile's by default.
        threads: number of threads that probe.

    Raises:
        ArgumentError: a macro found no feasible cell.
        ConfigError: the profile is unknown, or a weight is out of range.
        PlacementError: ``threads`` is below 1.
    """
    core = env.unwrapped
    design = PlacementDesign(env)
    _, info = env.reset(seed=0)
    placement = IncrementalPlacement(core.plc, profile, weights)
    for node in design.soft.tolist():
        placement.move(node, float(design.start_x[node]), float(design.start_y[node]))
    cells: dict[int, int] = {}
    probed, reward = 0, 0.0
    for node in core.macro_order:
        allowed = [core.translate_to_original_canvas(int(at)) for at in np.flatnonzero(info["action_mask"])]
        if not allowed:
            raise ArgumentError(
                f"no cell is feasible for {core.plc.get_node_name(node)}", hint="the design is too full for this placer"
            )
        x, y = zip(*(design.centre(cell) for cell in allowed), strict=True)
        best = int(np.argmin(placement.probe([node] * len(allowed), x, y, threads=threads)[:, -1]))
        placement.move(node, x[best], y[best])
        cells[node] = allowed[best]
        probed += len(allowed)
        _, reward, _, _, info = env.step(core.translate_to_padded_canvas(allowed[best]))
    return GreedyPlacement(cells, -float(reward), probed)
