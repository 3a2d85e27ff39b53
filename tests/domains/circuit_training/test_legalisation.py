"""Legalisation: the nearest allowed cell, and the published legal placement of Ariane."""

import numpy as np
import pytest

from a2perf.domains.circuit_training.legalisation import cells_by_distance, legalize_placement
from a2perf.domains.circuit_training.placement_cost import PlacementCost
from a2perf.domains.circuit_training.plc_file import read_placement


def test_cells_come_by_distance_then_row_then_column():
    assert list(cells_by_distance(4, 3, 3)) == [4, 1, 3, 5, 7, 0, 2, 6, 8]
    assert list(cells_by_distance(2, 3, 2)) == [2, 1, 5, 0, 4, 3]


@pytest.mark.parametrize("seed", range(6))
def test_a_legal_placement_breaks_no_mask(engine, seed):
    plc = engine(seed, beyond=10.0)
    plc.set_placement_grid(20, 18)
    plc.fix_node_coord("c0")
    fixed_at = plc.get_node_location("c0")
    assert legalize_placement(plc)
    assert plc.state.placed.all()
    assert plc.state.fixed[plc.state.ports].all()
    assert plc.get_node_location("c0") == fixed_at
    density_without_cells = plc.get_grid_cells_density()
    assert density_without_cells.max() <= 1.001 + 6 * 3.0 / (5 * 5)  # cells may be stacked up to 0.9 and one more
    boxes = plc.node_boxes(plc.hard_macro_indices)
    for i, box in enumerate(boxes):
        for other in boxes[i + 1 :]:
            width = min(box[2], other[2]) - max(box[0], other[0])
            height = min(box[3], other[3]) - max(box[1], other[1])
            assert min(width, height) <= 0
    assert boxes.min() >= -1e-3
    assert (boxes[:, 2:] <= np.array([100, 90]) + 1e-3).all()


def test_no_room_is_said(engine):
    plc = engine(1)
    plc.set_placement_grid(2, 2)
    assert not legalize_placement(plc)


@pytest.mark.group("ariane")
def test_the_published_legal_placement_of_ariane(ariane):
    plc = PlacementCost(ariane["netlist.pb.txt"])
    plc.set_canvas_boundary_check(False)
    plc.set_canvas_size(1433.406, 1433.406)
    plc.set_placement_grid(24, 21)
    plc.restore_placement(ariane["initial.plc"])
    assert legalize_placement(plc)
    published = read_placement(ariane["legalized.plc"])
    assert len(published) == 1410
    for row in published:
        # positions were printed with six significant digits
        assert plc.get_node_location(row.node) == pytest.approx((row.x, row.y), rel=6e-6), row
