"""Whole placements: the benchmark, what ``place`` may return, the exact verdict, and a competition from end to end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import a2perf
from a2perf.cli.submission_folder import check, init
from a2perf.domains.registry import stored_fingerprint
from a2perf.errors import ConfigError
from a2perf_competition.command import competition as command
from a2perf_competition.page import is_false_claim
from a2perf_placement.benchmark import Benchmark
from a2perf_placement.competition import PROFILE, design_task, import_design
from a2perf_placement.environment import MacroPlacementEnv
from a2perf_placement.incremental import evaluate_placement
from a2perf_placement.netlists.flat_generator import FlatSpec, write_flat_design
from a2perf_placement.place_function import PlaceResultError, as_action, read_claims
from a2perf_placement.placers import random_placement
from a2perf_placement.profiles import engine_from_header
from a2perf_placement.verdict import IllegalPlacementError
from tests.fingerprints.computed import environment_fingerprint

DESIGN = {"design": "generated", "num_macros": 10, "seed": 3}


@pytest.fixture(scope="module")
def env() -> MacroPlacementEnv:
    return MacroPlacementEnv(**DESIGN)


def step(env: MacroPlacementEnv, result: object) -> dict:
    env.reset(seed=0)
    return env.step(as_action(env.benchmark, result))[4]


def legal(env: MacroPlacementEnv) -> np.ndarray:
    return random_placement(env.benchmark, np.random.default_rng(0)).positions


def test_a_placement_costs_what_the_public_evaluator_says_of_its_files(env: MacroPlacementEnv) -> None:
    observation, _ = env.reset(seed=0)
    design = Benchmark.from_observation(observation)
    in_engine = evaluate_placement(design.engine(), "tilos")
    in_files = evaluate_placement(engine_from_header(*design.files), "tilos")
    assert in_files == in_engine
    info = step(env, legal(env))
    assert info["cost"] == info["wirelength"] + 0.5 * info["density"] + 0.5 * info["congestion"]
    heavy = MacroPlacementEnv(**DESIGN, density_weight=2.0)
    assert step(heavy, legal(env))["cost"] == pytest.approx(info["cost"] + 1.5 * info["density"], rel=1e-12)


def test_nets_of_the_benchmark_have_the_wirelength_of_the_engine(env: MacroPlacementEnv) -> None:
    design = env.benchmark
    places = np.concatenate((design.positions, design.port_positions))
    pins = places[design.pin_owners] + design.pin_offsets
    ends = pins[design.net_pins]
    spans = [
        np.ptp(ends[a:b], axis=0).sum() for a, b in zip(design.net_starts[:-1], design.net_starts[1:], strict=True)
    ]
    assert np.dot(spans, design.net_weights) == pytest.approx(design.engine().get_wirelength(), rel=1e-12)


def test_all_forms_of_a_result_are_one_placement(env: MacroPlacementEnv) -> None:
    design, positions = env.benchmark, legal(env)
    named = {name: tuple(at) for name, at in zip(design.node_names, positions, strict=True)}
    forms = (positions, positions.tolist(), (positions, ["N"] * design.num_hard), {"positions": positions}, named)
    assert len({step(env, form)["cost"] for form in forms}) == 1
    turned = step(env, {"positions": positions, "orientations": {design.node_names[0]: "FN"}})
    assert turned["wirelength"] != step(env, positions)["wirelength"]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (None, "None"),
        ({"positions": np.zeros((1, 2)), "claimed": 1.0}, "did you mean"),
        ({"M999": (0.0, 0.0)}, "not a node"),
        ({}, "no position"),
        ((np.zeros((1, 2)), ["N", "N"]), "orientations"),
        ((np.zeros((1, 2)), ["NORTH"] * 10), "not an orientation"),
    ],
)
def test_a_result_of_another_form_is_refused_with_a_hint(env: MacroPlacementEnv, result: object, words: str) -> None:
    with pytest.raises(PlaceResultError, match=words) as caught:
        as_action(env.benchmark, result)
    assert caught.value.hint


def test_the_verdict_names_the_rule_and_the_nodes(env: MacroPlacementEnv) -> None:
    design, positions = env.benchmark, legal(env)
    overlapping = positions.copy()
    overlapping[1] = overlapping[0]
    with pytest.raises(IllegalPlacementError, match=rf"{design.node_names[0]} and {design.node_names[1]} by"):
        step(env, overlapping)
    outside, beyond = positions.copy(), positions.copy()
    outside[0, 0] = design.node_sizes[0, 0] / 2 - 1e-9
    with pytest.raises(IllegalPlacementError, match="1 macro sticks out of the canvas"):
        step(env, outside)
    beyond[-1] = (-1.0, 0.0)
    with pytest.raises(IllegalPlacementError, match=rf"{design.node_names[-1]} at \(-1, 0\)"):
        step(env, beyond)
    with pytest.raises(IllegalPlacementError, match="1 macro has an orientation that is not allowed"):
        step(env, (positions, ["E"] + ["N"] * (design.num_hard - 1)))


def test_touching_edges_are_legal_and_the_next_number_is_not() -> None:
    env = MacroPlacementEnv(design="toy_macro_stdcell")
    design = env.benchmark
    positions = design.positions.copy()
    positions[0], positions[1] = (50.0, 50.0), (50.0 + design.node_sizes[0, 0], 50.0)
    assert step(env, positions)["cost"] > 0.0
    positions[1, 0] = np.nextafter(positions[1, 0], 0.0)
    with pytest.raises(IllegalPlacementError, match="1 pair of macros overlaps"):
        step(env, positions)


def test_fixed_nodes_stay_except_for_rounding_to_single_precision(tmp_path: Path) -> None:
    netlist, placement = MacroPlacementEnv(**DESIGN).benchmark.files
    lines = placement.read_text().splitlines()
    (line,) = [at for at, text in enumerate(lines) if text.endswith(" N 0")][:1]
    lines[line] = lines[line][:-1] + "1"
    (tmp_path / "initial.plc").write_text("\n".join(lines) + "\n")
    shutil.copy(netlist, tmp_path)
    env = MacroPlacementEnv(netlist_file=tmp_path)
    (fixed,) = np.flatnonzero(env.benchmark.fixed)
    positions = env.benchmark.positions.astype(np.float32).astype(np.float64)
    if fixed >= env.benchmark.num_hard:
        positions[: env.benchmark.num_hard] = legal(env)[: env.benchmark.num_hard]
    else:
        positions = legal(env)
        positions[fixed] = env.benchmark.positions[fixed].astype(np.float32)
    assert step(env, positions)["cost"] > 0.0
    positions[fixed] += 0.01
    with pytest.raises(IllegalPlacementError, match=r"1 fixed node was moved: .* by 0\.01"):
        step(env, positions)


def test_claims_are_read_and_broken_ones_refused(env: MacroPlacementEnv, tmp_path: Path) -> None:
    name = env.benchmark.name
    (tmp_path / "claims.json").write_text(json.dumps({name: 0.5}))
    claims = read_claims(tmp_path)
    assert as_action(env.benchmark, legal(env), claims)["claimed_cost"] == [0.5]
    assert as_action(env.benchmark, {"positions": legal(env), "claimed_cost": 0.7}, claims)["claimed_cost"] == [0.7]
    env.reset(seed=0)
    assert env.step(as_action(env.benchmark, legal(env), claims))[4]["claimed_return"] == -0.5
    (tmp_path / "claims.json").write_text("[1]")
    with pytest.raises(PlaceResultError, match="a list"):
        read_claims(tmp_path)
    assert is_false_claim(-0.5, -0.8)
    assert not is_false_claim(-0.7999, -0.8)
    assert not is_false_claim(-0.9, -0.8)


def test_designs_are_taken_from_folders_and_refused_otherwise(env: MacroPlacementEnv, tmp_path: Path) -> None:
    netlist, placement = env.benchmark.files
    name = import_design(f"{netlist},{placement}", tmp_path / "copies")
    again = MacroPlacementEnv(netlist_file=tmp_path / "copies" / name)
    assert step(again, legal(env)) == step(env, legal(env))
    with pytest.raises(ConfigError, match="is not a design"):
        import_design(str(netlist), tmp_path / "others")
    with pytest.raises(ConfigError, match="does not exist"):
        import_design("nothing.aux", tmp_path / "others")
    with pytest.raises(ConfigError, match="did you mean 'density_weight'"):
        PROFILE.settled({"densty_weight": "1"})


@pytest.mark.group("mtkahypar")
@pytest.mark.parametrize("kind", ["lefdef", "bookshelf"])
def test_a_flat_design_becomes_a_task_of_a_competition(tmp_path: Path, kind: str) -> None:
    spec = FlatSpec(cells=200, macros=6, ports=12)
    files = write_flat_design(spec, tmp_path / "flat", kind)
    endings = (".aux",) if kind == "bookshelf" else (".lef", ".def")
    source = ",".join(str(path) for path in sorted(files, reverse=True) if path.suffix in endings)
    folder = tmp_path / "designs"
    name = import_design(source, folder)
    task = design_task(name, folder / name, PROFILE.settled({}))
    env = MacroPlacementEnv(**task.kwargs)
    env.reset(seed=0)
    assert env.benchmark.num_hard == spec.macros
    assert step(env, legal(env))["wirelength"] > 0.0


def _run(*arguments: object) -> int:
    done = CliRunner().invoke(command, [str(word) for word in arguments], standalone_mode=False)
    if done.exception:
        raise done.exception
    return done.return_value or 0


@pytest.mark.slow
def test_a_competition_publishes_costs_false_claims_and_illegal_placements(tmp_path: Path) -> None:
    cup, site = tmp_path / "cup", tmp_path / "site"
    settings = ("--set", "designs=", "--no-references", "--held-out", 0, "--set", "call_timeout_s=60")
    assert _run("init", cup, "--profile", "macro_placement", *settings) == 0
    assert "lower is better" in (cup / "public" / "README.md").read_text()
    boaster, careless = tmp_path / "boaster", tmp_path / "careless"
    shutil.copytree(cup / "public" / "template", boaster)
    (boaster / "claims.json").write_text('{"toy_macro_stdcell": 0.1}')
    careless.mkdir()
    (careless / "placer.py").write_text("def place(benchmark):\n    return 0 * benchmark.positions + 50\n")
    entries = ("--submission", boaster, "--submission", careless)
    assert _run("run", cup, *entries, "--sandbox", "process", "--allow-weaker", "--workers", 2) == 1
    assert _run("publish", cup, "-o", site, "--yes") == 0
    outcomes = {one["submission"]: one for one in json.loads((site / "outcomes.json").read_text())}
    assert outcomes["boaster"]["state"] == "finished"
    assert outcomes["careless"]["kind"] == "illegal"
    assert "pair of macros overlaps" in outcomes["careless"]["reason"]
    page = (site / "index.html").read_text()
    assert "False claim" in page
    assert "Illegal answer" in page
    reports = [path.read_text() for path in (site / "leaderboard").rglob("report/index.html")]
    assert [text for text in reports if "placement and maps" in text]
    assert _run("verify", site / "reveal") == 0


def test_the_environment_is_the_recorded_one() -> None:
    recorded = json.loads(Path(__file__).with_name("fingerprint.json").read_text(encoding="utf-8"))
    assert stored_fingerprint("CircuitTraining-MacroPlacement-v0") == recorded["sha256"]
    assert environment_fingerprint("CircuitTraining-MacroPlacement-v0")["traces"] == recorded["traces"]


def test_the_template_is_a_complete_submission_without_problems(tmp_path: Path) -> None:
    runner = CliRunner()
    assert runner.invoke(init, [str(tmp_path / "mine"), "--template", "placer"]).exit_code == 0
    assert {path.name for path in (tmp_path / "mine").iterdir()} >= {"placer.py", "inference.gin", "README.md"}
    checked = runner.invoke(check, [str(tmp_path / "mine"), "--steps", "3"])
    assert checked.exit_code == 0, checked.output
    assert "CircuitTraining-MacroPlacement-v0" in checked.output


def test_the_default_template_names_this_one_on_a_task_that_takes_whole_placements(tmp_path: Path) -> None:
    assert CliRunner().invoke(init, [str(tmp_path / "mine")]).exit_code == 0
    report = a2perf.check(tmp_path / "mine", task="place_toy_macro_stdcell", steps=3, train_limit_s=600)
    assert not report
    assert "one action of this task is a whole placement" in str(report)
