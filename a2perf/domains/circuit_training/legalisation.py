"""Legalisation: moves every macro and standard cell to the nearest feasible grid cell.

Large nodes go first because they fit in few places; small ones fill the gaps. Distances are Manhattan distances between
grid cells.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from a2perf.domains.circuit_training.placement_cost import PlacementCost


def legalize_placement(plc: PlacementCost) -> bool:
    """Moves all macros and standard cells that are not fixed to allowed cells; ports are fixed first.

    Args:
        plc: the engine with the placement; changed in place.

    Returns:
        Whether a cell was found for each node; after False the rest is unplaced.
    """
    state = plc.state
    for port in state.ports.tolist():
        plc.fix_node_coord(port)
    nodes = np.sort(np.concatenate((state.macros, state.standard_cells)))
    nodes = nodes[state.fixed[nodes] == 0]
    areas = state.width[nodes] * state.height[nodes]
    ordered = nodes[np.argsort(-areas, kind="stable")].tolist()  # stable: equal areas keep the order of their indices
    # Before unplace_all_nodes, after which no node has a cell.
    wanted = {node: plc.get_grid_cell_of_node(node) for node in ordered}
    plc.unplace_all_nodes()
    columns, rows = plc.get_grid_num_columns_rows()
    for node in ordered:
        allowed = plc.get_node_mask(node)
        # A node that was outside the canvas starts from the lower right corner.
        start = wanted[node] if wanted[node] >= 0 else columns - 1
        cell = next((cell for cell in cells_by_distance(start, columns, rows) if allowed[cell]), None)
        if cell is None:
            return False
        plc.place_node(node, cell)
    return True


def cells_by_distance(start: int, columns: int, rows: int) -> Iterator[int]:
    """Yields all cells, the nearest first; of equally near ones the lower, then the left first."""
    row, column = divmod(start, columns)
    for distance in range(columns + rows - 1):
        for row_offset in range(-distance, distance + 1):
            if not 0 <= row + row_offset < rows:
                continue
            column_offset = distance - abs(row_offset)
            # With an offset of 0 both are the same cell, which must come once.
            for other in dict.fromkeys((column - column_offset, column + column_offset)):
                if 0 <= other < columns:
                    yield (row + row_offset) * columns + other
