"""The engine's calls: what they answer, what they refuse, what they leave alone."""

import math

import numpy as np
import pytest

from a2perf.domains.circuit_training import PlacementCost
from a2perf.domains.circuit_training.engine.placement import PlacementError
from a2perf.domains.circuit_training.netlists.netlist import NetlistError
from a2perf.domains.circuit_training.netlists.netlist_reader import read_netlist
from a2perf.errors import UserError
from tests.domains.circuit_training.conftest import DESIGN, node_text


def test_a_fresh_engine_has_the_reference_defaults(write_netlist):
    plc = PlacementCost(write_netlist(DESIGN))
    side = math.sqrt((30 * 40 + 1 * 2 + 3 * 4) / 0.6)
    assert plc.get_canvas_width_height() == pytest.approx((side, side), rel=1e-12)
    assert plc.get_grid_num_columns_rows() == (10, 10)
    assert plc.get_congestion_grid_num_columns_rows() == plc.get_congestion_grid() == (10, 10)
    assert plc.get_routes_per_micron() == (57.031, 56.818)
    assert plc.get_macro_routing_allocation() == (39.583, 30.303)
    assert plc.get_congestion_smooth_range() == 2
    assert plc.get_overlap_threshold() == 0.004
    assert plc.get_canvas_boundary_check() is True
    assert plc.is_node_placed("q")
    assert not plc.is_node_placed("M")


def test_questions_about_nodes(small):
    assert small.num_nodes() == 5
    assert small.get_macro_indices() == [0, 4]
    types = [small.get_node_type(node) for node in range(6)]
    assert types == ["MACRO", "MACRO_PIN", "STDCELL", "PORT", "MACRO", ""]
    assert small.get_node_index("q") == 2
    assert small.get_node_name(1) == "M/p"
    assert small.get_node_width_height("M") == (30.0, 40.0)
    assert small.get_node_weight("M/p") == 2.0
    assert small.get_ref_node_id("M/p") == 0
    assert small.get_ref_node_id("q") == -1
    assert small.get_fan_outs_of_node("M/p") == [3, 2]
    assert small.get_fan_outs_of_node("M") == []
    assert [small.is_node_soft_macro(node) for node in (0, 4)] == [False, True]
    assert small.get_node_location("M") == (-1.0, -1.0)
    assert small.get_grid_cell_of_node("M") == -1
    assert small.get_macro_bloat_width("M") == small.get_macro_bloat_height("M") == 0.0
    assert small.has_area_constraint("M") is small.has_area_constraint() is False
    with pytest.raises(PlacementError):
        small.has_area_constraint(99)


def test_cells_are_numbered_by_row_from_below(small):
    small.set_placement_grid(4, 5)
    small.place_node("M", 9)  # row 2, column 1
    assert small.get_node_location("M") == (37.5, 40.0)
    assert small.get_node_location("M/p") == pytest.approx((37.8, 38.0), abs=1e-6)
    assert small.get_grid_cell_of_node("M") == 9
    np.testing.assert_array_equal(small.node_boxes([0]), [[22.5, 20.0, 52.5, 60.0]])
    small.set_canvas_boundary_check(False)
    small.update_node_coords("M", 101.0, 10.0)
    assert small.get_grid_cell_of_node("M") == -1


def test_fixed_nodes_refuse_moves_and_survive_unplacing_all(small):
    small.place_node("M", 44)
    small.fix_node_coord("M")
    for move in (
        lambda: small.place_node("M", 45),
        lambda: small.unplace_node("M"),
        lambda: small.update_node_coords("M", 50, 40),
    ):
        with pytest.raises(PlacementError, match="fixed node 'M'"):
            move()
    small.unplace_all_nodes()
    assert [small.is_node_placed(node) for node in range(5)] == [True, True, False, False, False]
    small.unfix_node_coord("M")
    small.unplace_node("M")
    assert not small.is_node_placed("M/p")


@pytest.mark.parametrize(
    ("x", "y", "side", "edge"),
    [
        (50, 75, "TOP", (50, 79.999)),
        (10, 40, "LEFT", (0.001, 40)),
        (90, 40, "RIGHT", (99.999, 40)),
        (50, 5, "BOTTOM", (50, 0.001)),
    ],
)
def test_ports_without_a_side_get_that_of_their_sector(write_netlist, x, y, side, edge):
    plc = PlacementCost(read_netlist(write_netlist(node_text("P", type="PORT", x=float(x), y=float(y)))))
    plc.set_canvas_size(100, 80)
    plc.set_placement_grid(4, 4)
    assert plc.get_node_mask("P").sum() == 12  # the border
    plc.update_port_sides()
    assert plc.get_node_mask("P").sum() == 4
    plc.snap_ports_to_edges()
    assert plc.get_node_location("P") == pytest.approx(edge, rel=1e-12), side
    plc.update_node_coords("P", 60, 30)
    assert plc.get_node_location("P") == {"TOP": (60, 79.999), "BOTTOM": (60, 0.001)}.get(side, (edge[0], 30))


