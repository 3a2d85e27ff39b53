"""Generated designs: the same bytes for the same specification, the promised counts, Rent's rule, playable netlists."""

import collections
import hashlib

import numpy as np
import pytest

from a2perf.domains import get_domain
from a2perf.domains.circuit_training.environment import CircuitEnv
from a2perf.domains.circuit_training.generated import designs
from a2perf.domains.circuit_training.generated.design_plan import DesignSpec
from a2perf.domains.circuit_training.generated.generator import ariane_twin, generate, toy_design
from a2perf.domains.circuit_training.netlists.connectivity import hilbert_positions, level_probabilities, rent_nets
from a2perf.errors import ConfigError
from tests.domains.circuit_training.conftest import play


def counts(design):
    return collections.Counter(
        "soft" if node.kind == "MACRO" and node.name.startswith("Grp_") else node.kind for node in design.nodes
    )


def fan_outs(design):
    return collections.Counter(len(node.drives) for node in design.nodes if node.drives)


def test_the_toy_design_has_the_macros_cells_and_ports_of_the_field():
    design = toy_design()
    assert counts(design) == {"MACRO": 2, "MACRO_PIN": 4, "STDCELL": 12, "PORT": 12}
    assert (design.canvas, design.grid) == ((200.0, 100.0), (20, 10))
    assert design.nodes[0].attributes["width"] == 30.0
    assert design.nodes[0].attributes["height"] == 40.0


def test_the_twin_has_the_statistics_of_ariane():
    design = ariane_twin()
    assert counts(design) == {"MACRO": 133, "soft": 782, "PORT": 495, "MACRO_PIN": 18477}
    assert len(design.nodes) == 19887
    degrees = fan_outs(design)
    assert sum(degrees.values()) == 12422
    assert [degrees[k] for k in range(1, 9)] == [6261, 2203, 1155, 754, 557, 423, 315, 271]
    assert max(degrees) == 20
    assert (design.canvas, design.grid) == ((1433.406, 1433.406), (24, 21))
    macros = [node for node in design.nodes if node.kind == "MACRO" and not node.name.startswith("Grp_")]
    assert {(node.attributes["width"], node.attributes["height"]) for node in macros} == {(57.57, 133.0)}
    assert "not Ariane" in design.netlist_text().splitlines()[0]


def test_a_specification_gives_the_bytes_that_it_always_gave_and_another_one_does_not():
    specs = [DesignSpec(num_macros=10, seed=seed, rent_exponent=rent) for seed, rent in ((1, 0.6), (2, 0.6), (1, 0.7))]
    designs = [generate(spec) for spec in specs]
    digest = hashlib.sha256((designs[0].netlist_text() + designs[0].placement_text()).encode()).hexdigest()
    assert digest == "a15c9d00cd5803d8f1cd6081816b89832466becca6a7d6b457f876d9e82933d5"
    assert len({design.netlist_text() for design in designs}) == len({spec.name for spec in specs}) == 3


@pytest.mark.parametrize("num_macros", [10, 57, 1000])
def test_any_size_keeps_within_the_observation_and_the_grid(num_macros):
    design = generate(DesignSpec(num_macros=num_macros, seed=2))
    kinds = counts(design)
    assert kinds["MACRO"] == num_macros
    assert kinds["MACRO"] + kinds["soft"] + kinds["PORT"] <= 3500 + 1200
    assert sum(count * nets for count, nets in fan_outs(design).items()) <= 42000
    assert max(design.grid) <= 128
    names = {node.name for node in design.nodes}
    assert len(names) == len(design.nodes)
    assert all(sink in names for node in design.nodes for sink in node.drives)
    width, height = design.canvas
    for at in design.placement:
        assert 0.0 <= at.x <= width
        assert 0.0 <= at.y <= height


