"""The compiled costs and masks against the plain ones, by hand, and under changes that must not matter."""

import numpy as np
import pytest

from a2perf.domains.circuit_training.congestion import sums_are_exact
from a2perf.domains.circuit_training.density import mean_of_largest
from a2perf.domains.circuit_training.netlist_reader import read_netlist
from a2perf.domains.circuit_training.placement_cost import PlacementCost
from tests.domains.circuit_training import plain_costs
from tests.domains.circuit_training.conftest import node_text, random_netlist

SEEDS = range(12)


def check_costs(plc):
    """Asserts that all costs and maps equal the plain ones."""
    state, canvas, grid = plc.state, plc.get_canvas_width_height(), plc.get_grid_num_columns_rows()
    assert plc.get_wirelength() == pytest.approx(plain_costs.wirelength(state, canvas), rel=1e-12)
    blockages = np.array(plc.get_blockages()).reshape(-1, 5)
    density = plain_costs.density_map(state, canvas, grid, blockages)
    np.testing.assert_allclose(plc.get_grid_cells_density(), density, rtol=1e-12, atol=1e-14)
    assert plc.get_density_cost() == pytest.approx(0.5 * plain_costs.mean_of_top(density, 0.1), rel=1e-12)
    horizontal, vertical = plain_costs.congestion_maps(
        state,
        canvas,
        plc.get_congestion_grid_num_columns_rows(),
        plc.get_routes_per_micron(),
        plc.get_macro_routing_allocation(),
        plc.get_congestion_smooth_range(),
    )
    np.testing.assert_allclose(plc.get_horizontal_routing_congestion(), horizontal.ravel(), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(plc.get_vertical_routing_congestion(), vertical.ravel(), rtol=1e-12, atol=1e-14)
    both = np.concatenate((horizontal.ravel(), vertical.ravel()))
    assert plc.get_congestion_cost() == pytest.approx(plain_costs.mean_of_top(both, 0.05), rel=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_costs_of_random_placements(engine, seed):
    check_costs(engine(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_costs_with_nodes_beyond_the_canvas_and_unplaced_ones(engine, seed):
    plc = engine(seed, beyond=15.0)
    check_costs(plc)
    plc.unplace_node(f"M{seed % 5}")
    plc.unplace_node("c1")
    plc.create_blockage(10, 5, 40, 60, 0.3)
    check_costs(plc)


@pytest.mark.parametrize("seed", SEEDS)
def test_costs_after_many_moves_equal_those_of_a_fresh_engine(engine, seed):
    plc, rng = engine(seed), np.random.default_rng(seed + 100)
    columns, rows = plc.get_grid_num_columns_rows()
    for step in range(30):
        node = int(rng.choice([*plc.get_macro_indices(), *plc.state.standard_cells]))
        move = rng.integers(5)
        if move == 0:
            plc.unplace_node(node)
        elif move == 1:
            plc.place_node(node, int(rng.integers(columns * rows)))
        elif move == 2 and node in plc.get_macro_indices():
            plc.update_macro_orientation(node, str(rng.choice(["N", "E", "FS", "FW"])))
        else:
            plc.update_node_coords(node, *rng.uniform(-5, 95, 2))
        if step % 3 == 0:
            kept = plc.get_wirelength(), plc.get_congestion_cost(), plc.get_density_cost()
            plc.state.everything_changed()
            fresh = plc.get_wirelength(), plc.get_congestion_cost(), plc.get_density_cost()
            assert kept[:2] == fresh[:2]  # bit for bit, whatever was moved before
            assert kept[2] == pytest.approx(fresh[2], rel=1e-13)
    check_costs(plc)


@pytest.mark.parametrize("seed", SEEDS)
def test_masks_of_random_placements(engine, seed):
    rng = np.random.default_rng(seed)
    plc = engine(seed, spacing=tuple(rng.choice([0.0, 0.1, 3.0, 8.0], 2)))
    canvas, grid = plc.get_canvas_width_height(), plc.get_grid_num_columns_rows()
    plc.create_blockage(70, 60, 85, 88, 0.2)
    blockages, spacing = np.array(plc.get_blockages()), plc._spacing
    allowed = 0
    for node in ("M0", "M3", "Grp_0", "Grp_4"):
        index = plc.get_node_index(node)
        for other in rng.choice([m for m in plc.get_macro_indices() if m != index], 5, replace=False):
            plc.unplace_node(int(other))
        plc.unplace_node(node)
        expected = plain_costs.mask(plc.state, index, canvas, grid, spacing, blockages)
        np.testing.assert_array_equal(plc.get_node_mask(node), expected)
        assert [plc.can_place_node(node, cell) for cell in range(len(expected))] == expected.astype(bool).tolist()
        allowed += expected.sum()
        for macro in plc.get_macro_indices():
            if not plc.is_node_placed(macro):
                plc.update_node_coords(macro, *rng.uniform(10, 80, 2))
    assert allowed >= 0


def two_macros(write_netlist, **placement):
    """An engine with macros A (20 x 10 um) and B (10 x 10 um) and a net of weight 3 from A to B and a port."""
    text = node_text("A", type="MACRO", width=20.0, height=10.0) + node_text("B", type="MACRO", width=10.0, height=10.0)
    text += node_text("A/o", ("B/i", "P"), type="MACRO_PIN", macro_name="A", x_offset=5.0, y_offset=-2.0, weight=3.0)
    text += node_text("B/i", type="MACRO_PIN", macro_name="B", x_offset=0.0, y_offset=4.0)
    text += node_text("P", type="PORT", side="TOP", x=50.0, y=100.0)
    plc = PlacementCost(read_netlist(write_netlist(text)), **placement)
    plc.set_canvas_size(100, 100)
    plc.set_placement_grid(10, 10)
    plc.set_congestion_grid(10, 10)
    plc.set_congestion_smooth_range(0)
    plc.update_node_coords("A", 15, 25)
    plc.update_node_coords("B", 75, 35)
    return plc


def test_wirelength_by_hand(write_netlist):
    plc = two_macros(write_netlist)
    # pins at (20, 23), (75, 39) and (50, 100)
    assert plc.get_wirelength() == 3 * ((75 - 20) + (100 - 23))
    assert plc.get_cost() == plc.get_wirelength() / (200 * 3)
    plc.update_macro_orientation("A", "S")  # the driver goes to (10, 27)
    assert plc.get_wirelength() == 3 * ((75 - 10) + (100 - 27))
    plc.unplace_node("B")
    assert plc.get_wirelength() == 3 * 200
    plc.unplace_node("A")
    assert plc.get_wirelength() == 200  # without the weight


def test_density_by_hand(write_netlist):
    plc = two_macros(write_netlist)
    density = plc.get_grid_cells_density().reshape(10, 10)
    expected = np.zeros((10, 10))
    expected[2, 0:3] = 0.5, 1.0, 0.5  # A covers 5 ... 25 by 20 ... 30
    expected[3, 7] = 1.0
    np.testing.assert_array_equal(density, expected)
    assert plc.get_density_cost() == 0.5 * 3.0 / 10
    plc.update_macro_orientation("A", "E")  # 10 ... 20 by 15 ... 35
    expected[2, 0:3] = 0, 1, 0
    expected[[1, 3], 1] = 0.5
    np.testing.assert_array_equal(plc.get_grid_cells_density().reshape(10, 10), expected)


def test_congestion_by_hand(write_netlist):
    plc = two_macros(write_netlist)
    plc.set_macro_routing_allocation(0, 0)
    plc.set_routes_per_micron(2, 1)
    plc.unplace_node("P")
    assert plc.get_congestion_cost() == 0.0  # nets with unplaced pins are not routed
    plc.update_node_coords("P", 23, 95)
    # cells (row, column): A/o (2, 2), B/i (3, 7), P (9, 2) now at y = 99.999
    horizontal = plc.get_horizontal_routing_congestion().reshape(10, 10)
    vertical = plc.get_vertical_routing_congestion().reshape(10, 10)
    expected_h, expected_v = np.zeros((10, 10)), np.zeros((10, 10))
    expected_h[3, 2:7] = 3 / 20
    expected_v[2:9, 2] = 3 / 10
    np.testing.assert_allclose(horizontal, expected_h, rtol=1e-15)
    np.testing.assert_allclose(vertical, expected_v, rtol=1e-15)
    assert plc.get_congestion_cost() == pytest.approx((7 * 0.3 + 3 * 0.15) / 10, rel=1e-15)


def test_the_mask_by_hand(write_netlist):
    plc = two_macros(write_netlist, macro_macro_x_spacing=2.0, macro_macro_y_spacing=0.0)
    plc.unplace_node("A")
    mask = plc.get_node_mask("A").reshape(10, 10)
    # A is 20 um wide with a halo of 1 um, so its centre stays 11 um off the sides; B with its halo covers 69 ... 81
    expected = np.zeros((10, 10))
    expected[:, 1:9] = 1
    expected[3, 6:9] = 0
    np.testing.assert_array_equal(mask, expected)


def test_moving_everything_together_moves_no_cost_but_by_cells(engine):
    plc = engine(5)
    before = plc.get_wirelength()
    for node in [*plc.get_macro_indices(), *plc.state.standard_cells.tolist(), *plc.state.ports.tolist()]:
        plc.state.put(node, plc.state.x[node] + 64.0, plc.state.y[node] - 32.0)
    assert plc.get_wirelength() == pytest.approx(before, rel=1e-13)


def test_the_order_of_a_nets_sinks_does_not_matter(write_netlist):
    text = random_netlist(7)
    blocks = text.split("node {")
    turned = []
    for block in blocks:
        lines = block.split("\n")
        sinks = [line for line in lines if "input:" in line]
        rest = iter(sinks[::-1])
        turned.append("\n".join(next(rest) if "input:" in line else line for line in lines))
    costs = []
    for version in (text, "node {".join(turned)):
        plc = PlacementCost(read_netlist(write_netlist(version)))
        rng = np.random.default_rng(0)
        plc.set_canvas_boundary_check(False)
        plc.set_canvas_size(100, 90)
        for node in [*plc.get_macro_indices(), *plc.state.standard_cells.tolist()]:
            plc.update_node_coords(node, *rng.uniform(0, 90, 2))
        costs.append((plc.get_cost(), plc.get_congestion_cost(), plc.get_density_cost()))
    assert costs[0] == pytest.approx(costs[1], rel=1e-13)


@pytest.mark.parametrize("count", [1, 2, 7, 100, 2047])
def test_the_mean_of_the_largest_is_that_of_a_sorted_list(count):
    rng = np.random.default_rng(count)
    for values in (
        rng.uniform(0, 1, 3000),
        rng.integers(0, 4, 3000).astype(float),
        np.concatenate((np.zeros(2990), rng.pareto(0.3, 10))),
        np.full(3000, 0.25),
    ):
        assert mean_of_largest(values, count) == pytest.approx(np.sort(values)[::-1][:count].mean(), rel=1e-13)


def test_sums_of_single_precision_weights_are_known_to_be_exact_or_not():
    assert sums_are_exact(np.array([1.0, 3.5, 0.0, 512.0]), 10**6)
    assert sums_are_exact(np.array([float(np.float32(0.3))]), 50_000)
    assert not sums_are_exact(np.array([float(np.float32(1e-6)), 1e9]), 1000)
    # what the answer stands for: with these weights the order of additions does not matter
    weights = np.random.default_rng(0).uniform(0.1, 9, 2000).astype(np.float32).astype(float)
    assert sums_are_exact(weights, 8000)
    assert np.add.reduce(weights) == sum(weights.tolist()) == sum(sorted(weights.tolist()))
