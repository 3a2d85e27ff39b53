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
    Changes,
    CostRules,
    CostState,
    Floats,
    Ints,
    Places,
    Wiring,
    clear,
)
from a2perf_placement.incremental.top_sum import sum_of_largest

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
            terms.conventions.nearest_cell,
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
    changes: Changes,
    change: int,
    nets: NDArray[np.int32],
    first_sign: int,
    wiring: Wiring,
    terms: CostRules,
    now: CostState,
) -> None:
    """Takes nodes and their nets out (unless the first sign is 1), puts the nodes elsewhere and adds them again."""
    places, nodes = now.places, changes.nodes[change]
    for sign in range(first_sign, 2, 2):
        if sign > first_sign:
            for i in range(nodes.size):
                if nodes[i] >= 0:
                    x, y = changes.x[change, i], changes.y[change, i]
                    orientation, placed = changes.orientations[change, i], changes.placed[change, i]
                    _stand(nodes[i], x, y, orientation, placed, wiring, terms, places)
        mark(nets, sign, wiring, places)
        for node in nodes:
            if node >= 0 and places.placed[node] and wiring.kind[node] != NO_BOX:
                add_node(node, sign, wiring, terms, places, now.density)
                if wiring.kind[node] == HARD:
                    add_blockage(node, sign, terms, places)
    measure(nets, wiring, terms, places)
    settle(wiring, terms, places)
    cells = terms.columns * terms.rows
    write_lines(0, terms.rows, places.horizontal_span, places, now.congestion)
    write_lines(cells, terms.columns, places.vertical_span, places, now.congestion)


@compiled_part
def _read_costs(terms: CostRules, now: CostState, results: Floats) -> None:
    """Fills in wirelength, density, congestion and the weighted cost."""
    density = now.density
    results[0] = now.places.length[0] / terms.length_unit / terms.length_scale
    wanted = terms.top_density
    if terms.conventions.mean_of_occupied and density.values.size < FEW_CELLS:
        wanted = 0
        for value in density.values:
            wanted += 1 if value > 0 else 0
        wanted = max(wanted, 1)
    results[1] = 0.5 * (sum_of_largest(density, wanted) / terms.density_unit / wanted)
    total = sum_of_largest(now.congestion, terms.top_congestion)
    results[2] = total / terms.congestion_unit / terms.top_congestion
    cost = terms.weight_wirelength * results[0]
    cost += terms.weight_congestion * results[2]
    results[3] = cost + terms.weight_density * results[1]


@compiled_part
def _is_of(nodes: Ints, saved: Changes) -> bool:
    return bool(nodes[0] == saved.nodes[0, 0] and nodes[1] == saved.nodes[0, 1])


@compiled_without_allocation
def evaluate_changes(
    first: int,
    after: int,
    keep: bool,
    changes: Changes,
    saved: Changes,
    wiring: Wiring,
    terms: CostRules,
    now: CostState,
    results: Floats,
) -> None:
    """Fills in the costs after each of some changes of up to two nodes.

    Args:
        first: the first change to evaluate.
        after: the one after the last.
        keep: whether the changes stay; otherwise each one is evaluated alone, and taken back.
        changes: shape (changes, 2).
        saved: result, shape (1, 2): the change that takes the last one back.
        results: wirelength, density, congestion and cost of all changes, shape (changes, 4).
    """
    places, change, going_back = now.places, first, False
    while change < after or going_back:
        # One call of `_apply` for both directions: its code is compiled for each.
        applied, at = (saved, 0) if going_back else (changes, change)
        nodes = applied.nodes[at]
        if not going_back and (change == first or not _is_of(nodes, saved)):
            for i in range(2):
                node = nodes[i]
                saved.nodes[0, i] = node
                if node >= 0:
                    saved.x[0, i], saved.y[0, i] = places.x[node], places.y[node]
                    saved.orientations[0, i], saved.placed[0, i] = places.orientation[node], places.placed[node]
        _apply(applied, at, places.found[: _find_nets(nodes, wiring, places)], -1, wiring, terms, now)
        if going_back:
            going_back = False
            continue
        _read_costs(terms, now, results[change])
        change += 1
        # Another place for the same nodes replaces this one; going back first would double the work.
        going_back = not keep and (change == after or not _is_of(changes.nodes[change], saved))


@compiled_without_allocation
def evaluate_all(
    everything: Changes,
    nets: NDArray[np.int32],
    wiring: Wiring,
    terms: CostRules,
    now: CostState,
    results: Floats,
) -> None:
    """Computes everything from the places of nodes and pins, and fills in the costs.

    Args:
        everything: one change of all nodes; only ``nodes`` is read.
        nets: all nets.
        now: places and offsets are read, all else is overwritten.
        results: wirelength, density, congestion, cost; shape (4,).
    """
    places = now.places
    places.usage_rows[:] = 0.0
    places.usage_columns[:] = 0.0
    places.marks_rows[:] = 0.0
    places.marks_columns[:] = 0.0
    places.value_change[:] = 0
    places.lengths[:] = 0
    places.length[0] = 0
    for span in (places.row_span, places.column_span, places.horizontal_span, places.vertical_span):
        clear(span)
    for top in (now.density, now.congestion):
        top.values[:] = 0
        top.sizes[:] = 0
        top.sums[:] = 0
        # Above all values: the bins stay empty until the first sum is wanted, which sorts all cells at once.
        top.band[0] = 1 << 62
    for node in everything.nodes[0]:
        _find_cell(node, terms, places)
    for i in range(wiring.blockages.shape[0]):
        low_x, low_y = wiring.blockages[i, 0], wiring.blockages[i, 1]
        high_x, high_y, rate = wiring.blockages[i, 2], wiring.blockages[i, 3], wiring.blockages[i, 4]
        add_box((low_x, low_y, high_x, high_y), rate, 1, terms, now.density)
    _apply(everything, 0, nets, 1, wiring, terms, now)
    _read_costs(terms, now, results)
