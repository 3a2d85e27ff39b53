"""Incremental evaluation: to the last bit a full one, in agreement with the engine, and undone without a trace."""

import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from a2perf.domains.circuit_training import ARIANE
from a2perf.domains.circuit_training.engine.cost_model import CostWeights
from a2perf.domains.circuit_training.engine.placement import PlacementError
from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.generated.designs import design_files
from a2perf.domains.circuit_training.netlists.netlist import ORIENTATIONS
from a2perf.errors import AssetUnavailable, ConfigError
from a2perf_placement.annealing import Annealing, Schedule
from a2perf_placement.incremental import IncrementalPlacement, evaluate_placement
from a2perf_placement.profiles import engine_from_header
from tests.domains.circuit_training.conftest import node_text, random_netlist

# What the public evaluator gives for the initial placement of the NanGate45 Ariane-133.
PUBLIC_EVALUATOR = (0.04972240701317787, 0.6067349910736084, 0.7156734869659169)


@pytest.fixture
def plc(tmp_path):
    """All kinds of nodes, somewhere on and beside the canvas, with a blockage."""
    path = tmp_path / "netlist.pb.txt"
    path.write_text(random_netlist(3))
    engine = PlacementCost(str(path))
    engine.set_canvas_size(100, 90)
    engine.set_placement_grid(12, 9)
    engine.set_congestion_grid(10, 14)
    engine.create_blockage(10.0, 20.0, 33.3, 44.4, 0.5)
    engine.set_canvas_boundary_check(False)
    generator = np.random.default_rng(3)
    for node in range(engine.num_nodes()):
        if engine.get_node_type(node) != "MACRO_PIN":
            engine.update_node_coords(node, *generator.uniform(-8.0, 105.0, 2))
    return engine


def costs_of(plc):
    return plc.get_cost(), plc.get_density_cost(), plc.get_congestion_cost()


def change_at_random(placement, nodes, macros, size, generator):
    """Moves, swaps, turns, removes or goes back."""
    kind, node = generator.integers(10), nodes[generator.integers(len(nodes))]
    if kind < 5:
        placement.move(node, *generator.uniform(-0.1, 1.1, 2) * size)
    elif kind == 5:
        placement.remove(node)
    elif kind == 6:
        placement.undo()
    elif kind == 7:
        placement.move(macros[generator.integers(len(macros))], *generator.uniform(0.0, 1.0, 2) * size, "FS")
    else:
        one, other = (macros[i] for i in generator.choice(len(macros), 2, replace=False))
        if -1.0 in placement.location(one) or -1.0 in placement.location(other):
            placement.move(one, 50.0, 40.0)
        elif kind == 8:
            placement.swap(one, other)
        else:
            placement.flip(one, ORIENTATIONS[generator.integers(8)])


@pytest.mark.parametrize("profile", ["circuit_training", "tilos"])
def test_ten_thousand_changes_leave_no_drift(plc, profile):
    placement, generator = IncrementalPlacement(plc, profile), np.random.default_rng(0)
    macros = plc.get_macro_indices()
    nodes = [node for node in range(plc.num_nodes()) if plc.get_node_type(node) != "MACRO_PIN"]
    placement.move(macros[0], 1.0, 1.0)
    for count in range(1, 10_001):
        change_at_random(placement, nodes, macros, (100.0, 90.0), generator)
        if count % 500 == 0:
            assert placement.recompute() == placement.cost()
            placement.write_to(plc)
            fresh = evaluate_placement(plc, profile)
            assert fresh == placement.cost()
            if profile == "circuit_training":
                assert placement.cost()[:3] == pytest.approx(costs_of(plc), rel=1e-11, abs=1e-12)


@pytest.mark.slow
def test_a_million_moves_leave_no_drift():
    with gymnasium.make("CircuitTraining-ArianeTwin-v0") as env:
        plc = env.unwrapped.plc
        env.unwrapped.analytical_placer()
        for node in plc.hard_macro_indices.tolist():
            plc.update_node_coords(node, 700.0, 700.0)
        placement, generator = IncrementalPlacement(plc), np.random.default_rng(0)
        macros = plc.get_macro_indices()
        for count in range(1, 1_000_001):
            change_at_random(placement, macros, macros, plc.get_canvas_width_height(), generator)
            if count % 100_000 == 0:
                assert placement.recompute() == placement.cost()
        placement.write_to(plc)
        assert placement.cost()[:3] == pytest.approx(costs_of(plc), rel=1e-11)