def test_hard_macros_of_the_initial_placement_do_not_overlap():
    design = generate(DesignSpec(num_macros=60, seed=7))
    boxes = []
    for at in design.placement:
        node = design.nodes[at.node]
        if node.kind == "MACRO" and not node.name.startswith("Grp_"):
            half = np.array([node.attributes["width"], node.attributes["height"]]) / 2
            boxes.append((at.x - half[0], at.y - half[1], at.x + half[0], at.y + half[1]))
    for k, box in enumerate(boxes):
        rest = np.delete(boxes, k, axis=0)
        common = np.minimum(rest[:, 2:], box[2:]) - np.maximum(rest[:, :2], box[:2])
        assert not (common > 1e-6).all(axis=1).any()


def test_a_flat_design_has_one_net_per_cell_and_no_clusters():
    design = generate(DesignSpec(num_macros=10, seed=3, flat=True, num_nets=3000))
    kinds = counts(design)
    assert kinds["soft"] == 0
    assert kinds["STDCELL"] == 3000
    assert sum(fan_outs(design).values()) == pytest.approx(3000, rel=0.03)
    heights = {node.attributes["height"] for node in design.nodes if node.kind == "STDCELL"}
    assert heights == {1.4}


@pytest.mark.parametrize("exponent", [0.5, 0.6, 0.75])
def test_nets_obey_rents_rule(exponent):
    generator = np.random.default_rng(0)
    leaves, nets = 4096, 12000
    drivers = generator.integers(0, leaves, nets)
    sinks = list(rent_nets(generator, leaves, drivers, np.ones(nets, np.int64), exponent))
    assert all(len(net) == 1 and net[0] != driver for net, driver in zip(sinks, drivers.tolist(), strict=True))
    ends = np.array([net[0] for net in sinks])
    sizes = 2 ** np.arange(2, 10)
    terminals = [2 * np.count_nonzero(drivers // size != ends // size) / (leaves / size) for size in sizes]
    slope = np.polyfit(np.log(sizes), np.log(terminals), 1)[0]
    assert slope == pytest.approx(exponent, abs=0.03)
    assert level_probabilities(12, exponent).sum() == pytest.approx(1.0)


def test_neighbours_on_the_curve_lie_beside_each_other():
    at = hilbert_positions(256)
    assert len({tuple(row) for row in at.tolist()}) == 256
    assert np.abs(np.diff(at, axis=0)).sum(axis=1) == pytest.approx(np.full(255, 1 / 16))


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_macros", 9), ("num_macros", "many"), ("utilization", 0.95), ("rent_exponent", float("nan"))],
)
def test_a_specification_out_of_range_is_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        DesignSpec(**{name: value})


def test_held_out_tasks_are_designs_of_their_own_that_can_be_played():
    held_out = [task for task in get_domain("circuit_training").tasks if task.name.startswith("generated_held_out")]
    assert len(held_out) == 4
    assert len({DesignSpec(**task.kwargs).name for task in held_out}) == 4
    env = CircuitEnv(design="generated", **held_out[0].kwargs)
    _, _, _, rewards, _ = play(env)
    assert -3.0 < rewards[-1] < -0.5


def test_designs_are_kept_and_made_again_where_they_cannot_be(monkeypatch, tmp_path):
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path))
    netlist, placement = designs.design_files("toy_macro_stdcell", {})
    assert netlist.is_relative_to(tmp_path)
    changed = netlist.stat().st_mtime_ns
    assert designs.design_files("toy_macro_stdcell", {}) == (netlist, placement)
    assert netlist.stat().st_mtime_ns == changed
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(blocked))
    elsewhere, _ = designs.design_files("toy_macro_stdcell", {})
    assert elsewhere.read_bytes() == netlist.read_bytes()


def test_a_design_with_fewer_clusters_than_a_net_has_sinks_is_made():
    design = generate(DesignSpec(num_macros=14, num_clusters=12, num_nets=300, seed=5))
    assert counts(design)["MACRO"] == 14
