"""Perturbations of a design: the same circuit rotated by 90 degrees, mirrored, or in another unit of length.

A perturbed design is the image of the design under a similarity of the plane: canvas, grids, macros, pins, ports,
blockages and routing resources are mapped together. Every placement has an image with the same wirelength and density
cost, and the optimum over all placements has the same cost; for congestion, this holds up to the choice between equal
routes. The force-directed placement of soft macros is not a similarity, so the cost of an episode can differ slightly
from that of its mirror image.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.placement import ROTATION
from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.environment import CircuitEnv
from a2perf.domains.circuit_training.netlists.netlist import SIDES

Floats = NDArray[np.float64]
SCALE = 2.0
"""Factor of all lengths of a rescaled design."""


class Similarity(NamedTuple):
    """A similarity of the plane that keeps the axes: points (x, y) of a canvas go to its image.

    Attributes:
        matrix: of the map without its factor; entries -1, 0 and 1.
    """

    matrix: tuple[tuple[int, int], tuple[int, int]]
    scale: float = 1.0

    def pair(self, along_x: Any, along_y: Any) -> tuple[Any, Any]:
        """Returns what belongs to the axes x and y (widths and heights, columns and rows) in the image."""
        return (along_y, along_x) if self.matrix[0][0] == 0 else (along_x, along_y)

    def vectors(self, vectors: Floats) -> Floats:
        """Returns the images of vectors, shape (n, 2)."""
        return np.asarray(self.scale * vectors @ np.array(self.matrix, np.float64).T)

    def points(self, points: Floats, canvas: tuple[float, float]) -> Floats:
        """Returns the images of points of a canvas with the lower left corner at the origin, shape (n, 2)."""
        corner = self.vectors(np.array([[0.0, 0.0], canvas])).min(axis=0)
        return np.asarray(self.vectors(points) - corner)

    def side(self, side: str) -> str:
        """Returns the image of a side of the canvas."""
        if not side:
            return side
        x, y = self.vectors(np.array([_SIDES[side]]))[0] / self.scale
        return next(name for name, direction in _SIDES.items() if direction == (x, y))


_SIDES = {"LEFT": (-1.0, 0.0), "RIGHT": (1.0, 0.0), "TOP": (0.0, 1.0), "BOTTOM": (0.0, -1.0)}
QUARTER_TURN = Similarity(((0, -1), (1, 0)))
MIRROR = Similarity(((-1, 0), (0, 1)))
RESCALING = Similarity(((1, 0), (0, 1)), SCALE)


def with_image(env: gymnasium.Env[Any, Any], similarity: Similarity) -> gymnasium.Env[Any, Any]:
    """Closes a circuit environment and returns one with the same arguments for the image of its design."""
    given = env.unwrapped
    assert isinstance(given, CircuitEnv)
    arguments = given.__getstate__()["_ezpickle_kwargs"]
    env.close()
    make = arguments["create_placement_cost_fn"]

    def make_image(**files: Any) -> PlacementCost:
        return image_of(make(**files), similarity)

    return CircuitEnv(**{**arguments, "create_placement_cost_fn": make_image})


# The wrappers that the domain's perturbations name.
rotated = functools.partial(with_image, similarity=QUARTER_TURN)  # by 90 degrees counter-clockwise
mirrored = functools.partial(with_image, similarity=MIRROR)  # from left to right
rescaled = functools.partial(with_image, similarity=RESCALING)  # with as many routes over the canvas


def image_of(plc: PlacementCost, similarity: Similarity) -> PlacementCost:
    """Returns an engine with the image of a design, of its placement and of all settings.

    Nodes and nets have the same numbers, and macros keep the names of their orientations. The offsets of their pins
    are mapped instead, so each macro lies as the image of the original one.
    """
    canvas, scale = plc.get_canvas_width_height(), similarity.scale
    spacing = similarity.pair(*plc.macro_spacing)
    image = PlacementCost(_netlist(plc, similarity), spacing[0] * scale, spacing[1] * scale)
    width, height = similarity.pair(*canvas)
    image.set_canvas_size(width * scale, height * scale)
    image.set_placement_grid(*similarity.pair(*plc.get_grid_num_columns_rows()))
    image.set_congestion_grid(*similarity.pair(*plc.get_congestion_grid_num_columns_rows()))
    for get, set_ in (
        (plc.get_routes_per_micron, image.set_routes_per_micron),
        (plc.get_macro_routing_allocation, image.set_macro_routing_allocation),
    ):
        along_x, along_y = similarity.pair(*get())
        set_(along_x / scale, along_y / scale)
    image.set_congestion_smooth_range(plc.get_congestion_smooth_range())
    image.set_overlap_threshold(plc.get_overlap_threshold())
    image.set_canvas_boundary_check(plc.get_canvas_boundary_check())
    image.set_project_name(plc.get_project_name())
    image.set_block_name(plc.get_block_name())
    for low_x, low_y, high_x, high_y, rate in plc.get_blockages():
        corners = similarity.points(np.array([[low_x, low_y], [high_x, high_y]]), canvas)
        low, high = corners.min(axis=0), corners.max(axis=0)
        image.create_blockage(float(low[0]), float(low[1]), float(high[0]), float(high[1]), rate)
    for node in np.flatnonzero(plc.state.fixed).tolist():
        image.fix_node_coord(node)
    return image


def _netlist(plc: PlacementCost, similarity: Similarity) -> Any:
    """Returns the image of the netlist; its locations are those of the placement."""
    netlist, state = plc.netlist, plc.state
    points = similarity.points(np.stack([state.x, state.y], axis=1), plc.get_canvas_width_height())
    width, height = similarity.pair(state.width, state.height)
    sides = np.array([SIDES.index(similarity.side(name)) for name in SIDES], np.int8)
    offsets = np.stack([netlist.x_offset, netlist.y_offset], axis=1)
    # The offsets hold for orientation N. They are turned as the macro lies, mapped, and turned back.
    turns = ROTATION[state.orientation[np.maximum(netlist.owner, 0)]].reshape(-1, 2, 2)
    turned = np.einsum("nij,nj->ni", turns, offsets)
    mapped = np.einsum("nji,nj->ni", turns, similarity.vectors(turned))
    return dataclasses.replace(
        netlist,
        x=points[:, 0].copy(),
        y=points[:, 1].copy(),
        width=width * similarity.scale,
        height=height * similarity.scale,
        x_offset=mapped[:, 0].copy(),
        y_offset=mapped[:, 1].copy(),
        side=sides[netlist.side],
        has_location=state.placed.copy(),
        orientation=state.orientation.copy(),
    )
