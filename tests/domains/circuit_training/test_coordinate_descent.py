"""Coordinate descent: it never makes a placement worse, keeps it legal, and can turn macros in place."""

import pytest

from a2perf.domains.circuit_training.engine.coordinate_descent import CoordinateDescentPlacer
from a2perf.domains.circuit_training.engine.cost_model import cost_info_function
from a2perf.domains.circuit_training.environment import CircuitEnv
from a2perf.domains.circuit_training.errors import ArgumentError
from tests.domains.circuit_training.conftest import play


@pytest.fixture
def finished():
    """A finished random placement of a generated design."""
    env = CircuitEnv(design="generated", num_macros=10, seed=2)
    _, _, _, rewards, _ = play(env)
    assert rewards[-1] != -1.0
    return env


def legal(env):
    """Whether every hard macro may lie where it does, once all soft ones are taken away."""
    plc = env.plc
    for node in plc.soft_macro_indices.tolist():
        plc.unplace_node(node)
    for node in env.macro_order:
        cell = plc.get_grid_cell_of_node(node)
        plc.unplace_node(node)
        if not plc.can_place_node(node, cell):
            return False
        plc.place_node(node, cell)
    return True


def test_macros_move_to_better_cells(finished):
    before = finished.get_cost_info(done=True)[0]
    after = CoordinateDescentPlacer(finished.plc, cost_info_function, epochs=1, k_distance_bound=2).place()
    assert after < before
    assert finished.get_cost_info(done=True)[0] == pytest.approx(after, rel=1e-12)
    assert legal(finished)


def test_macros_turn_in_place(finished):
    plc = finished.plc
    where = [plc.get_node_location(node) for node in finished.macro_order]
    before = plc.get_cost()
    after = CoordinateDescentPlacer(
        plc, lambda plc, done: (plc.get_cost(), {}), epochs=1, use_stdcell_placer=False, optimize_only_orientation=True
    ).place()
    assert after < before
    assert [plc.get_node_location(node) for node in finished.macro_order] == where
    assert {plc.get_macro_orientation(node) for node in finished.macro_order} <= {"N", "FN", "S", "FS"}


def test_the_same_seed_gives_the_same_placement(finished):
    start = {node: finished.plc.get_node_location(node) for node in finished.plc.get_macro_indices()}
    found = []
    for _ in range(2):
        for node, at in start.items():
            finished.plc.update_node_coords(node, *at)
        for node in finished.macro_order:
            finished.plc.update_macro_orientation(node, "N")
        placer = CoordinateDescentPlacer(
            finished.plc, cost_info_function, epochs=1, cell_search_prob=0.3, k_distance_bound=1
        )
        found.append(placer.place())
    assert found[0] == found[1]


def test_what_cannot_be_refined_is_refused(finished):
    with pytest.raises(ArgumentError, match="dreamplace"):
        CoordinateDescentPlacer(finished.plc, cost_info_function, stdcell_placer="dreamplace")
    finished.plc.unplace_node(finished.macro_order[0])
    with pytest.raises(ArgumentError, match=r"M\d+ is not placed"):
        CoordinateDescentPlacer(finished.plc, cost_info_function)
