"""Exact verdict on a placement: which macros overlap, and which stick out of the canvas.

A floating-point number is an exact rational, so the question has an exact answer: two boxes overlap if and only if the
distance of their centres is smaller than half the sum of their sizes along both axes. Boxes with touching edges do not
overlap. Floating-point arithmetic decides the clear cases; `fractions.Fraction` decides those within its rounding
error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.placement import PlacementError
from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost

Number = int | float | Fraction | Decimal
Numbers = Sequence[Number] | NDArray[Any]

# Each of the few operations on the way rounds by at most 2^-53 of a term; 2^-49 of their sum is a safe bound.
_ROUNDING = 2.0**-49


@dataclass(frozen=True)
class MacroOverlap:
    """Two macros that overlap.

    Attributes:
        width, height: how far they reach into each other along each axis, um; exact.
    """

    first: str
    second: str
    width: Fraction
    height: Fraction


@dataclass(frozen=True)
class LegalityVerdict:
    """The verdict on a placement.

    Attributes:
        unplaced: macros that are not placed.
    """

    overlaps: tuple[MacroOverlap, ...]
    outside: tuple[str, ...]
    unplaced: tuple[str, ...]

    @property
    def legal(self) -> bool:
        """Whether all macros are placed inside the canvas without overlap."""
        return not (self.overlaps or self.outside or self.unplaced)


def overlapping_pairs(
    x: Numbers, y: Numbers, width: Numbers, height: Numbers, tolerance: Number = 0
) -> list[tuple[int, int]]:
    """Returns the pairs of boxes that overlap, in ascending order.

    Args:
        x: of the centre of each box. Floats are taken as the exact rationals that they are; ``Fraction`` and
            ``Decimal`` are exact, too.
        width: of each box, in the same unit.
        tolerance: overlaps up to this along either axis are allowed.

    Raises:
        PlacementError: the lengths differ, a number is not finite, or a size or the tolerance is negative.
    """
    columns = [list(numbers) for numbers in (x, y, width, height)]
    if len({len(column) for column in columns}) != 1:
        lengths = ", ".join(str(len(column)) for column in columns)
        raise PlacementError(f"x, y, width and height have {lengths} numbers", hint="give one of each per box")
    table = np.array([[float(number) for number in column] for column in columns], np.float64).reshape(4, -1)
    if not np.isfinite(table).all() or (table[2:] < 0).any() or not float(tolerance) >= 0:
        raise PlacementError(
            "a centre or size is not finite, or a size or the tolerance is negative",
            hint="give finite centres, and sizes and a tolerance from 0 on",
        )
    found = []
    for i in range(table.shape[1] - 1):
        possible = np.ones(table.shape[1] - i - 1, bool)
        certain = np.ones(table.shape[1] - i - 1, bool)
        for centre, size in ((table[0], table[2]), (table[1], table[3])):
            depth = (size[i] + size[i + 1 :]) / 2.0 - np.abs(centre[i] - centre[i + 1 :]) - float(tolerance)
            terms = size[i] + size[i + 1 :] + np.abs(centre[i]) + np.abs(centre[i + 1 :]) + float(tolerance)
            error = _ROUNDING * terms + 5e-324
            possible &= depth >= -error
            certain &= depth > error
        for j in (np.flatnonzero(possible) + i + 1).tolist():
            if certain[j - i - 1] or min(_depths(columns, i, j)) > Fraction(tolerance):
                found.append((i, j))
    return found


def _depths(columns: Sequence[Sequence[Number]], i: int, j: int) -> tuple[Fraction, Fraction]:
    """Returns by how much two boxes overlap along each axis; negative if they are apart."""
    x, y, width, height = ([Fraction(_plain(column[at])) for at in (i, j)] for column in columns)
    return (
        (width[0] + width[1]) / 2 - abs(x[0] - x[1]),
        (height[0] + height[1]) / 2 - abs(y[0] - y[1]),
    )


def _plain(number: Any) -> Any:
    """Returns a number of Python instead of one of NumPy, which `Fraction` does not take in every type."""
    return number.item() if isinstance(number, np.generic) else number


def legality(plc: PlacementCost, tolerance: Number = 0) -> LegalityVerdict:
    """Returns the exact verdict on the hard macros of a placement.

    Args:
        tolerance: um; overlaps up to this along either axis are allowed.

    Raises:
        PlacementError: the tolerance is negative or not a number.
    """
    state, names = plc.state, plc.netlist.names
    placed = state.hard[state.placed[state.hard] == 1]
    columns = [array[placed].tolist() for array in (state.x, state.y, state.box_width, state.box_height)]
    overlaps = []
    for i, j in overlapping_pairs(columns[0], columns[1], columns[2], columns[3], tolerance):
        width, height = _depths(columns, i, j)
        overlaps.append(MacroOverlap(names[int(placed[i])], names[int(placed[j])], width, height))
    canvas = [Fraction(side) for side in plc.get_canvas_width_height()]
    outside = []
    for node, x, y, width, height in zip(placed.tolist(), *columns, strict=True):
        for centre, size, side in ((x, width, canvas[0]), (y, height, canvas[1])):
            if Fraction(centre) < Fraction(size) / 2 or Fraction(centre) + Fraction(size) / 2 > side:
                outside.append(names[node])
                break
    unplaced = tuple(names[int(node)] for node in state.hard[state.placed[state.hard] == 0])
    return LegalityVerdict(tuple(overlaps), tuple(outside), unplaced)
