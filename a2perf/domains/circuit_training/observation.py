"""The observation: features of the nodes, the mask of the next macro, and optionally the fixed features of the design.

Nodes are all macros, hard and soft, in index order, then the port clusters (placement-grid cells that hold ports).
Node arrays are padded to ``max_num_nodes``, cell arrays to ``max_grid_size`` squared with the grid in the middle.
Lengths and positions are divided by canvas width plus height.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import gin
import gymnasium
import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.errors import ArgumentError
from a2perf.domains.circuit_training.rules import PlacementRules
from a2perf.domains.circuit_training.starting_point import SparseAdjacency

Observation = dict[str, NDArray[Any]]
FloatArray = NDArray[np.float64]
HARD, SOFT, PORT_CLUSTER = 1, 2, 3  # node types; 0 is padding

NETLIST_METADATA = (
    "normalized_num_edges",
    "normalized_num_hard_macros",
    "normalized_num_soft_macros",
    "normalized_num_port_clusters",
    "total_horizontal_routes_k",
    "total_vertical_routes_k",
    "total_macro_horizontal_routes_k",
    "total_macro_vertical_routes_k",
    "grid_cols",
    "grid_rows",
    "canvas_width",
    "canvas_height",
)


@gin.configurable(module="a2perf.circuit_training")
@dataclass(frozen=True)
class ObservationConfig:
    """Sizes of the padded arrays of an observation.

    Attributes:
        max_num_nodes: number of nodes: macros, port clusters and standard-cell clusters.
        max_num_edges: number of edges of the netlist graph.
        max_grid_size: number of grid cells along each side of the canvas; an action names one of its square.
    """

    max_num_nodes: int = 3500
    max_num_edges: int = 42000
    max_grid_size: int = 128

    def space(self, *, all_features: bool, netlist_index_bound: int) -> gymnasium.spaces.Dict:
        """Returns the observation space."""
        nodes, edges, cells = self.max_num_nodes, self.max_num_edges, self.max_grid_size**2
        box = gymnasium.spaces.Box
        parts: dict[str, gymnasium.Space[Any]] = {
            "locations_x": box(0, 1, (nodes,), np.float32),
            "locations_y": box(0, 1, (nodes,), np.float32),
            "is_node_placed": box(0, 1, (nodes,), np.int32),
            "current_node": box(0, nodes - 1, (1,), np.int32),
            "fake_net_heatmap": box(0, 1, (cells,), np.float32),
            "mask": box(0, 1, (cells,), np.int32),
            "netlist_index": box(0, netlist_index_bound, (1,), np.int32),
        }
        if all_features:
            for key in NETLIST_METADATA:
                parts[key] = box(0, 1000 if key.endswith("routes_k") else 1, (1,), np.float32)
            parts |= {
                "sparse_adj_i": box(0, nodes - 1, (edges,), np.int32),
                "sparse_adj_j": box(0, nodes - 1, (edges,), np.int32),
                "sparse_adj_weight": box(0, 1000, (edges,), np.float32),
                "edge_counts": box(0, edges - 1, (nodes,), np.int32),
                "macros_w": box(0, 1, (nodes,), np.float32),
                "macros_h": box(0, 1, (nodes,), np.float32),
                "node_types": box(0, 3, (nodes,), np.int32),
            }
        return gymnasium.spaces.Dict(parts)


@gin.configurable("ObservationExtractor", module="a2perf.circuit_training")
@dataclass(frozen=True)
class ExtractorSettings:
    """Observed positions of macros at the start.

    Attributes:
        default_location_x, default_location_y: of a macro without a start position, as a share of the canvas.
        use_plc_init_location: show start positions; otherwise all macros are at the default.
    """

    default_location_x: float = 0.5
    default_location_y: float = 0.5
    use_plc_init_location: bool = True


class ObservationExtractor:
    """Keeps the features of one environment up to date.

    Args:
        plc: the engine, set up.
        config: sizes.
        adjacency: connections between macros and port clusters.
        netlist_index: copied into every observation.
        rules: what differs in the earlier environment.
        locations: start positions of all macros, um, shape (macros, 2); (-1, -1) for none.

    Raises:
        ArgumentError: the design has more nodes, edges or grid cells than the arrays.
    """

    def __init__(
        self,
        plc: PlacementCost,
        config: ObservationConfig,
        locations: FloatArray,
        adjacency: SparseAdjacency,
        netlist_index: int,
        rules: PlacementRules,
    ) -> None:
        self._plc, self._config, self._rules = plc, config, rules
        self._adjacency = adjacency
        self.columns, self.rows = (int(value) for value in plc.get_grid_num_columns_rows())
        self.width, self.height = (float(value) for value in plc.get_canvas_width_height())
        self._scale = self.width + self.height
        self.macros = np.asarray(plc.get_macro_indices(), dtype=np.int64)
        self.position_of = {int(node): position for position, node in enumerate(self.macros)}
        self._clusters = np.asarray(adjacency.clusters, dtype=np.int64)
        self.num_nodes = len(self.macros) + len(self._clusters)
        self._check_sizes()
        size = config.max_grid_size
        self._low_row, self._low_column = (size - self.rows) // 2, (size - self.columns) // 2
        self.mask: NDArray[np.int32] = np.zeros(size * size, np.int32)
        self._grid_mask = self.mask.reshape(size, size)[
            self._low_row : self._low_row + self.rows, self._low_column : self._low_column + self.columns
        ]
        self.netlist_index = netlist_index
        self._start_x, self._start_y, self._start_placed = self._start(locations)
        self.x, self.y, self.placed = self._start_x.copy(), self._start_y.copy(), self._start_placed.copy()

    def _check_sizes(self) -> None:
        config = self._config
        for what, count, limit, name in (
            ("nodes (macros and port clusters)", self.num_nodes, config.max_num_nodes, "max_num_nodes"),
            ("edges", len(self._adjacency.i), config.max_num_edges, "max_num_edges"),
            ("grid columns", self.columns, config.max_grid_size, "max_grid_size"),
            ("grid rows", self.rows, config.max_grid_size, "max_grid_size"),
        ):
            if count > limit:
                raise ArgumentError(
                    f"{self._plc.get_source_filename() or 'the design'} has {count} {what}; observations hold {limit}",
                    hint=f"bind ObservationConfig.{name} = {count} in gin, or pass observation_config=",
                )

    # --- Every step

    def reset(self) -> None:
        """Resets the features to the start of an episode."""
        self.x[:], self.y[:], self.placed[:] = self._start_x, self._start_y, self._start_placed

    def note_placed(self, node: int) -> None:
        """Updates the position of a macro that was just placed."""
        position = self.position_of[node]
        state = self._plc.state
        self.x[position] = state.x[node] / self._scale
        self.y[position] = state.y[node] / self._scale
        self.placed[position] = 1

    def observe(self, node: int | None) -> Observation:
        """Returns the observation before ``node`` is placed (None: all are), with its mask in ``self.mask``."""
        if node is None:
            self.mask[:] = 0
            current = 0
        else:
            self._grid_mask[:] = self._plc.get_node_mask(node).reshape(self.rows, self.columns)
            current = self.position_of[node]
        # Copies, because later steps write into the same arrays.
        return {
            "locations_x": self.x.copy(),
            "locations_y": self.y.copy(),
            "is_node_placed": self.placed.copy(),
            "current_node": np.array([current], np.int32),
            "fake_net_heatmap": self._heat_map(node),
            "mask": self.mask.copy(),
            "netlist_index": np.array([self.netlist_index], np.int32),
        }

    def to_grid(self, action: int) -> int:
        """Returns the placement-grid cell of an action, or -1 for one in the padding."""
        row, column = divmod(action, self._config.max_grid_size)
        row, column = row - self._low_row, column - self._low_column
        inside = 0 <= row < self.rows and 0 <= column < self.columns
        return row * self.columns + column if inside else -1

    def to_action(self, cell: int) -> int:
        """Returns the action that chooses a placement-grid cell."""
        row, column = divmod(cell, self.columns)
        return (row + self._low_row) * self._config.max_grid_size + column + self._low_column

    def _heat_map(self, node: int | None) -> NDArray[np.float32]:
        """Where fake nets draw the macro, shape (max_grid_size^2,), 0..1; zeros without fake nets."""
        size = self._config.max_grid_size
        padded = np.zeros(size * size, np.float32)
        nets = self._plc.get_fake_nets() if node is not None else ()
        partners = [(float(weight), ends[1] if ends[0] == node else ends[0]) for weight, ends in nets if node in ends]
        cells = [(weight, self._plc.get_grid_cell_of_node(other)) for weight, other in partners]
        if not any(cell >= 0 for _, cell in cells):
            return padded
        cell_width, cell_height = self.width / self.columns, self.height / self.rows
        row, column = np.divmod(np.arange(self.rows * self.columns), self.columns)
        heat = np.zeros(self.rows * self.columns)
        for weight, cell in cells:
            if cell >= 0:
                far_row, far_column = divmod(cell, self.columns)
                heat -= weight * np.hypot((column - far_column) * cell_width, (row - far_row) * cell_height)
        heat = (heat - heat.min()) / (heat.max() - heat.min() + 1e-6)
        view = padded.reshape(size, size)
        view[self._low_row : self._low_row + self.rows, self._low_column : self._low_column + self.columns] = (
            heat.reshape(self.rows, self.columns)
        )
        return padded

    # --- Fixed features

    def _start(self, locations: FloatArray) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int32]]:
        settings = ExtractorSettings()
        known = (locations[:, 0] >= 0.0) | (locations[:, 1] >= 0.0)
        if not settings.use_plc_init_location:
            known[:] = False
        default = (settings.default_location_x * self.width, settings.default_location_y * self.height)
        macros = np.where(known[:, None], locations, default)
        at = np.concatenate([macros, self._cluster_positions()])
        # Rounded before and after the division, as the earlier features were.
        features = np.zeros((2, self._config.max_num_nodes), np.float32)
        features[:, : self.num_nodes] = at.T.astype(np.float32) / np.float32(self._scale)
        placed = np.zeros(self._config.max_num_nodes, np.int32)
        placed[: len(self.macros)] = self._plc.state.fixed[self.macros] != 0
        placed[len(self.macros) : self.num_nodes] = 1
        return features[0], features[1], placed

    def _cluster_positions(self) -> FloatArray:
        """Positions of port clusters, um, shape (clusters, 2): on the border where their cell is at it."""
        row, column = np.divmod(self._clusters, self.columns)

        def along(index: NDArray[np.int64], count: int, length: float) -> FloatArray:
            middle = (index + 0.5) * (length / count)
            return cast(FloatArray, np.where(index == 0, 0.0, np.where(index == count - 1, length, middle)))

        return np.stack([along(column, self.columns, self.width), along(row, self.rows, self.height)], axis=1)

    def static_features(self) -> Observation:
        """Returns the features that never change, without ``netlist_index``."""
        plc, config, adjacency = self._plc, self._config, self._adjacency
        hard, soft = len(plc.hard_macro_indices), len(plc.soft_macro_indices)
        routes_h, routes_v = plc.get_routes_per_micron()
        taken_h, taken_v = plc.get_macro_routing_allocation()
        metadata = {
            "normalized_num_edges": adjacency.weight.sum() / config.max_num_edges,
            "normalized_num_hard_macros": hard / config.max_num_nodes,
            "normalized_num_soft_macros": soft / config.max_num_nodes,
            "normalized_num_port_clusters": len(self._clusters) / config.max_num_nodes,
            "total_horizontal_routes_k": routes_h * self.height / 1000.0,
            "total_vertical_routes_k": routes_v * self.width / 1000.0,
            "total_macro_horizontal_routes_k": taken_h * self.height / 1000.0,
            "total_macro_vertical_routes_k": self._rules.vertical_allocation(taken_h, taken_v) * self.width / 1000.0,
            "grid_cols": self.columns / config.max_grid_size,
            "grid_rows": self.rows / config.max_grid_size,
            "canvas_width": self.width / self._scale,
            "canvas_height": self.height / self._scale,
        }
        features: Observation = {key: np.array([value], np.float32) for key, value in metadata.items()}
        edges = config.max_num_edges
        weight = adjacency.weight.astype(np.float32)
        if len(weight):
            weight = weight / (weight.mean() + np.float32(1e-6))
        features["sparse_adj_i"] = _padded(adjacency.i, edges, np.int32)
        features["sparse_adj_j"] = _padded(adjacency.j, edges, np.int32)
        features["sparse_adj_weight"] = _padded(weight, edges, np.float32)
        counts = np.bincount(np.concatenate([adjacency.i, adjacency.j]), minlength=self.num_nodes)
        features["edge_counts"] = _padded(counts, config.max_num_nodes, np.int32)
        is_soft = np.isin(self.macros, plc.soft_macro_indices)
        for key, lengths in (("macros_w", plc.netlist.width), ("macros_h", plc.netlist.height)):
            sizes = np.where(is_soft, 0.0, lengths[self.macros]).astype(np.float32) / np.float32(self._scale)
            features[key] = _padded(sizes, config.max_num_nodes, np.float32)
        types = np.concatenate([np.where(is_soft, SOFT, HARD), np.full(len(self._clusters), PORT_CLUSTER)])
        features["node_types"] = _padded(types, config.max_num_nodes, np.int32)
        return features

    def initial(self) -> Observation:
        """Returns locations and placed flags of the start of an episode."""
        return {
            "locations_x": self._start_x.copy(),
            "locations_y": self._start_y.copy(),
            "is_node_placed": self._start_placed.copy(),
        }


def _padded(values: NDArray[Any], size: int, dtype: Any) -> NDArray[Any]:
    array = np.zeros(size, dtype)
    array[: len(values)] = values
    return array