def test_the_boundary_check_refuses_macros_that_stick_out(small):
    with pytest.raises(PlacementError, match=r"'M' at .* sticks out of the canvas"):
        small.place_node("M", 0)
    with pytest.raises(PlacementError, match="sticks out"):
        small.update_node_coords("M", 90, 40)
    assert not small.is_node_placed("M")
    small.set_canvas_boundary_check(False)
    assert small.place_node("M", 0)


def test_turning_exchanges_the_sides_of_the_box_but_not_the_reported_size(small):
    small.place_node("M", 44)
    x, y = small.get_node_location("M")
    small.update_macro_orientation("M", "E")
    assert small.get_node_width_height("M") == (30.0, 40.0)
    np.testing.assert_allclose(small.node_boxes([0]), [[x - 20, y - 15, x + 20, y + 15]])
    for orientation, offset in {
        "N": (0.3, -2),
        "S": (-0.3, 2),
        "FN": (-0.3, -2),
        "FS": (0.3, 2),
        "E": (-2, -0.3),
        "W": (2, 0.3),
        "FE": (2, -0.3),
        "FW": (-2, 0.3),
    }.items():
        small.update_macro_orientation("M", orientation)
        assert small.get_macro_orientation("M") == orientation
        pin = np.subtract(small.get_node_location("M/p"), (x, y))
        np.testing.assert_allclose(pin, offset, atol=1e-6, err_msg=orientation)
    small.make_soft_macros_square()
    assert small.get_node_width_height("Grp_1") == pytest.approx((math.sqrt(12), math.sqrt(12)), rel=1e-15)
    assert small.get_node_width_height("M") == (30.0, 40.0)


def test_standard_cells_may_go_where_a_cell_is_not_nearly_full(small):
    small.place_node("M", 44)
    density = small.get_grid_cells_density()
    own = np.zeros(100, dtype=bool)
    own[small.get_grid_cell_of_node("q")] = True
    np.testing.assert_array_equal(small.get_node_mask("q"), (density < 0.9) & ~own)
    assert (density >= 0.9).sum() == 3 * 5
    assert density.sum() * 80 == pytest.approx(30 * 40 + 2)


def test_fake_nets_count_nowhere_but_in_their_own_cost(small):
    small.place_node("M", 44)
    before = small.get_cost()
    assert small.get_fake_net_cost() == 0.0
    small.add_fake_net(2.0, ["M", "q"])
    x, y = small.get_node_location("M")
    assert small.get_fake_net_cost() == pytest.approx(((x - 5) + (y - 6)) / 180)  # one weight divides out
    assert small.get_fake_nets() == [(2.0, (0, 2))]
    assert small.get_cost() == before
    small.unplace_node("M")  # a net with an unplaced node adds no length
    assert small.get_fake_net_cost() == 0.0
    small.add_fake_net(1.0, ["q", 3])
    (qx, qy), (px, py) = small.get_node_location("q"), small.get_node_location(3)
    assert small.get_fake_net_cost() == pytest.approx((abs(qx - px) + abs(qy - py)) / (3 * 180))


@pytest.mark.parametrize(("weight", "reference"), [(0.3, 0.086666), (0.1, 0.03472)])
def test_the_weight_of_a_fake_net_divides_out_as_in_the_reference(small, weight, reference):
    (qx, qy), (px, py) = small.get_node_location("q"), small.get_node_location(3)
    side = (abs(qx - px) + abs(qy - py)) / reference / 2
    small.set_canvas_size(side, side)
    small.add_fake_net(weight, ["q", 3])
    assert small.get_fake_net_cost() == pytest.approx(reference, rel=1e-9)
    small.add_fake_net(weight, ["q", 3])
    assert small.get_fake_net_cost() == pytest.approx(reference, rel=1e-9)


def test_blockages_raise_density_until_they_are_cleared_and_keep_hard_macros_off(small):
    small.create_blockage(0, 0, 10, 8, 0.25)
    assert small.get_blockages() == [(0.0, 0.0, 10.0, 8.0, 0.25)]
    assert small.get_grid_cells_density()[0] == pytest.approx(0.25 + 2 / 80)  # and the standard cell
    small.set_placement_grid(100, 80)
    mask = small.get_node_mask("M").reshape(80, 100)
    assert mask[20, 15] == 0
    assert mask[28, 15] == 1
    assert small.clear_blockages()
    assert small.get_blockages() == []
    assert small.get_grid_cells_density()[0] == 0.0


