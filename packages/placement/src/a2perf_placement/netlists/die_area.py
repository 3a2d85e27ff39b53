"""The part of a polygon's bounding box that lies outside of it, as rectangles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Box = tuple[float, float, float, float]
_MAX_CORNERS = 400


def area_outside(corners: Sequence[tuple[float, float]]) -> list[Box]:
    """Returns rectangles that cover the bounding box of a rectilinear polygon outside the polygon.

    Args:
        corners: corners in order, um; consecutive ones share x or y.

    Returns:
        Low x, low y, high x, high y of each rectangle; none for polygons of more than 400 corners.
    """
    if len(corners) > _MAX_CORNERS:
        return []
    points = np.array(corners, dtype=np.float64)
    edges_x, edges_y = np.unique(points[:, 0]), np.unique(points[:, 1])
    nexts = np.roll(points, -1, axis=0)
    found: list[Box] = []
    for low_y, high_y in zip(edges_y[:-1].tolist(), edges_y[1:].tolist(), strict=True):
        middle = (low_y + high_y) / 2.0
        crossing = (points[:, 1] > middle) != (nexts[:, 1] > middle)
        walls = np.sort(points[crossing, 0])
        # A column lies inside if an odd number of walls is on its left.
        centres = (edges_x[:-1] + edges_x[1:]) / 2.0
        outside = np.searchsorted(walls, centres) % 2 == 0
        start = None
        for column, free in enumerate([*outside.tolist(), False]):
            if free and start is None:
                start = column
            elif not free and start is not None:
                found.append((float(edges_x[start]), low_y, float(edges_x[column]), high_y))
                start = None
    return found
