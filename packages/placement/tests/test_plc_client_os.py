"""The face of ``plc_client_os``: its names, and the values that the public module gave for a generated design."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from a2perf.domains.circuit_training.generated.designs import design_files
from a2perf_placement.plc_client_os import PlacementCost

PUBLIC = str.split(
    """
abu can_place_node create_blockage disconnect_nets display_canvas fix_node_coord get_H_congestion_cost
get_V_congestion_cost get_area get_block_name get_blockages get_canvas_boundary_check get_canvas_width_height
get_congestion_cost get_congestion_smooth_range get_cost get_density_cost get_grid_cell_of_node get_grid_cells_density
get_grid_num_columns_rows get_hard_macro_pins_count get_hard_macros_count get_horizontal_routing_congestion
get_macro_adjacency get_macro_and_clustered_port_adjacency get_macro_indices get_macro_orientation
get_macro_routing_allocation get_node_index get_node_location get_node_mask get_node_name get_node_type
get_node_width_height get_overlap_threshold get_ports_count get_project_name get_ref_node_id get_routes_per_micron
get_routing get_soft_macro_pins_count get_soft_macros_count get_source_filename get_use_incremental_cost
get_vertical_routing_congestion get_wirelength is_node_fixed is_node_hard_macro is_node_placed is_node_soft_macro
make_soft_macros_square optimize_stdcells place_node restore_placement save_placement set_block_name
set_canvas_boundary_check set_canvas_size set_congestion_smooth_range set_macro_routing_allocation set_overlap_threshold
set_placement_grid set_project_name set_routes_per_micron set_soft_macro_position set_use_incremental_cost
snap_ports_to_edges unfix_node_coord unplace_all_nodes unplace_node update_macro_orientation update_node_coords
update_port_sides update_soft_macros_position
"""
)
MADE = (
    # wirelength, density, congestion, horizontal, vertical; the three maps at cell 37
    (0.472639710, 0.901788717, 0.429605007, 0.398500007, 0.423623645, 0.00815357847, 0.00196355114, 0.875019345),
    (0.470593713, 0.955955632, 0.466202222, 0.415317770, 0.441763207, 0.00815357847, 0.00196355114, 0.875019345),
)


@pytest.fixture(scope="module")
def placed() -> PlacementCost:
    netlist, placement = design_files("generated", {"num_macros": 10, "num_clusters": 20, "num_nets": 120, "seed": 0})
    plc = PlacementCost(netlist)
    assert plc.restore_placement(placement, ifReadComment=True)
    plc.set_routes_per_micron(10.0, 12.0)
    plc.set_macro_routing_allocation(3.0, 4.0)
    plc.set_congestion_smooth_range(2)
    return plc


def test_every_public_name_is_there() -> None:
    assert len(PUBLIC) == 74
    assert [name for name in PUBLIC if not callable(getattr(PlacementCost, name, None))] == []


def test_costs_and_maps_are_those_of_the_public_evaluator(placed: PlacementCost) -> None:
    macro = placed.get_node_index("M3")
    for expected in MADE:
        maps = (
            placed.get_horizontal_routing_congestion(),
            placed.get_vertical_routing_congestion(),
            placed.get_grid_cells_density(),
        )
        found = (
            placed.get_cost(),
            placed.get_density_cost(),
            placed.get_congestion_cost(),
            placed.get_H_congestion_cost(),
            placed.get_V_congestion_cost(),
            *(one[37] for one in maps),
        )
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        columns, rows = placed.get_grid_num_columns_rows()
        assert [len(one) for one in maps] == [columns * rows] * 3
        placed.update_node_coords(macro, 200.0, 210.0)
        placed.update_macro_orientation(macro, "FS")


def test_a_new_object_has_the_settings_of_the_public_evaluator() -> None:
    netlist, _ = design_files("generated", {"num_macros": 10, "num_clusters": 20, "num_nets": 120, "seed": 0})
    plc = PlacementCost(netlist)
    assert plc.get_congestion_smooth_range() == 0
    assert plc.get_macro_routing_allocation() == (0.0, 0.0)
    assert (plc.get_project_name(), plc.get_block_name()) == ("circuit_training", Path(netlist).parent.name)
    assert not plc.get_use_incremental_cost()


def test_counts_and_settings_have_the_conventions_of_the_public_evaluator(placed: PlacementCost) -> None:
    assert (placed.get_hard_macros_count(), placed.get_soft_macros_count()) == (10, 20)
    assert placed.is_node_hard_macro(placed.hard_macro_indices[0])
    assert placed.get_overlap_threshold() == 0.0
    assert placed.abu([1.0, 5.0, 3.0, 2.0], 0.5) == 4.0
    assert placed.abu([1.0, 5.0], 0.1) == 5.0
    soft = placed.soft_macro_indices[0]
    placed.update_soft_macros_position({soft: (50.0, 60.0)})
    assert placed.get_node_location(soft) == (50.0, 60.0)
