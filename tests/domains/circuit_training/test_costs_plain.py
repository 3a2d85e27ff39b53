"""The compiled costs and masks against the plain ones."""

import numpy as np
import pytest

from a2perf.domains.circuit_training.engine.congestion import sums_are_exact
from a2perf.domains.circuit_training.engine.density import mean_of_largest
from tests.domains.circuit_training import plain_costs

SEEDS = range(12)


def check_costs(plc):
    """Asserts that all costs and maps equal the plain ones."""
    state, canvas, grid = plc.state, plc.get_canvas_width_height(), plc.get_grid_num_columns_rows()
    congestion_grid, routes = plc.get_congestion_grid_num_columns_rows(), plc.get_routes_per_micron()
    taken, reach = plc.get_macro_routing_allocation(), plc.get_congestion_smooth_range()
    assert plc.get_wirelength() == pytest.approx(plain_costs.wirelength(state, canvas), rel=1e-12)
    blockages = np.array(plc.get_blockages()).reshape(-1, 5)
    density = plain_costs.density_map(state, canvas, grid, blockages)
    np.testing.assert_allclose(plc.get_grid_cells_density(), density, rtol=1e-12, atol=1e-14)
    assert plc.get_density_cost() == pytest.approx(0.5 * plain_costs.mean_of_top(density, 0.1), rel=1e-12)
    horizontal, vertical = plain_costs.congestion_maps(state, canvas, congestion_grid, routes, taken, reach)
    np.testing.assert_allclose(plc.get_horizontal_routing_congestion(), horizontal.ravel(), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(plc.get_vertical_routing_congestion(), vertical.ravel(), rtol=1e-12, atol=1e-14)
    both = np.concatenate((horizontal.ravel(), vertical.ravel()))
    assert plc.get_congestion_cost() == pytest.approx(plain_costs.mean_of_top(both, 0.05), rel=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_costs_with_nodes_beyond_the_canvas_and_unplaced_ones(engine, seed):
    check_costs(engine(seed))
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
