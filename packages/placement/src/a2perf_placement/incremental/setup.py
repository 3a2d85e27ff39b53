"""What an incremental evaluation starts with: the design as flat arrays, the rules, and the resolution of its sums.

A sum of integers is exact as long as it fits. The resolutions are therefore chosen per design: the largest powers of
two for which no sum that can occur exceeds 60 bits (routes: 52 bits, the integers that a double holds).
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.placement import EXCHANGES_SIDES, ROTATION
from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.netlists.netlist import KIND_MACRO, KIND_STDCELL
from a2perf_placement.incremental.state import (
    HARD,
    NO_BOX,
    SOFT,
    STANDARD_CELL,
    Changes,
    CostRules,
    CostState,
    Floats,
    Places,
    Wiring,
)
from a2perf_placement.incremental.top_sum import new_top_sum
from a2perf_placement.profiles import CostProfile

_State = TypeVar("_State", bound=tuple[NDArray[np.generic], ...])

_SUM_BITS, _ROUTE_BITS = 60, 52
_FINEST = 60  # bits behind the point, at most
_REACH = 8.0  # nodes may stand beyond the canvas by its half perimeter on each side


def no_changes(count: int, nodes: int = 2) -> Changes:
    """Returns changes of up to some nodes each, to be filled in; what they place is placed."""
    shape = (count, nodes)
    return Changes(
        np.full(shape, -1, np.int64),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape, np.int64),
        np.ones(shape, np.int64),
    )


def new_evaluation(places: Places, terms: CostRules) -> CostState:
    """Returns the mutable part of an evaluation with empty maps."""
    density, congestion = terms.density_columns * terms.density_rows, 2 * terms.columns * terms.rows
    return CostState(places, new_top_sum(density), new_top_sum(congestion))


def copied(state: _State) -> _State:
    """Returns a copy of a named tuple of arrays and of the arrays in it."""
    return type(state)(*(array.copy() for array in state))


def _unit(bound: float, bits: int) -> float:
    """Returns the finest power of two in which a sum up to ``bound`` fits into ``bits``."""
    return float(2.0 ** min(_FINEST, bits - math.ceil(math.log2(max(bound, 1e-300)))))


def terms_of(plc: PlacementCost, profile: CostProfile) -> CostRules:
    """Returns grids, resolutions and conventions of the evaluation of an engine's design."""
    rules, state, netlist = plc.routing_rules, plc.state, plc.netlist
    width, height = rules.canvas
    columns, rows = rules.grid
    density_columns, density_rows = plc.get_grid_num_columns_rows()
    cell_width, cell_height = width / columns, height / rows
    horizontal_capacity = cell_height * rules.routes_per_micron[0]
    vertical_capacity = cell_width * rules.routes_per_micron[1]
    half_perimeter = width + height
    weights = np.abs(netlist.weight[netlist.net_pins[netlist.net_start[:-1]]])
    total_weight = float(np.trunc(netlist.weight[netlist.net_pins[netlist.net_start[:-1]]]).sum())
    pins = np.diff(netlist.net_start)

    boxes = np.isin(netlist.kind, (KIND_MACRO, KIND_STDCELL))
    blocked = sum(
        rate * (high_x - low_x) * (high_y - low_y) for low_x, low_y, high_x, high_y, rate in plc.get_blockages()
    )
    covered = float((state.width[boxes] * state.height[boxes]).sum()) + blocked
    density_cell = width / density_columns * (height / density_rows)

    # A pin marks up to two rows and two columns from end to end; a macro takes tracks in each cell that it touches.
    routes = 2.0 * float((weights * pins).sum()) * (columns / horizontal_capacity + rows / vertical_capacity)
    sides = np.maximum(state.width, state.height)[state.hard]
    touched = (sides / cell_width + 2.0) * (sides / cell_height + 2.0)
    horizontal_share = rules.macro_allocation[0] / horizontal_capacity
    vertical_share = rules.macro_allocation[1] / vertical_capacity
    taken = float(touched.sum()) * (horizontal_share * cell_height + vertical_share * cell_width)
    return CostRules(
        columns=columns,
        rows=rows,
        cell_width=cell_width,
        cell_height=cell_height,
        density_columns=density_columns,
        density_rows=density_rows,
        density_cell_width=width / density_columns,
        density_cell_height=height / density_rows,
        half_perimeter=half_perimeter,
        horizontal_share=horizontal_share,
        vertical_share=vertical_share,
        smooth_range=rules.smooth_range,
        length_unit=_unit(float(np.maximum(weights, 1.0).sum()) * half_perimeter * _REACH, _SUM_BITS),
        density_unit=_unit(2.0 * covered / density_cell + 1.0, _SUM_BITS),
        congestion_unit=_unit(2.0 * (routes + taken) + 1.0, _SUM_BITS),
        length_scale=half_perimeter * total_weight if total_weight else 1.0,
        top_density=max(1, density_columns * density_rows // 10),
        top_congestion=max(1, 2 * columns * rows // 20),
        weight_wirelength=float(profile.weights.wirelength),
        weight_density=float(profile.weights.density),
        weight_congestion=float(profile.weights.congestion),
        conventions=profile.conventions,
    )


def wiring_of(plc: PlacementCost, terms: CostRules) -> Wiring:
    """Returns the design of an engine as flat arrays."""
    state, netlist = plc.state, plc.netlist
    kind = np.full(netlist.num_nodes, NO_BOX, np.uint8)
    kind[state.hard], kind[state.soft], kind[state.standard_cells] = HARD, SOFT, STANDARD_CELL
    drivers = netlist.net_pins[netlist.net_start[:-1]]
    largest = float(np.abs(netlist.weight[drivers]).max()) if len(drivers) else 1.0
    # A pin is marked at most four times, and both the old and the new routes of a net may be there at once.
    route_unit = _unit(8.0 * max(largest, 1e-30) * max(len(netlist.net_pins), 1), _ROUTE_BITS)
    nets_start, nets = plc.nets_of_nodes.lists
    pins_start, pins = state.pin_lists()
    reach, rules = terms.smooth_range, plc.routing_rules
    return Wiring(
        net_start=netlist.net_start,
        net_pins=netlist.net_pins,
        weight=netlist.weight,
        units=np.rint(netlist.weight * route_unit),
        nets_start=nets_start,
        nets=nets,
        pins_start=pins_start,
        pins=pins,
        offset_x=netlist.x_offset,
        offset_y=netlist.y_offset,
        width=state.width.copy(),
        height=state.height.copy(),
        kind=kind,
        rotation=ROTATION,
        exchanges=EXCHANGES_SIDES.astype(np.uint8),
        blockages=np.array(plc.get_blockages(), np.float64).reshape(-1, 5),
        spread_rows=_spread(
            terms.rows, reach, terms.congestion_unit / (terms.cell_height * rules.routes_per_micron[0]) / route_unit
        ),
        spread_columns=_spread(
            terms.columns, reach, terms.congestion_unit / (terms.cell_width * rules.routes_per_micron[1]) / route_unit
        ),
    )


def _spread(lines: int, reach: int, share: float) -> Floats:
    """Returns what a unit of usage in each line adds to each of the lines that it is smoothed over."""
    at = np.arange(lines)
    return share / (np.minimum(lines - 1, at + reach) - np.maximum(0, at - reach) + 1)


def new_places(plc: PlacementCost, terms: CostRules) -> Places:
    """Returns the places of an engine's nodes, with empty sums."""
    state, netlist = plc.state, plc.netlist
    columns, rows, nodes, nets = terms.columns, terms.rows, netlist.num_nodes, netlist.num_nets
    longest = int(np.diff(netlist.net_start).max()) if nets else 0
    return Places(
        x=state.x.copy(),
        y=state.y.copy(),
        placed=state.placed.copy(),
        orientation=state.orientation.copy(),
        pin_x=state.offset_x.copy(),
        pin_y=state.offset_y.copy(),
        box_width=state.box_width.copy(),
        box_height=state.box_height.copy(),
        cells=np.zeros(nodes, np.int64),
        lengths=np.zeros(nets, np.int64),
        length=np.zeros(1, np.int64),
        usage_rows=np.zeros((rows, columns)),
        usage_columns=np.zeros((rows, columns)),
        found=np.zeros(nets, np.int32),
        seen=np.zeros(nets + 1, np.int64),
        marks_rows=np.zeros((rows, columns + 1)),
        marks_columns=np.zeros((rows + 1, columns)),
        row_span=np.zeros((rows, 2), np.int64),
        column_span=np.zeros((columns, 2), np.int64),
        value_change=np.zeros(2 * columns * rows, np.int64),
        horizontal_span=np.zeros((columns, 2), np.int64),
        vertical_span=np.zeros((rows, 2), np.int64),
        stamps=np.zeros(rows * columns + 1, np.int64),
        distinct=np.zeros(longest + 1, np.int64),
    )