def test_disconnected_nets_cost_nothing(small):
    small.place_node("M", 44)
    lengths = small.get_wirelength()
    small.disconnect_nets(["M/p"])
    assert small.get_fan_outs_of_node("M/p") == []
    assert 0 < small.get_wirelength() < lengths
    with pytest.raises(NetlistError, match="no node is called 'nosuch'"):
        small.disconnect_nets(["nosuch"])
    small.disconnect_nets()
    assert small.get_wirelength() == small.get_cost() == 0.0


def test_adjacency_counts_whole_weights_and_ports_as_one(small):
    small.set_placement_grid(2, 2)
    flat, cells = small.get_macro_and_clustered_port_adjacency()
    # M/p drives P with weight 2, P drives M/p with 1; the standard cell's net vanishes
    np.testing.assert_array_equal(flat.reshape(3, 3), [[0, 0, 3], [0, 0, 0], [3, 0, 0]])
    assert cells == [0]
    np.testing.assert_array_equal(small.get_macro_adjacency(), np.zeros(4))
    small.unplace_node("P")
    with pytest.raises(PlacementError, match="'P' is not placed"):
        small.get_macro_and_clustered_port_adjacency()


def test_overlap_is_the_doubly_used_share_of_the_macros_area(small):
    small.set_canvas_boundary_check(False)
    small.update_node_coords("M", 50, 40)
    small.update_node_coords("Grp_1", 65, 40)  # half of it inside M
    assert small.get_overlap_cost() == pytest.approx(6 / (1200 + 12))


REFUSED = {
    "zero canvas": lambda plc: plc.set_canvas_size(0, 10),
    "negative canvas": lambda plc: plc.set_canvas_size(10, -1),
    "NaN canvas": lambda plc: plc.set_canvas_size(math.nan, 10),
    "huge canvas": lambda plc: plc.set_canvas_size(1e8, 10),
    "zero grid": lambda plc: plc.set_placement_grid(0, 5),
    "large grid": lambda plc: plc.set_placement_grid(5, 1001),
    "broken grid": lambda plc: plc.set_congestion_grid(2.5, 3),
    "zero congestion grid": lambda plc: plc.set_congestion_grid(3, 0),
    "no routes": lambda plc: plc.set_routes_per_micron(0, 1),
    "smoothing": lambda plc: plc.set_congestion_smooth_range(-1),
    "node": lambda plc: plc.get_node_name(5),
    "negative node": lambda plc: plc.get_node_location(-1),
    "no node": lambda plc: plc.place_node(1.5, 3),
    "name": lambda plc: plc.place_node("nobody", 3),
    "cell": lambda plc: plc.place_node("q", 100),
    "negative cell": lambda plc: plc.place_node("q", -1),
    "pin": lambda plc: plc.place_node("M/p", 3),
    "mask of a pin": lambda plc: plc.get_node_mask("M/p"),
    "position": lambda plc: plc.update_node_coords("q", math.inf, 3),
    "orientation": lambda plc: plc.update_macro_orientation("M", "NE"),
    "turned port": lambda plc: plc.update_macro_orientation("P", "S"),
    "blockage": lambda plc: plc.create_blockage(5, 5, 4, 6, 1),
    "fake net": lambda plc: plc.add_fake_net(1.0, ["M"]),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_nonsense_is_refused_with_a_way_out(small, call):
    with pytest.raises((PlacementError, NetlistError)) as caught:
        call(small)
    assert isinstance(caught.value, UserError)
    assert isinstance(caught.value, ValueError)  # what callers of the earlier client catch
    assert caught.value.hint


def spread(plc, steps=1, *, attract=1.0, repel=0.0, move_macros=False, current=False, **kwargs):
    plc.optimize_stdcells(current, True, move_macros, False, False, 1.0, [steps], [3.0], [attract], [repel], **kwargs)


def test_forces_leave_fixed_macros_alone_or_refuse_them_and_start_where_they_are_told(engine):
    plc = engine(2)
    before = plc.state.x.copy()
    spread(plc, steps=0, current=True)
    np.testing.assert_array_equal(plc.state.x, before)
    plc.fix_node_coord("M1")
    with pytest.raises(PlacementError, match="cannot place fixed node 'M1'"):
        spread(plc, move_macros=True)
    before = plc.get_node_location("M1")
    spread(plc, steps=20, attract=100.0, move_macros=True, skip_fixed=True)
    assert plc.get_node_location("M1") == before
    assert plc.get_node_location("M2") != (50.0, 45.0)


def test_schedules_that_do_not_fit_together_are_refused(engine):
    plc = engine(0)
    with pytest.raises(PlacementError, match="have 1, 2, 1, 1 entries"):
        plc.optimize_stdcells(True, True, False, False, False, 1.0, [1], [1.0, 2.0], [1.0], [0.0])
    with pytest.raises(PlacementError, match="negative or infinite"):
        spread(plc, repel=float("nan"))
    with pytest.raises(PlacementError, match="not known"):
        plc.optimize_stdcells(True, True, False, True, False, 1.0, [1], [1.0], [1.0], [0.0])
