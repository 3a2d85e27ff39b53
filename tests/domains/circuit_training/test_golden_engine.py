"""The engine against recorded values of the reference engine, and against published ones."""

import re
from pathlib import Path

import numpy as np
import pytest

from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.netlists.netlist_reader import read_netlist
from tests.golden import recorded


def set_up(data: Path, case: dict) -> PlacementCost:
    """Returns an engine in the state that a case starts from."""
    settings = case["cfg"]
    plc = PlacementCost(read_netlist(data / case["netlist"]), settings.get("xs", 0.0), settings.get("ys", 0.0))
    if settings.get("square"):
        plc.make_soft_macros_square()
    for blockage in settings.get("blockages", ()):
        plc.create_blockage(*blockage)
    plc.set_canvas_boundary_check(False)
    plc.set_canvas_size(*settings["canvas"])
    plc.set_placement_grid(*settings["grid"])
    plc.set_congestion_grid(*settings["cgrid"])
    plc.set_routes_per_micron(*settings["rpm"])
    plc.set_macro_routing_allocation(*settings["alloc"])
    plc.set_congestion_smooth_range(settings["smooth"])
    if case.get("init"):
        plc.restore_placement(data / case["init"])
    return plc


def test_all_recorded_costs_to_1e_12(golden_netlists):
    cases, arrays = recorded.cases("circuit_costs"), recorded.arrays("circuit_costs")
    assert len(cases["cases"]) == 42
    for case in cases["cases"]:
        plc = set_up(golden_netlists, case)
        for node, (x, y) in enumerate(arrays[f"{case['id']}/node_xy"]):
            if plc.get_node_type(node) != "MACRO_PIN":
                if (x, y) == (-1, -1):
                    plc.unplace_node(node)
                else:
                    plc.state.put(node, x, y)  # literally: ports are not put onto their edge
        for macro, orientation in zip(plc.hard_macro_indices, case["orientations_hard"], strict=True):
            plc.update_macro_orientation(int(macro), orientation)
        for name, value in (
            ("wirelength", plc.get_wirelength()),
            ("cost", plc.get_cost()),
            ("congestion", plc.get_congestion_cost()),
            ("density", plc.get_density_cost()),
            ("area", plc.get_area()),
        ):
            assert value == pytest.approx(case[name], rel=1e-12), (case["id"], name)
        for name, array in (
            ("density_map", plc.get_grid_cells_density()),
            ("h_cong", plc.get_horizontal_routing_congestion()),
            ("v_cong", plc.get_vertical_routing_congestion()),
        ):
            expected = arrays[f"{case['id']}/{name}"]
            np.testing.assert_allclose(array, expected, rtol=1e-12, atol=1e-12, err_msg=f"{case['id']} {name}")


def test_all_recorded_force_directed_runs_to_1e_9(golden_netlists):
    cases, arrays = recorded.cases("circuit_fd"), recorded.arrays("circuit_fd")
    assert len(cases["cases"]) == 42
    for case in cases["cases"]:
        plc = set_up(golden_netlists, case)
        schedule = (case[name] for name in ("num_steps", "max_move_distance", "attract", "repel"))
        plc.optimize_stdcells(False, True, case["move_macros"], False, False, case["io_factor"], *schedule)
        where = [plc.get_node_location(node) for node in range(plc.num_nodes())]
        np.testing.assert_allclose(where, arrays[case["id"]], rtol=0, atol=1e-9, err_msg=case["id"])
        costs = plc.get_cost(), plc.get_congestion_cost(), plc.get_density_cost()
        assert costs == pytest.approx((case["cost"], case["congestion"], case["density"]), rel=1e-9), case["id"]


def test_all_recorded_adjacencies_exactly(golden_netlists):
    cases, arrays = recorded.cases("circuit_adjacency"), recorded.arrays("circuit_adjacency")
    for name, case in cases.items():
        plc = PlacementCost(read_netlist(golden_netlists / case["netlist"]))
        plc.set_canvas_boundary_check(False)
        plc.set_canvas_size(*case["canvas"])
        plc.set_placement_grid(*case["grid"])
        if case["init"]:
            plc.restore_placement(golden_netlists / case["init"])
        flat, cells = plc.get_macro_and_clustered_port_adjacency()
        full = flat.reshape(case["n"], case["n"])
        np.testing.assert_array_equal(full, full.T)
        i, j = np.nonzero(np.triu(full))
        np.testing.assert_array_equal(np.stack((i, j, full[i, j]), axis=1), arrays[f"{name}/ijw"].reshape(-1, 3))
        assert cells == arrays[f"{name}/cells"].tolist()
        macros = case["macro_indices"]
        np.testing.assert_array_equal(plc.get_macro_adjacency().reshape(macros, macros), full[:macros, :macros])


def test_the_constants_of_the_reference_unit_test(golden_netlists):
    plc = PlacementCost(golden_netlists / "circuit_training/macro_tiles_10x10/netlist.pb.txt")
    assert plc.get_cost() == pytest.approx(0.007745966692414834, rel=1e-14)
    assert plc.get_congestion_cost() == pytest.approx(1.124405186246434, rel=1e-14)
    assert plc.get_density_cost() == pytest.approx(0.3570806661517036, rel=1e-14)


@pytest.mark.group("ariane")
@pytest.mark.parametrize("name", ["initial", "legalized"])
def test_the_headers_of_the_published_ariane_placements(ariane, name):
    header = ariane[f"{name}.plc"].read_text()[:4000]
    plc = PlacementCost(ariane["netlist.pb.txt"])
    plc.set_canvas_boundary_check(False)
    plc.set_canvas_size(1433.405978506462, 1433.405978506462)
    plc.set_placement_grid(24, 21)
    plc.set_congestion_grid(24, 21)
    plc.set_congestion_smooth_range(0)
    plc.restore_placement(ariane[f"{name}.plc"])

    def published(key: str) -> float:
        return float(re.search(rf"{re.escape(key)} : ([0-9.]+)", header).group(1))

    # the file has positions to six digits only
    assert plc.get_wirelength() == pytest.approx(published("Wirelength"), rel=1e-6)
    assert plc.get_area() == pytest.approx(published("Area (stdcell+macros)"), rel=1e-12)
    assert plc.get_cost() == pytest.approx(published("Wirelength cost"), abs=6e-5)
    assert plc.get_congestion_cost() == pytest.approx(published("Congestion cost"), abs=6e-5)
    assert plc.get_density_cost() == pytest.approx(published("Density cost"), abs=6e-5)
