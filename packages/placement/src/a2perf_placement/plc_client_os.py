"""``PlacementCost`` with the names, arguments and conventions of the public evaluator's ``plc_client_os`` module.

A program of the MacroPlacement project (see ``profiles``) runs with ``from a2perf_placement.plc_client_os import
PlacementCost`` in the place of its import. All costs and maps are computed when they are asked for, so the flags that
order another computation may be set and have no effect. A pin on the right or upper edge of the canvas counts for the
last cell; the public module counts it for the first cell of the next row.
"""
# ruff: noqa: D102, N802  # names and meanings are those of the public module

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.domains.circuit_training.engine import placement_cost
from a2perf.domains.circuit_training.netlists.netlist import KIND_MACRO_PIN, KIND_PORT
from a2perf.domains.circuit_training.netlists.plc_file import read_header, required_sizes
from a2perf_placement.incremental.placement import IncrementalPlacement


class PlacementCost(placement_cost.PlacementCost):
    """The design, its settings and its placement; costs are those of profile ``tilos``."""

    def __init__(
        self, netlist_file: str | Path, macro_macro_x_spacing: float = 0.0, macro_macro_y_spacing: float = 0.0
    ) -> None:
        super().__init__(netlist_file, macro_macro_x_spacing, macro_macro_y_spacing)
        super().set_canvas_boundary_check(False)  # the public evaluator keeps the setting and checks nothing
        self._checks_boundary = True
        self.FLAG_UPDATE_WIRELENGTH = self.FLAG_UPDATE_DENSITY = self.FLAG_UPDATE_CONGESTION = True
        self.set_placement_grid(10, 10)
        self.set_overlap_threshold(0.0)
        self.set_congestion_smooth_range(0)
        self.set_macro_routing_allocation(0.0, 0.0)
        self.set_use_incremental_cost(False)
        self.set_project_name("circuit_training")
        self.set_block_name(Path(netlist_file).resolve().parent.name)

    def set_canvas_boundary_check(self, check: bool) -> bool:
        self._checks_boundary = bool(check)
        return True

    def get_canvas_boundary_check(self) -> bool:
        return self._checks_boundary

    def set_placement_grid(self, columns: int, rows: int) -> bool:
        return super().set_placement_grid(columns, rows) and self.set_congestion_grid(columns, rows)

    def restore_placement(
        self, path: str | Path, ifInital: bool = True, ifValidate: bool = False, ifReadComment: bool = False
    ) -> bool:
        """Places the nodes of a file; ``ifReadComment``: its header gives canvas, grid and routes.

        Raises:
            PlacementFileError: the file is missing or broken, or its header has no canvas or grid.
        """
        if ifReadComment:
            header = read_header(self.get_source_filename(), path)
            width, height, columns, rows = required_sizes(header, path)
            self.set_canvas_size(width, height)
            self.set_placement_grid(columns, rows)
            if header.routes:
                self.set_routes_per_micron(*header.routes)
            if header.macro_routes:
                self.set_macro_routing_allocation(*header.macro_routes)
            self.set_congestion_smooth_range(header.smooth_range or 0)
        return super().restore_placement(path)

    # --- costs -------------------------------------------------------------------------------------------------------

    def _evaluated(self) -> IncrementalPlacement:
        return IncrementalPlacement(self, "tilos")

    def get_cost(self) -> float:
        return self._evaluated().cost().wirelength

    def get_density_cost(self) -> float:
        return self._evaluated().cost().density

    def get_congestion_cost(self) -> float:
        return self._evaluated().cost().congestion

    def get_grid_cells_density(self) -> list[float]:  # type: ignore[override]
        return self._evaluated().maps()[0]

    def get_horizontal_routing_congestion(self) -> list[float]:  # type: ignore[override]
        return self._evaluated().maps()[1]

    def get_vertical_routing_congestion(self) -> list[float]:  # type: ignore[override]
        return self._evaluated().maps()[2]

    def get_routing(self) -> None:
        """Nothing: costs and maps are computed when they are asked for."""

    def get_H_congestion_cost(self) -> float:
        return _of_occupied(self.get_horizontal_routing_congestion())

    def get_V_congestion_cost(self) -> float:
        return _of_occupied(self.get_vertical_routing_congestion())

    def abu(self, xx: Sequence[float], n: float = 0.1) -> float:
        """Returns the mean of the largest values, a share ``n`` of all; the largest one if that is none."""
        return float(np.mean(sorted(xx, reverse=True)[: max(int(len(xx) * n), 1)]))

    # --- nodes -------------------------------------------------------------------------------------------------------

    @property
    def hard_macro_indices(self) -> list[int]:  # type: ignore[override]
        return list(map(int, super().hard_macro_indices))

    @property
    def soft_macro_indices(self) -> list[int]:  # type: ignore[override]
        return list(map(int, super().soft_macro_indices))

    def is_node_hard_macro(self, node: Any) -> bool:
        return int(node) in self.hard_macro_indices

    def get_hard_macros_count(self) -> int:
        return len(self.hard_macro_indices)

    def get_soft_macros_count(self) -> int:
        return len(self.soft_macro_indices)

    def get_ports_count(self) -> int:
        return int((self.netlist.kind == KIND_PORT).sum())

    def get_hard_macro_pins_count(self) -> int:
        return self._pins_of(self.hard_macro_indices)

    def get_soft_macro_pins_count(self) -> int:
        return self._pins_of(self.soft_macro_indices)

    def _pins_of(self, macros: list[int]) -> int:
        netlist = self.netlist
        return int((np.isin(netlist.owner, macros) & (netlist.kind == KIND_MACRO_PIN)).sum())

    set_soft_macro_position = placement_cost.PlacementCost.update_node_coords

    def update_soft_macros_position(self, coordinates: Mapping[int, tuple[float, float]]) -> None:
        for node, (x, y) in coordinates.items():
            self.update_node_coords(node, x, y)

    def get_node_mask(self, node: Any, node_name: str | None = None) -> Any:
        return super().get_node_mask(node if node_name is None else node_name)

    def display_canvas(
        self, annotate: bool = True, amplify: bool = False, saveName: str | None = None, show: bool = True
    ) -> None:
        """Draws the canvas with its macros: hard ones are blue, soft ones yellow; needs matplotlib."""
        import matplotlib.pyplot as plt
        from matplotlib.patches import Rectangle

        figure, axes = plt.subplots(figsize=(8, 8), dpi=50)
        axes.set(xlim=(0, self.get_canvas_width_height()[0]), ylim=(0, self.get_canvas_width_height()[1]))
        for node in filter(self.is_node_placed, self.get_macro_indices()):
            (x, y), (width, height) = self.get_node_location(node), self.get_node_width_height(node)
            colour = "y" if self.is_node_soft_macro(node) else "b"
            axes.add_patch(Rectangle((x - width / 2, y - height / 2), width, height, alpha=0.5, facecolor=colour))
            if annotate:
                axes.annotate(self.get_node_name(node), (x, y), fontsize=10 if amplify else 5, ha="center")
        if saveName:
            figure.savefig(saveName)
        if show:
            plt.show()
        plt.close(figure)


def _of_occupied(values: list[float]) -> float:
    """Returns the sum of the largest tenth over its size; of fewer than ten cells, the mean of the occupied ones."""
    occupied = sorted((value for value in values if value), reverse=True)
    count = len(values) // 10 or max(len(occupied), 1)
    return sum(occupied[:count]) / count
