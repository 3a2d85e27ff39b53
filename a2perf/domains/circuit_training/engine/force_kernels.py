"""Kernels of the force-directed placer: one step is attraction along nets, repulsion of overlapping macros, a move.

The placer is chaotic: a change in the last bit of a position changes the final costs by a percent. The order of the
additions and of the factors in products therefore determines the result and must not change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.compilation import compiled_part, compiled_without_allocation

# Unsigned where the loops over edges index with it: an index that may be negative takes an instruction more.
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
EdgeNumbers = NDArray[np.uint64]
Slots = NDArray[np.uint32]

CONTACT_TOLERANCE = 1e-4  # um; boxes repel each other if they overlap by more
COINCIDENT = 1e-6  # um; closer centres than that attract instead
SMALLEST_SHARE = 0.1  # of the step's largest shift that a moving node moves at least
SMALLEST_FORCE = 1.0


class Edges(NamedTuple):
    """The nets as edges between slots; those of one driver lie behind each other."""

    drivers: Slots
    start: EdgeNumbers  # where the edges of each driver start, and the end
    sinks: Slots
    springs: Floats  # stiffness, slack in x and slack in y, shape (edges, 3)


class Grid(NamedTuple):
    """The cells that macros are sorted into, row by row."""

    cell_width: float
    cell_height: float
    columns: int
    rows: int


class Scratch(NamedTuple):
    """Memory of a phase. The first axis of all but the first two is movable and fixed macros: they are searched apart
    because movable ones are mostly soft and small, so their contacts lie within fewer cells.
    """

    force: Floats
    cells: Ints  # of each macro
    touching: Ints
    start: Ints  # of each cell in ``order``, one place on
    order: Ints  # macros, sorted by cell
    boxes: Floats  # centre and half size of each macro in ``order``
    largest_half: Floats  # along both axes


@compiled_part
def _attract(position: Floats, force: Floats, edges: Edges) -> None:
    drivers, edges_start, sinks, springs = edges
    for i in range(drivers.size):
        u = drivers[i]
        x, y = position[u, 0], position[u, 1]
        # No edge has both ends in one slot, so no write to force[v] below is lost when these are stored.
        own_x, own_y = force[u, 0], force[u, 1]
        for edge in range(edges_start[i], edges_start[i + 1]):
            v = sinks[edge]
            dx = position[v, 0] - x
            dy = position[v, 1] - y
            fx = np.copysign(springs[edge, 0] * max(0.0, abs(dx) - springs[edge, 1]), dx)
            fy = np.copysign(springs[edge, 0] * max(0.0, abs(dy) - springs[edge, 2]), dy)
            own_x += fx
            own_y += fy
            force[v, 0] -= fx
            force[v, 1] -= fy
        force[u, 0], force[u, 1] = own_x, own_y


@compiled_part
def _cell(position: float, size: float, count: int) -> int:
    # Clamped, not skipped: _repel clamps its range alike, so macros beyond the canvas are still found.
    return min(max(int(position / size), 0), count - 1)


@compiled_part
def _sort_into_cells(
    macro_slots: Slots, movable: int, kind: int, position: Floats, half: Floats, grid: Grid, scratch: Scratch
) -> None:
    """Sorts the movable (``kind`` 0) or the fixed macros (1) by row, column and index."""
    cells, start, order, boxes = scratch.cells, scratch.start[kind], scratch.order[kind], scratch.boxes[kind]
    for cell in range(start.size):
        start[cell] = 0
    for m in range(macro_slots.size):
        slot = macro_slots[m]
        if (slot < movable) == (kind == 0):
            row = _cell(position[slot, 1], grid.cell_height, grid.rows)
            cells[m] = row * grid.columns + _cell(position[slot, 0], grid.cell_width, grid.columns)
            start[cells[m] + 1] += 1
    for cell in range(grid.columns * grid.rows + 1):
        start[cell + 1] += start[cell]
    # Backwards: this leaves `start` at the first entry of each cell, and macros of a cell in ascending order.
    for m in range(macro_slots.size - 1, -1, -1):
        slot = macro_slots[m]
        if (slot < movable) == (kind == 0):
            cell = cells[m] + 1
            start[cell] -= 1
            at = start[cell]
            order[at] = m
            boxes[at, 0], boxes[at, 1] = position[slot, 0], position[slot, 1]
            boxes[at, 2], boxes[at, 3] = half[slot, 0], half[slot, 1]


@compiled_part
def _find_contacts(
    x: float, y: float, half_x: float, half_y: float, after: int, kind: int, grid: Grid, scratch: Scratch, count: int
) -> int:
    """Adds the sorted macros behind ``after`` that overlap a box to ``touching``; returns their number."""
    cell_width, cell_height, columns, rows = grid
    touching, start, order, boxes = scratch.touching, scratch.start[kind], scratch.order[kind], scratch.boxes[kind]
    reach_x, reach_y = half_x + scratch.largest_half[kind, 0], half_y + scratch.largest_half[kind, 1]
    first_column, last_column = _cell(x - reach_x, cell_width, columns), _cell(x + reach_x, cell_width, columns)
    first_row, last_row = _cell(y - reach_y, cell_height, rows), _cell(y + reach_y, cell_height, rows)
    for row in range(first_row, last_row + 1):
        # start is shifted by one cell: a cell begins at start[cell + 1]
        for at in range(start[row * columns + first_column + 1], start[row * columns + last_column + 2]):
            # Branch-free compaction: the processor cannot predict contacts.
            touching[count] = order[at]
            touches_x = abs(x - boxes[at, 0]) <= half_x + boxes[at, 2] - CONTACT_TOLERANCE
            touches_y = abs(y - boxes[at, 1]) <= half_y + boxes[at, 3] - CONTACT_TOLERANCE
            count += 1 if touches_x & touches_y & (order[at] > after) else 0
    return count


@compiled_part
def _repel(
    repel: float, macro_slots: Slots, movable: int, position: Floats, half: Floats, grid: Grid, scratch: Scratch
) -> None:
    """Adds the push between overlapping macros; slots below ``movable`` are those of movable nodes."""
    force, cells, touching = scratch.force, scratch.cells, scratch.touching
    for m in range(macro_slots.size):
        i = macro_slots[m]
        if i >= movable:
            continue
        x, y, half_x, half_y = position[i, 0], position[i, 1], half[i, 0], half[i, 1]
        # behind m: each pair of movable macros once
        moving = _find_contacts(x, y, half_x, half_y, m, 0, grid, scratch, 0)
        count = _find_contacts(x, y, half_x, half_y, -1, 1, grid, scratch, moving)
        own_x, own_y = force[i, 0], force[i, 1]
        first, second = 0, moving
        for _ in range(count):
            # Merged by row, column and index: the sum depends on the order.
            of_moving = second == count
            if first < moving and second < count:
                left, right = touching[first], touching[second]
                of_moving = cells[left] < cells[right] or (cells[left] == cells[right] and left < right)
            if of_moving:
                other = touching[first]
                first += 1
            else:
                other = touching[second]
                second += 1
            j = macro_slots[other]
            dx = x - position[j, 0]
            dy = y - position[j, 1]
            if dx == 0.0 and dy == 0.0:  # no direction: the order of the macros decides
                gx = gy = -repel if m < other else repel
            else:
                distance = np.sqrt(dx * dx + dy * dy)
                gx = repel * dx / distance
                gy = repel * dy / distance
                if distance < COINCIDENT:
                    gx, gy = -gx, -gy
            own_x += gx
            own_y += gy
            if of_moving:
                force[j, 0] -= gx
                force[j, 1] -= gy
        force[i, 0], force[i, 1] = own_x, own_y


@compiled_part
def _move(position: Floats, force: Floats, half: Floats, movable: int, max_move: float, canvas: Floats) -> None:
    for axis in range(2):
        largest = 0.0
        for node in range(movable):
            largest = max(largest, abs(force[node, axis]))
        for node in range(movable):
            pull = force[node, axis]
            # This also protects the division below: it only passes if `largest` is above SMALLEST_FORCE.
            if abs(pull) > SMALLEST_FORCE:
                share = max(abs(pull) / largest, SMALLEST_SHARE)
                shift = share * max_move
                moved = position[node, axis] + (shift if pull > 0 else -shift)
                # a move over the border is dropped, not clipped, as in the earlier engine
                if moved - half[node, axis] >= 0.0 and moved + half[node, axis] <= canvas[axis]:
                    position[node, axis] = moved


def scratch(slots: int, macros: int, cells: int) -> Scratch:
    """Returns the memory that `run_phase` works in."""
    return Scratch(
        force=np.empty((slots, 2)),
        cells=np.empty(macros, dtype=np.int64),
        touching=np.empty(macros + 1, dtype=np.int64),
        # Two more than cells: counts are stored one place on, and _repel reads the end of the last cell.
        start=np.empty((2, cells + 2), dtype=np.int64),
        order=np.empty((2, macros), dtype=np.int64),
        boxes=np.empty((2, macros, 4)),
        largest_half=np.empty((2, 2)),
    )


@compiled_without_allocation
def run_phase(
    steps: int,
    max_move: float,
    attract: float,
    repel: float,
    movable: int,
    position: Floats,
    half: Floats,
    edges: Edges,
    macro_slots: Slots,
    canvas: Floats,
    columns: int,
    rows: int,
    scratch: Scratch,
) -> None:
    """Runs the steps of one phase.

    Args:
        max_move: um that the node with the largest force moves along an axis.
        attract: strength of the pull along nets; 0 switches it off.
        repel: strength of the push between macros; 0 switches it off.
        position: centres of nodes and positions of fixed pins by slot, um, shape (slots, 2); updated.
        columns: of the placement grid; cells are visited in its order, which the result depends on.
    """
    grid = Grid(canvas[0] / columns, canvas[1] / rows, columns, rows)
    force, largest_half = scratch.force, scratch.largest_half
    # A macro searches as far as its own half size plus this one, so it misses no contact with a larger macro.
    largest_half[:] = 0.0
    for m in range(macro_slots.size):
        kind = 0 if macro_slots[m] < movable else 1
        for axis in range(2):
            largest_half[kind, axis] = max(largest_half[kind, axis], half[macro_slots[m], axis])
    if repel != 0.0:
        _sort_into_cells(macro_slots, movable, 1, position, half, grid, scratch)
    for _ in range(steps):
        for slot in range(position.shape[0]):
            force[slot, 0] = force[slot, 1] = 0.0
        if attract != 0.0:
            _attract(position, force, edges)
        if repel != 0.0:
            _sort_into_cells(macro_slots, movable, 0, position, half, grid, scratch)
            _repel(repel, macro_slots, movable, position, half, grid, scratch)
        _move(position, force, half, movable, max_move, canvas)
