"""The set-up of the engine for a design, and the cost of an episode; both configurable in gin.

``create_placement_cost`` and ``cost_info_function`` carry the names and parameters of the earlier environment.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gin

from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.netlists.plc_file import Blockage, read_header, required_sizes

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CostWeights:
    """Weights of the three parts of the cost; a part without weight is not evaluated."""

    wirelength: float = 1.0
    density: float = 1.0
    congestion: float = 0.5


@gin.configurable("cost_info_function", module="a2perf.circuit_training")
def cost_weights(
    wirelength_weight: float = 1.0, density_weight: float = 1.0, congestion_weight: float = 0.5
) -> CostWeights:
    """Returns the weights of the placement cost; gin binds them as ``cost_info_function``.

    Args:
        wirelength_weight: weight of the half-perimeter wirelength; 0 skips its evaluation.
        density_weight: weight of the density cost; 0 skips its evaluation.
        congestion_weight: weight of the congestion cost; 0 skips its evaluation.
    """
    return CostWeights(wirelength_weight, density_weight, congestion_weight)


def cost_info_function(
    plc: PlacementCost, done: bool, infeasible_state: bool = False, weights: CostWeights | None = None
) -> tuple[float, dict[str, float]]:
    """Returns the cost of a placement, and its parts as ``info``.

    Args:
        done: whether all macros are placed; the cost is 0 before that.
        infeasible_state: the episode ended with macros left; costs nothing here.

    Returns:
        1.0 wirelength + 0.5 congestion + 1.0 density by default, and the parts (-1.0 where not evaluated).
    """
    info = {"wirelength": -1.0, "congestion": -1.0, "density": -1.0}
    if not done or infeasible_state:
        return 0.0, info
    weights = cost_weights() if weights is None else weights
    cost = 0.0
    for name, weight, evaluate in (
        ("wirelength", weights.wirelength, plc.get_cost),
        ("congestion", weights.congestion, plc.get_congestion_cost),
        ("density", weights.density, plc.get_density_cost),
    ):
        if weight > 0.0:
            info[name] = float(evaluate())
            cost += weight * info[name]
    return cost, info


@dataclass(frozen=True)
class EngineSettings:
    """Parameters of ``create_placement_cost``; lengths in um, routes per um."""

    overlap_threshold: float = 4e-3
    congestion_smooth_range: int = 5
    macro_macro_x_spacing: float = 0.1
    macro_macro_y_spacing: float = 0.1
    boundary_check: bool = False
    horizontal_routes_per_micron: float = 70.33
    vertical_routes_per_micron: float = 74.51
    macro_horizontal_routing_allocation: float = 51.79
    macro_vertical_routing_allocation: float = 51.79
    routes_per_congestion_grid: float = 1000
    blockages: Sequence[Blockage] | None = None
    fixed_macro_names_regex: Sequence[str] | None = None
    legacy_congestion_grid: bool = False


@gin.configurable("create_placement_cost", module="a2perf.circuit_training")
def engine_settings(**parameters: Any) -> EngineSettings:
    """Returns the settings, completed by what is bound to ``create_placement_cost`` in gin."""
    return EngineSettings(**parameters)


def create_placement_cost(
    netlist_file: str | Path,
    init_placement: str | Path = "",
    plc_wrapper_main: str | None = None,
    settings: EngineSettings | None = None,
) -> PlacementCost:
    """Returns an engine with a design, its canvas, grids and fixed ports.

    Args:
        netlist_file: the netlist; several, separated by commas, are concatenated.
        init_placement: gives canvas, grid and start positions; empty for none, with a default canvas and grid where the
            netlist names none either.
        plc_wrapper_main: path of the closed engine that the earlier environment needed; ignored.

    Raises:
        NetlistError, PlacementFileError, PlacementError: a file is broken or does not fit the netlist.
    """
    if plc_wrapper_main:
        _log.warning("plc_wrapper_main is ignored: the placement engine is part of a2perf")
    settings = engine_settings() if settings is None else settings
    plc = PlacementCost(str(netlist_file), settings.macro_macro_x_spacing, settings.macro_macro_y_spacing)
    plc.make_soft_macros_square()
    header = read_header(str(netlist_file), str(init_placement) if init_placement else "")
    for blockage in header.blockages if settings.blockages is None else settings.blockages:
        plc.create_blockage(*blockage)
    if init_placement:
        required_sizes(header, init_placement)
    if header.width and header.height:
        plc.set_canvas_size(header.width, header.height)
    if header.columns and header.rows:
        plc.set_placement_grid(header.columns, header.rows)
    plc.set_project_name("circuit_training")
    plc.set_block_name(header.block or "unset_block")
    horizontal, vertical = settings.horizontal_routes_per_micron, settings.vertical_routes_per_micron
    plc.set_routes_per_micron(horizontal, vertical)
    plc.set_macro_routing_allocation(
        settings.macro_horizontal_routing_allocation, settings.macro_vertical_routing_allocation
    )
    plc.set_congestion_smooth_range(settings.congestion_smooth_range)
    columns, rows = plc.get_grid_num_columns_rows()
    if not settings.legacy_congestion_grid:
        cell = 2.0 * settings.routes_per_congestion_grid / (horizontal + vertical)
        columns, rows = (max(1, int(side / cell)) for side in plc.get_canvas_width_height())
    plc.set_congestion_grid(columns, rows)
    plc.set_overlap_threshold(settings.overlap_threshold)
    plc.set_canvas_boundary_check(settings.boundary_check)
    if init_placement:
        plc.restore_placement(str(init_placement))
    # After restore_placement, which overwrites the fixed marks with those of the file.
    for port in plc.state.ports.tolist():
        plc.fix_node_coord(port)
    for macro in plc.hard_macro_indices.tolist():
        if any(re.fullmatch(pattern, plc.get_node_name(macro)) for pattern in settings.fixed_macro_names_regex or ()):
            plc.fix_node_coord(macro)
    return plc
