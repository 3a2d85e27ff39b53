"""What is worked out once per design and kept: where a mixed-size force-directed run puts every macro, and which macros
and port clusters are connected.

The cache key is a digest of the engine's state: a change of netlist, placement, canvas, grid or schedule makes a new
entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.netlists.netlist_cache import cached_arrays, digest

FORCE_DIRECTED_STEPS = (100, 100, 100)
_MIXED_SIZE = {"factors": (1.0, 2.0, 2.0), "attract": (100.0, 1e-3, 1e-5), "repel": (0.0, 1e5, 1e6)}
_SOFT_ONLY = {"factors": (1.0, 1.0, 1.0), "attract": (100.0, 1e-3, 1e-5), "repel": (0.0, 1e6, 1e7)}
_MOVED = ("x", "y", "placed")
"""Arrays of the engine's state that a force-directed run changes, pins included."""


class SparseAdjacency(NamedTuple):
    """Connected pairs i < j of macros (by their position in the macro list) and port clusters, in lexicographic order.

    Attributes:
        i, j: the pair, int64, shape (edges,).
        weight: of the connection, float64, shape (edges,).
        clusters: placement-grid cell of each port cluster, int64, shape (clusters,).
    """

    i: NDArray[np.int64]
    j: NDArray[np.int64]
    weight: NDArray[np.float64]
    clusters: NDArray[np.int64]


def place_soft_macros(plc: PlacementCost, *, use_current_loc: bool = False) -> None:
    """Places soft macros and standard cells by forces and keeps hard macros in place."""
    _run(plc, _SOFT_ONLY, move_macros=False, use_current_loc=use_current_loc)


def place_everything(plc: PlacementCost, *, fixed_macros_stay: bool = True) -> None:
    """Places all nodes but ports by forces, from the centre; overlaps remain.

    Raises:
        PlacementError: a macro is fixed and does not stay.
    """
    _run(plc, _MIXED_SIZE, move_macros=True, skip_fixed=fixed_macros_stay)


def starting_point(plc: PlacementCost, *, fixed_macros_stay: bool) -> tuple[NDArray[np.float64], SparseAdjacency]:
    """Returns the start positions of all macros, um, shape (macros, 2), and the connections of a design.

    Every node stays where the forces put it.

    The engine is in the same state whether the result was in the cache or not: a policy may read positions of standard
    cells from it.
    """

    def make() -> dict[str, NDArray[np.float64]]:
        flat, clusters = plc.get_macro_and_clustered_port_adjacency()
        nodes = len(plc.get_macro_indices()) + len(clusters)
        dense = np.asarray(flat, dtype=np.float64).reshape(nodes, nodes)
        i, j = np.nonzero(np.triu(dense, 1) > 0.0)
        place_everything(plc, fixed_macros_stay=fixed_macros_stay)
        moved = {name: getattr(state, name) for name in _MOVED}
        return {**moved, "i": i, "j": j, "weight": dense[i, j], "clusters": np.asarray(clusters, dtype=np.int64)}

    state = plc.state
    # The key is made from the state before `make` moves the nodes.
    key = digest(
        "starting point with all nodes",
        (_MIXED_SIZE, FORCE_DIRECTED_STEPS, fixed_macros_stay),
        (plc.get_canvas_width_height(), plc.get_grid_num_columns_rows()),
        plc.netlist,
        *(state.width, state.height, state.x, state.y, state.placed, state.fixed, state.orientation),
    )
    found = cached_arrays(key, make)
    for name in _MOVED:
        getattr(state, name)[:] = found[name]
    state.everything_changed()
    macros = np.asarray(plc.get_macro_indices(), dtype=np.int64)
    adjacency = SparseAdjacency(found["i"], found["j"], found["weight"], found["clusters"])
    return np.stack([state.x[macros], state.y[macros]], axis=1), adjacency


def _run(
    plc: PlacementCost,
    schedule: Mapping[str, tuple[float, ...]],
    *,
    move_macros: bool,
    skip_fixed: bool = False,
    use_current_loc: bool = False,
) -> None:
    longest = max(plc.get_canvas_width_height())
    plc.optimize_stdcells(
        use_current_loc=use_current_loc,
        move_stdcells=True,
        move_macros=move_macros,
        log_scale_conns=False,
        use_sizes=False,
        io_factor=1.0,
        num_steps=list(FORCE_DIRECTED_STEPS),
        max_move_distance=[
            factor * longest / steps for factor, steps in zip(schedule["factors"], FORCE_DIRECTED_STEPS, strict=True)
        ],
        attract_factor=list(schedule["attract"]),
        repel_factor=list(schedule["repel"]),
        skip_fixed=skip_fixed,
    )
