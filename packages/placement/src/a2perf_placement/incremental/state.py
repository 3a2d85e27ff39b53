"""The arrays of the incremental evaluation: the design, the rules, and what changes with the places of nodes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.compilation import compiled_part
from a2perf_placement.incremental.top_sum import TopSum
from a2perf_placement.profiles import Conventions

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NO_BOX, HARD, SOFT, STANDARD_CELL = range(4)
NOWHERE = 1 << 30  # first entry of a span that is empty


class Wiring(NamedTuple):
    """The design, which does not change.

    Attributes:
        net_start, net_pins: the nets as in `Netlist`.
        weight: weight of the net that a node drives, shape (nodes,).
        units: the same as an integer multiple of the unit of routing, held by doubles.
        offset_x, offset_y: offsets of pins in orientation N, um.
        width, height: sizes of nodes in orientation N, um.
        kind: ``NO_BOX``, ``HARD``, ``SOFT`` or ``STANDARD_CELL``.
        rotation: matrix of each orientation, shape (orientations, 4).
        exchanges: 1 for orientations that exchange width and height.
        blockages: low x, low y, high x, high y (um) and rate, shape (n, 5).
        spread_rows, spread_columns: what one unit of usage adds to each cell that it is smoothed over, in units of
            congestion, for usage in each row (horizontal) and each column (vertical).
    """

    net_start: Ints
    net_pins: NDArray[np.int32]
    weight: Floats
    units: Floats
    nets_start: Ints
    nets: NDArray[np.int32]
    pins_start: Ints
    pins: NDArray[np.int32]
    offset_x: Floats
    offset_y: Floats
    width: Floats
    height: Floats
    kind: NDArray[np.uint8]
    rotation: Floats
    exchanges: NDArray[np.uint8]
    blockages: Floats
    spread_rows: Floats
    spread_columns: Floats


class CostRules(NamedTuple):
    """Grids, resolutions and the conventions of the profile; lengths in um.

    Attributes:
        horizontal_share, vertical_share: congestion per um of a cell that a hard macro covers.
        smooth_range: cells to either side over which usage is spread.
        length_unit, density_unit, congestion_unit: units per um, per density and per congestion; powers of two.
        length_scale: total weight times half the perimeter, or 1.
    """

    columns: int
    rows: int
    cell_width: float
    cell_height: float
    density_columns: int
    density_rows: int
    density_cell_width: float
    density_cell_height: float
    half_perimeter: float
    horizontal_share: float
    vertical_share: float
    smooth_range: int
    length_unit: float
    density_unit: float
    congestion_unit: float
    length_scale: float
    top_density: int
    top_congestion: int
    weight_wirelength: float
    weight_density: float
    weight_congestion: float
    conventions: Conventions


class Places(NamedTuple):
    """What changes: where nodes are, and the sums of their contributions.

    Attributes:
        x, y, placed, orientation: of nodes and pins as in `Placement`.
        pin_x, pin_y: offsets of pins as their macros lie, um.
        box_width, box_height: sizes of nodes as they lie, um.
        lengths: share of each net in the wirelength, in units.
        length: their sum, shape (1,).
        usage_rows, usage_columns: units of net weight that cross each cell along rows and along columns, shape
            (rows, columns).
        found: nets of the current change; shape (nets,).
        seen: number of the last change that touched each net, and at the end the number of changes.
        marks_rows, marks_columns: changes of usage as differences, as `route` marks them.
        row_span, column_span: first and last marked column of each row, and the reverse, shape (rows, 2).
        horizontal_span, vertical_span: first and last changed cell of each line of the congestion map.
        stamps, distinct: scratch of `route`.
    """

    x: Floats
    y: Floats
    placed: NDArray[np.uint8]
    orientation: NDArray[np.int8]
    pin_x: Floats
    pin_y: Floats
    box_width: Floats
    box_height: Floats
    cells: Ints
    lengths: Ints
    length: Ints
    usage_rows: Floats
    usage_columns: Floats
    found: NDArray[np.int32]
    seen: Ints
    marks_rows: Floats
    marks_columns: Floats
    row_span: Ints
    column_span: Ints
    value_change: Ints
    horizontal_span: Ints
    vertical_span: Ints
    stamps: Ints
    distinct: Ints


class CostState(NamedTuple):
    """The mutable part of an evaluation; each thread needs one."""

    places: Places
    density: TopSum
    congestion: TopSum


class Changes(NamedTuple):
    """Changes of some nodes each, shape (changes, nodes).

    Attributes:
        nodes: -1 for none.
        x, y: centres, um.
        orientations: indices.
        placed: 1, or 0 for nodes that are taken off the canvas.
    """

    nodes: Ints
    x: Floats
    y: Floats
    orientations: Ints
    placed: Ints


@compiled_part
def rounded(value: float) -> int:
    """Returns the nearest integer; halves go up, so the result is a function of the value alone."""
    return math.floor(value + 0.5)


@compiled_part
def widen(span: Ints, line: int, low: int, high: int) -> None:
    """Extends the first and the last entry of a line."""
    span[line, 0] = min(span[line, 0], low)
    span[line, 1] = max(span[line, 1], high)


@compiled_part
def clear(span: Ints) -> None:
    """Makes all lines empty."""
    for line in range(span.shape[0]):
        span[line, 0], span[line, 1] = NOWHERE, -1
