"""The section of a design in a report: placements that runs recorded, evaluated again."""

from __future__ import annotations

import math
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from a2perf.records import Episode
from a2perf.report import write_report
from a2perf.report.tables import Quantity
from a2perf.report.task_results import results_by_task
from a2perf.runs.run import BUNDLE, MediaFile, Run, RunDetails, RunFolder, RunIdentity
from a2perf_placement.report.recorded_placements import NOT_RECORDED, RecordedPlacement, best_placement
from a2perf_placement.report.section import placement_sections
from tests.report.recorded_runs import RunMaker

TASK = "toy_macro_stdcell"


def _played(seed: int) -> tuple[float, bytes]:
    """Returns the cost of a random episode of the toy design and the file of its final state."""
    env = gymnasium.make("CircuitTraining-ToyMacro-v0")
    generator, ended, reward = np.random.default_rng(seed), False, 0.0
    _, info = env.reset(seed=seed)
    while not ended:
        action = int(generator.choice(np.flatnonzero(info["action_mask"])))
        _, reward, ended, _, info = env.step(action)
    suffix, content = env.unwrapped.final_state()
    env.close()
    assert suffix == ".plc"
    return -float(reward), content


def _run(
    folder: Path,
    name: str,
    seed: int,
    cost: float,
    content: bytes | None,
    env_id: str = "CircuitTraining-ToyMacro-v0",
    **env_kwargs: object,
) -> Run:
    place = RunFolder(BUNDLE, folder / f"{name}_{seed}", f"{name}_{seed}", root=f"{name}_{seed}")
    (place.path / "media").mkdir(parents=True)
    states = ()
    if content is not None:
        (place.path / "media" / "episode_000.plc").write_bytes(content)
        states = (MediaFile("media/episode_000.plc", len(content), place),)
    run = Run(
        RunIdentity("circuit_training", TASK, name, mode="inference", seed=seed, state="finished"),
        place,
        returns={"inference": {TASK: np.array([-cost])}},
        episodes={TASK: [Episode(index=0, seed=0, episode_return=-cost, length=2, terminated=True, truncated=False)]},
        manifest=RunMaker(folder).manifest(
            f"{name}_{seed}",
            "inference",
            domain="circuit_training",
            task=TASK,
            env_id=env_id,
            env_kwargs=env_kwargs,
        ),
        read_details=lambda _: RunDetails(final_states=states),
    )
    run.tracking.wall_s, run.tracking.energy.gross_kwh = 10.0 * seed, 1e-6
    run.tracking.energy.quality = "estimated"
    return run


@pytest.fixture(scope="module")
def played() -> list[tuple[float, bytes]]:
    """Two episodes."""
    return [_played(seed) for seed in (1, 2)]


def test_the_best_recorded_placement_has_the_recorded_cost_to_the_last_digits(played, tmp_path):
    runs = [_run(tmp_path, "random", seed, *played[seed - 1]) for seed in (1, 2)]
    best = best_placement(runs)
    assert isinstance(best, RecordedPlacement)
    cost = min(cost for cost, _ in played)
    assert best.recorded_cost == cost
    assert best.costs["circuit_training"].cost == pytest.approx(cost, rel=1e-14)
    parts = best.costs["tilos"]
    assert parts.cost == pytest.approx(parts.wirelength + 0.5 * parts.density + 0.5 * parts.congestion, rel=1e-14)
    assert best.agrees
    assert best.verdict.legal


def test_a_placement_of_a_whole_design_is_evaluated_as_its_environment_does(tmp_path):
    env = gymnasium.make("CircuitTraining-MacroPlacement-v0")
    env.action_space.seed(3)
    env.reset(seed=0)
    _, reward, *_ = env.step(env.action_space.sample())
    content = env.unwrapped.final_state()[1]
    best = best_placement([_run(tmp_path, "a", 1, -float(reward), content, "CircuitTraining-MacroPlacement-v0")])
    assert isinstance(best, RecordedPlacement)
    assert best.profile == "tilos"
    assert best.recomputed_cost == pytest.approx(-float(reward), rel=1e-14)
    assert best.agrees


def test_a_claimed_cost_that_the_placement_does_not_have_is_shown_beside_the_recomputed_one(played, tmp_path):
    cost, content = played[0]
    (section,) = placement_sections(results_by_task([_run(tmp_path, "a", 1, cost / 2, content)], "corrected"))
    shown = section.tables[0].rows[0][2]
    assert isinstance(shown, Quantity)
    assert (shown.value, shown.note) == (cost / 2, f"recomputed {cost:.4f}")


@pytest.mark.parametrize(
    ("content", "env_kwargs", "reason"),
    [
        (None, {}, NOT_RECORDED),
        (b"0 1 2 N\n", {}, "4 tokens instead of 5"),
        (b"99999 1 2 N 0\n", {}, "99999"),
        (b"", {"netlist_file": "/dev/zero"}, "is not on this host"),
        (b"", {"netlist_file": "/nonexistent"}, "is not on this host"),
        (b"", {"design": "unheard of"}, "is not a design"),
    ],
)
def test_what_a_bundle_of_strangers_holds_instead_of_a_placement_is_a_reason(content, env_kwargs, reason, tmp_path):
    found = best_placement([_run(tmp_path, "a", 1, 1.0, content, **env_kwargs)])
    assert isinstance(found, str)
    assert reason in found


def test_the_report_shows_each_design_with_time_energy_parts_and_maps(played, tmp_path):
    runs = [_run(tmp_path, "with", seed, *played[seed - 1]) for seed in (1, 2)]
    runs += [_run(tmp_path, "without", seed, 2.0, None) for seed in (1, 2)]
    written = write_report(runs, tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    section = text.partition("## Placements: Toy circuit")[2].partition("\n## ")[0]
    mean, spread = np.mean([cost for cost, _ in played]), np.std([cost for cost, _ in played], ddof=1)
    assert math.isfinite(spread)
    rows: dict[str, str] = {}
    for line in section.splitlines():
        rows.setdefault(line.strip("| ").partition(" | ")[0], line)
    first = rows["with"]
    for part in (f"{mean:.3f}"[:4], "legal: no overlap, all inside", "15.0 ± 7.1 s (n = 2)", "≈ 3.60 ± 0 J"):
        assert part in first, part
    second = rows["without"]
    assert "– (not recorded)" in second
    assert f"Without maps: without; {NOT_RECORDED}" in section
    figures = {path.name for path in (tmp_path / "out" / "figures").glob("placements-circuit-training-toy*.svg")}
    assert {name.removeprefix("placements-circuit-training-toy-macro-stdcell-") for name in figures} >= {
        "cost-against-time-and-energy.svg",
        "cost-by-part.svg",
        "maps-with.svg",
    }
    page = written.page.read_text()
    ids = [part.partition('"')[0] for part in page.split(' id="')[1:]]
    assert len(ids) == len(set(ids))
    assert "report section" not in text
