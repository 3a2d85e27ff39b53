"""Kernels of the exact incremental evaluation: change the places of one or two nodes and bring all costs up to date.

Every contribution of a net or node is rounded once to a multiple of a fixed power of two, and only integers are added.
Their sums do not depend on the order, so what a contribution added can be subtracted again without a residue. The usage
of routes is counted in integers held by doubles, which `route` adds exactly. Formulas: those of `wirelength`,
`density`, `net_routing` and `congestion`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.net_routing import SKIPPED, cell_at
from a2perf.domains.compilation import compiled_part, compiled_without_allocation
from a2perf_placement.incremental.boxes import add_blockage, add_box, add_node
from a2perf_placement.incremental.nets import mark, measure, settle, write_lines
from a2perf_placement.incremental.state import (
    HARD,
    NO_BOX,
    CostRules,
    Floats,
    Ints,
    Places,
    Wiring,
    clear,
)
from a2perf_placement.incremental.top_sum import TopSum, sum_of_largest

FEW_CELLS = 10  # grids below this have their own density rule in one profile
RESULTS = 4  # wirelength, density, congestion and weighted cost


@compiled_part
def _stand(
    node: int, x: float, y: float, orientation: int, placed: int, wiring: Wiring, terms: CostRules, places: Places
) -> None:
    """Puts a node with its pins somewhere."""
    pins = range(wiring.pins_start[node], wiring.pins_start[node + 1])
    if orientation != places.orientation[node]:
        places.orientation[node] = orientation
        for i in pins:
            pin = wiring.pins[i]
            at_x, at_y = wiring.offset_x[pin], wiring.offset_y[pin]
            places.pin_x[pin] = wiring.rotation[orientation, 0] * at_x + wiring.rotation[orientation, 1] * at_y
            places.pin_y[pin] = wiring.rotation[orientation, 2] * at_x + wiring.rotation[orientation, 3] * at_y
        exchanged = wiring.exchanges[orientation]
        places.box_width[node] = wiring.height[node] if exchanged else wiring.width[node]
        places.box_height[node] = wiring.width[node] if exchanged else wiring.height[node]
    places.x[node], places.y[node], places.placed[node] = x, y, placed
    _find_cell(node, terms, places)
    for i in pins:
        pin = wiring.pins[i]
        places.x[pin], places.y[pin] = x + places.pin_x[pin], y + places.pin_y[pin]
        places.placed[pin] = placed
        _find_cell(pin, terms, places)


@compiled_part
def _find_cell(node: int, terms: CostRules, places: Places) -> None:
    places.cells[node] = SKIPPED
    if places.placed[node]:
        places.cells[node] = cell_at(
            places.x[node],
            places.y[node],
            terms.cell_width,
            terms.cell_height,
            terms.columns,
            terms.rows,
            terms.nearest_cell,
        )


@compiled_part
def _find_nets(nodes: Ints, wiring: Wiring, places: Places) -> int:
    """Collects the nets at some nodes, each once; returns their number."""
    # A new number for each change saves clearing the marks of the nets.
    change = places.seen[places.seen.size - 1] + 1
    places.seen[places.seen.size - 1] = change
    count = 0
    for node in nodes:
        if node < 0:
            continue
        for i in range(wiring.nets_start[node], wiring.nets_start[node + 1]):
            net = wiring.nets[i]
            if places.seen[net] != change:
                places.seen[net] = change
                places.found[count] = net
                count += 1
    return count


@compiled_part
def _apply(
    nodes: Ints,
    nets: NDArray[np.int32],
    x: Floats,
    y: Floats,
    orientations: Ints,
    placed: Ints,
    first_sign: int,
    wiring: Wiring,
    terms: CostRules,
    places: Places,
    density: TopSum,
    congestion: TopSum,
) -> None:
    """Takes nodes and their nets out (unless the first sign is 1), puts the nodes elsewhere and adds them again."""
    for sign in range(first_sign, 2, 2):
        if sign > first_sign:
            for i in range(nodes.size):
                if nodes[i] >= 0:
                    _stand(nodes[i], x[i], y[i], orientations[i], placed[i], wiring, terms, places)
        mark(nets, sign, wiring, places)
        for node in nodes:
            if node >= 0 and places.placed[node] and wiring.kind[node] != NO_BOX:
                add_node(node, sign, wiring, terms, places, density)
                if wiring.kind[node] == HARD:
                    add_blockage(node, sign, terms, places)
    measure(nets, wiring, terms, places)
    settle(wiring, terms, places)
    cells = terms.columns * terms.rows
    write_lines(0, terms.rows, places.horizontal_span, places, congestion)
    write_lines(cells, terms.columns, places.vertical_span, places, congestion)


@compiled_part
def _read_costs(terms: CostRules, places: Places, density: TopSum, congestion: TopSum, results: Floats) -> None:
    """Fills in wirelength, density, congestion and the weighted cost."""
    results[0] = places.length[0] / terms.length_unit / terms.length_scale
    wanted = terms.top_density
    if terms.mean_of_occupied and density.values.size < FEW_CELLS:
        wanted = 0
        for value in density.values:
            wanted += 1 if value > 0 else 0
        wanted = max(wanted, 1)
    results[1] = 0.5 * (sum_of_largest(density, wanted) / terms.density_unit / wanted)
    total = sum_of_largest(congestion, terms.top_congestion)
    results[2] = total / terms.congestion_unit / terms.top_congestion
    cost = terms.weight_wirelength * results[0]
    cost += terms.weight_congestion * results[2]
    results[3] = cost + terms.weight_density * results[1]


@compiled_without_allocation
def evaluate_changes(
    first: int,
    after: int,
    keep: bool,
    nodes: Ints,
    x: Floats,
    y: Floats,
    orientations: Ints,
    placed: Ints,
    saved_place: Floats,
    saved_state: Ints,
    wiring: Wiring,
    terms: CostRules,
    places: Places,
    density: TopSum,
    congestion: TopSum,
    results: Floats,
) -> None:
    """Fills in the costs after each of some changes of up to two nodes.

    Args:
        first: the first change to evaluate.
        after: the one after the last.
        keep: whether the changes stay; otherwise each one is evaluated alone, and taken back.
        nodes: the nodes of each change, -1 for none, shape (changes, 2).
        x: of their centres, um.
        y: of their centres, um.
        orientations: their orientations, as indices.
        placed: 1, or 0 for nodes that are taken off the canvas.
        saved_place: scratch, shape (2, 2).
        saved_state: scratch, shape (3, 2).
        results: wirelength, density, congestion and cost of all changes, shape (changes, 4).
    """
    change = first
    going_back = False
    while change < after or going_back:
        if going_back:
            count = _find_nets(saved_state[0], wiring, places)
            _apply(
                saved_state[0],
                places.found[:count],
                saved_place[0],
                saved_place[1],
                saved_state[1],
                saved_state[2],
                -1,
                wiring,
                terms,
                places,
                density,
                congestion,
            )
            going_back = False
            continue
        same = change > first and nodes[change, 0] == saved_state[0, 0] and nodes[change, 1] == saved_state[0, 1]
        if not same:
            for i in range(2):
                node = nodes[change, i]
                saved_state[0, i] = node
                if node >= 0:
                    saved_place[0, i], saved_place[1, i] = places.x[node], places.y[node]
                    saved_state[1, i], saved_state[2, i] = places.orientation[node], places.placed[node]
        count = _find_nets(nodes[change], wiring, places)
        _apply(
            nodes[change],
            places.found[:count],
            x[change],
            y[change],
            orientations[change],
            placed[change],
            -1,
            wiring,
            terms,
            places,
            density,
            congestion,
        )
        _read_costs(terms, places, density, congestion, results[change])
        change += 1
        # Another place for the same nodes replaces this one; going back first would double the work.
        going_back = not keep and (
            change == after or nodes[change, 0] != saved_state[0, 0] or nodes[change, 1] != saved_state[0, 1]
        )


@compiled_without_allocation
def evaluate_all(
    all_nodes: Ints,
    all_nets: NDArray[np.int32],
    wiring: Wiring,
    terms: CostRules,
    places: Places,
    density: TopSum,
    congestion: TopSum,
    results: Floats,
) -> None:
    """Computes everything from the places of nodes and pins, and fills in the costs.

    Args:
        places: places and offsets are read, all else is overwritten.
        results: wirelength, density, congestion, cost; shape (4,).
    """
    places.usage_rows[:] = 0.0
    places.usage_columns[:] = 0.0
    places.marks_rows[:] = 0.0
    places.marks_columns[:] = 0.0
    places.value_change[:] = 0
    places.lengths[:] = 0
    places.length[0] = 0
    for span in (places.row_span, places.column_span, places.horizontal_span, places.vertical_span):
        clear(span)
    for top in (density, congestion):
        top.values[:] = 0
        top.sizes[:] = 0
        top.sums[:] = 0
        # Above all values: the bins stay empty until the first sum is wanted, which sorts all cells at once.
        top.band[0] = 1 << 62
    for node in all_nodes:
        _find_cell(node, terms, places)
    for i in range(wiring.blockages.shape[0]):
        low_x, low_y = wiring.blockages[i, 0], wiring.blockages[i, 1]
        high_x, high_y, rate = wiring.blockages[i, 2], wiring.blockages[i, 3], wiring.blockages[i, 4]
        add_box((low_x, low_y, high_x, high_y), rate, 1, terms, density)
    none, nothing = places.x[:0], all_nodes[:0]
    _apply(all_nodes, all_nets, none, none, nothing, nothing, 1, wiring, terms, places, density, congestion)
    _read_costs(terms, places, density, congestion, results)