def test_undo_restores_every_bit_and_probes_change_none(plc):
    placement, generator = IncrementalPlacement(plc), np.random.default_rng(1)
    macros, before = plc.get_macro_indices(), placement.cost()
    costs = [before]
    for _ in range(20):
        costs.append(placement.move(macros[generator.integers(len(macros))], *generator.uniform(0.0, 90.0, 2)))
    nodes = [macros[0]] * 30 + [int(node) for node in generator.choice(macros, 70)]
    x, y = generator.uniform(0.0, 90.0, (2, 100))
    names = [ORIENTATIONS[i] for i in generator.integers(8, size=100)]
    probed = placement.probe(nodes, x, y, names)
    assert placement.cost() == placement.recompute() == costs[-1]
    assert (placement.probe(nodes, x, y, names, threads=3) == probed).all()
    for row in range(0, 100, 9):
        assert placement.move(nodes[row], x[row], y[row], names[row]) == tuple(probed[row])
        assert placement.undo() == costs[-1]
    (swapped,) = placement.probe_swaps([(macros[2], macros[4])])
    assert placement.swap(macros[2], macros[4]) == tuple(swapped)
    for expected in reversed(costs):
        assert placement.undo() == expected
    with pytest.raises(PlacementError, match="no change to undo"):
        placement.undo()
    assert placement.recompute() == before == IncrementalPlacement(plc).cost()


def test_what_cannot_be_moved_is_refused_and_nothing_changes(plc):
    placement = IncrementalPlacement(plc)
    before = placement.cost()
    plc.fix_node_coord("M3")
    for call, message in (
        (lambda: placement.move("M1/p0", 1.0, 1.0), "macro pin"),
        (lambda: placement.move("M3", 1.0, 1.0), "fixed"),
        (lambda: placement.move(10**6, 1.0, 1.0), "no node"),
        (lambda: placement.move("M1", float("nan"), 1.0), "not a position"),
        (lambda: placement.move("M1", 1e6, 1.0), "not a position"),
        (lambda: placement.flip("M1", "NW"), "not an orientation"),
        (lambda: placement.flip("P1", "S"), "not a macro"),
        (lambda: placement.swap("M1", "M1"), "itself"),
        (lambda: placement.probe(["M1"], [1.0, 2.0], [1.0]), "do not fit"),
        (lambda: placement.probe(["M1"], [1.0], [1.0], threads=0), "threads"),
    ):
        with pytest.raises(PlacementError, match=message):
            call()
    assert placement.cost() == before == placement.recompute()


def test_weights_of_a_profile_can_be_set(plc):
    wirelength, density, congestion, cost = evaluate_placement(plc, "tilos")
    assert cost == pytest.approx(wirelength + 0.5 * density + 0.5 * congestion, rel=1e-15)
    assert evaluate_placement(plc, "tilos", CostWeights(0.0, 0.0, 2.0)).cost == 2.0 * congestion
    with pytest.raises(ConfigError, match="no cost profile 'tylos'; did you mean"):
        evaluate_placement(plc, "tylos")
    with pytest.raises(ConfigError, match="weight of density"):
        evaluate_placement(plc, "tilos", CostWeights(1.0, -1.0, 1.0))


def test_a_pin_beyond_the_canvas_belongs_to_the_nearest_cell_in_the_public_convention(tmp_path):
    path = tmp_path / "netlist.pb.txt"
    path.write_text(
        node_text("A", ("B/p",), type="PORT", x=5.0, y=5.0)
        + node_text("B", type="MACRO", width=2.0, height=2.0, x=25.0, y=25.0)
        + node_text("B/p", type="MACRO_PIN", macro_name="B", x_offset=30.0, y_offset=0.0)
    )
    plc = PlacementCost(str(path))
    plc.set_canvas_size(40.0, 40.0)
    plc.set_placement_grid(4, 4)
    plc.set_congestion_grid(4, 4)
    plc.set_congestion_smooth_range(0)
    plc.set_routes_per_micron(0.1, 0.1)  # one route fills a cell
    plc.set_macro_routing_allocation(0.0, 0.0)
    assert evaluate_placement(plc).congestion == plc.get_congestion_cost() == 0.0
    # An L over three cells of the lowest row and two of the last column; the largest of 32 values counts.
    assert evaluate_placement(plc, "tilos").congestion == 1.0


def test_the_public_evaluators_values_of_ariane():
    try:
        netlist, placement = design_files("ariane", {})
    except AssetUnavailable as error:
        pytest.skip(f"without {ARIANE['netlist.pb.txt'].name}: {error.message}")
    plc = engine_from_header(netlist, placement)
    assert evaluate_placement(plc, "tilos")[:3] == pytest.approx(PUBLIC_EVALUATOR, abs=1e-6)
    ours = evaluate_placement(plc)[:3]
    assert ours == pytest.approx(costs_of(plc), rel=1e-12)
    assert [f"{part:.4f}" for part in ours] == ["0.0497", "0.6067", "0.7128"]


def test_annealing_finds_the_same_placement_with_either_evaluation():
    schedule = Schedule(time_budget_s=np.inf, max_moves=120, replace_every=40)
    with gymnasium.make("CircuitTraining-ToyMacro-v0") as env:
        assert Annealing(env, schedule, seed=0).run() == Annealing(env, schedule, seed=0, incremental=False).run()


def test_code_on_the_page_runs():
    page = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n([^`]*IncrementalPlacement\(.*?)^```", page, re.DOTALL | re.MULTILINE)
    names = {}
    exec(compile(block, "README.md", "exec"), names)
    assert names["costs"].shape == (3, 4)
