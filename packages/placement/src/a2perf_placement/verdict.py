"""The exact verdict on a submitted placement, which then stands in an engine.

Fixed nodes must keep their positions, and orientations must be allowed. Hard macros lie inside of the canvas without
overlap, all other nodes with their centres on it. The first broken rule is reported, with the nodes and by how much.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.netlists.netlist import ORIENTATIONS
from a2perf.errors import IllegalAnswer
from a2perf_placement.overlaps import legality

FIXED_TOLERANCE = 1e-6
"""Of (width + height): a placer that computes in single precision returns fixed nodes rounded. They are put back."""
_SHOWN = 3

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class IllegalPlacementError(IllegalAnswer, ValueError):
    """The placement breaks a rule; the message names the rule and the nodes."""


def apply_placement(
    plc: PlacementCost, order: Ints, positions: Floats, orientations: Ints, allowed: Sequence[str], tolerance: float
) -> None:
    """Puts a placement into an engine that has the initial one, and checks it.

    Args:
        positions: centre of each node, um, finite, shape (nodes, 2).
        orientations: index into ``ORIENTATIONS`` of each node, shape (nodes,); read for hard macros only.
        allowed: orientations that movable hard macros may have.
        tolerance: um; overlaps of hard macros up to this along either axis are allowed.

    Raises:
        IllegalPlacementError: the placement is not legal; the engine is then in an undefined state.
    """
    _check_fixed(plc, order, positions)
    _check_on_canvas(plc, order, positions)
    state = plc.state
    movable = state.fixed[order] == 0
    _turn(plc, order, orientations, allowed)
    state.x[order[movable]], state.y[order[movable]] = positions[movable].T
    state.placed[order] = 1
    state.place_all_pins()
    _check_hard(plc, tolerance)


def _check_fixed(plc: PlacementCost, order: Ints, positions: Floats) -> None:
    state = plc.state
    fixed = np.flatnonzero(state.fixed[order] == 1)
    before = np.stack((state.x[order[fixed]], state.y[order[fixed]]), axis=1)
    moved = np.abs(positions[fixed] - before).max(axis=1, initial=0.0)
    wrong = np.flatnonzero(moved > FIXED_TOLERANCE * sum(plc.get_canvas_width_height()))
    _refuse(
        [f"{plc.get_node_name(int(order[fixed[k]]))} by {moved[k]:.6g} um" for k in wrong],
        "fixed node was moved",
        "fixed nodes were moved",
        hint="return the initial position where benchmark.fixed is True",
    )


def _check_on_canvas(plc: PlacementCost, order: Ints, positions: Floats) -> None:
    movable = plc.state.fixed[order] == 0
    inside = ((positions >= 0.0) & (positions <= np.array(plc.get_canvas_width_height()))).all(axis=1)
    outside = np.flatnonzero(movable & ~inside)
    _refuse(
        [f"{plc.get_node_name(int(order[k]))} at ({positions[k, 0]:.6g}, {positions[k, 1]:.6g})" for k in outside],
        f"node has its centre outside of the canvas {_canvas(plc)}",
        f"nodes have their centres outside of the canvas {_canvas(plc)}",
        hint="positions are centres in um from the lower left corner",
    )


def _turn(plc: PlacementCost, order: Ints, orientations: Ints, allowed: Sequence[str]) -> None:
    state = plc.state
    codes = {ORIENTATIONS.index(name) for name in allowed}
    hard = set(plc.hard_macro_indices.tolist())
    wrong = []
    for node, code in zip(order.tolist(), np.asarray(orientations).tolist(), strict=True):
        if node not in hard or code == max(int(state.orientation[node]), 0):
            continue
        if state.fixed[node] or code not in codes:
            wrong.append(f"{plc.get_node_name(node)} {ORIENTATIONS[code]}")
        else:
            state.turn(node, code)
    _refuse(
        wrong,
        "macro has an orientation that is not allowed",
        "macros have an orientation that is not allowed",
        hint=f"allowed are {', '.join(allowed)} for macros that are not fixed",
    )


def _check_hard(plc: PlacementCost, tolerance: float) -> None:
    verdict = legality(plc, tolerance)
    # A fixed macro that sticks out, or two that overlap, are part of the design.
    _refuse(
        [name for name in verdict.outside if not plc.is_node_fixed(name)],
        f"macro sticks out of the canvas {_canvas(plc)}",
        f"macros stick out of the canvas {_canvas(plc)}",
        hint="keep half of the macro's size between its centre and the edge",
    )
    pairs = [
        f"{pair.first} and {pair.second} by {float(pair.width):.6g} x {float(pair.height):.6g} um"
        for pair in verdict.overlaps
        if not (plc.is_node_fixed(pair.first) and plc.is_node_fixed(pair.second))
    ]
    _refuse(
        pairs,
        "pair of macros overlaps",
        "pairs of macros overlap",
        hint="touching edges are allowed; rounding to single precision can make them overlap",
    )


def _canvas(plc: PlacementCost) -> str:
    width, height = plc.get_canvas_width_height()
    return f"({width:.6g} x {height:.6g} um)"


def _refuse(wrong: Sequence[str], one: str, many: str, *, hint: str) -> None:
    """Raises the error about what is wrong, if anything is; the first few are named."""
    if wrong:
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        named = ", ".join(wrong[:_SHOWN]) + more
        raise IllegalPlacementError(f"{len(wrong)} {one if len(wrong) == 1 else many}: {named}", hint=hint)
