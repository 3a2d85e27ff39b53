"""Cost profiles: the conventions in which evaluators of macro placement differ, and the weights of the cost's parts.

``circuit_training`` is the closed engine that the environments agree with. ``tilos`` is the public Python evaluator of
the MacroPlacement project (C.-K. Cheng et al., "Assessment of Reinforcement Learning for Macro Placement", ISPD 2023),
which placement competitions use.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from a2perf.domains.circuit_training.engine.cost_model import CostWeights
from a2perf.domains.circuit_training.engine.density import EDGE_TOLERANCE
from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.netlists.plc_file import read_header, required_sizes
from a2perf.errors import ConfigError, did_you_mean


class PlacementCosts(NamedTuple):
    """The cost of a placement: its parts, and their weighted sum.

    Attributes:
        wirelength: half-perimeter wirelength relative to (width + height) for every net.
        density: half the mean density of the fullest tenth of the cells.
        congestion: mean of the most congested twentieth of the values of both maps.
    """

    wirelength: float
    density: float
    congestion: float
    cost: float


class Conventions(NamedTuple):
    """What evaluators do differently.

    Attributes:
        nearest_cell: count pins beyond the last cell in the nearest cell; otherwise their nets are not routed.
        density_tolerance: um; thinner overlaps of a node with a line of cells do not count.
        line_tolerance: um; a macro that covers a line of cells up to this covers it completely.
        beyond_is_partial: a macro that extends beyond the canvas leaves its last line of cells free for routes.
        overlaps_only: a macro takes no routes in cells that it only touches.
        mean_of_occupied: density of grids below ten cells is the mean of the occupied ones.
    """

    nearest_cell: bool = False
    density_tolerance: float = EDGE_TOLERANCE
    line_tolerance: float = 0.0
    beyond_is_partial: bool = True
    overlaps_only: bool = False
    mean_of_occupied: bool = False


@dataclass(frozen=True)
class CostProfile:
    """The conventions of an evaluator, and its weights."""

    name: str
    weights: CostWeights
    conventions: Conventions


_TILOS = Conventions(
    nearest_cell=True,
    density_tolerance=0.0,
    line_tolerance=1e-5,
    beyond_is_partial=False,
    overlaps_only=True,
    mean_of_occupied=True,
)
PROFILES: dict[str, CostProfile] = {
    profile.name: profile
    for profile in (
        CostProfile("circuit_training", CostWeights(), Conventions()),
        CostProfile("tilos", CostWeights(wirelength=1.0, density=0.5, congestion=0.5), _TILOS),
    )
}


def cost_profile(profile: str | CostProfile = "circuit_training", weights: CostWeights | None = None) -> CostProfile:
    """Returns a profile by name, with other weights if given.

    Args:
        profile: ``"circuit_training"``, ``"tilos"``, or a profile.
        weights: weights of wirelength, density and congestion; the profile's by default.

    Raises:
        ConfigError: the profile is unknown, or a weight is negative or not finite.
    """
    if not isinstance(profile, CostProfile):
        if profile not in PROFILES:
            raise ConfigError(
                f"there is no cost profile {profile!r}{did_you_mean(str(profile), PROFILES)}",
                hint=f"choose one of: {', '.join(PROFILES)}",
            )
        profile = PROFILES[profile]
    if weights is None:
        return profile
    for name, weight in dataclasses.asdict(weights).items():
        if not (math.isfinite(weight) and weight >= 0.0):
            raise ConfigError(f"the weight of {name} is {weight!r}", hint="give a finite number from 0 on")
    return dataclasses.replace(profile, weights=weights)


def engine_from_header(netlist_file: str | Path, placement_file: str | Path) -> PlacementCost:
    """Returns an engine with a placement, set up by the header of the placement file alone.

    Canvas, grid, routes per micron, routes taken by macros and smoothing come from the file; congestion uses the
    placement grid, and soft macros keep their sides. This is how the public evaluator reads a design. An environment's
    engine (``cost_model.create_placement_cost``) takes the routes from its settings.

    Args:
        placement_file: the ``.plc`` file.

    Raises:
        NetlistError: the netlist is missing or broken.
        PlacementFileError: the placement is missing or broken, or its header has no canvas or grid.
    """
    header = read_header(netlist_file, placement_file)
    width, height, columns, rows = required_sizes(header, placement_file)
    plc = PlacementCost(netlist_file)
    for blockage in header.blockages:
        plc.create_blockage(*blockage)
    plc.set_canvas_size(width, height)
    plc.set_placement_grid(columns, rows)
    plc.set_congestion_grid(columns, rows)
    if header.routes is not None:
        plc.set_routes_per_micron(*header.routes)
    if header.macro_routes is not None:
        plc.set_macro_routing_allocation(*header.macro_routes)
    if header.smooth_range is not None:
        plc.set_congestion_smooth_range(header.smooth_range)
    plc.set_canvas_boundary_check(False)
    plc.restore_placement(placement_file)
    return plc
