"""Records that contradict themselves, hashed again by whoever changed them: never valid, never counted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from a2perf import read_runs
from a2perf.cli import cli
from a2perf.records import Manifest
from a2perf.runs.bundles.bundle import write_manifest
from a2perf.runs.bundles.inventory import read_manifest, record_files
from tests.commands import flags

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TASKS = ["difficulty_level_1_num_websites_1", "difficulty_level_1_num_websites_5"]
GENERALIZATION = f"""
import a2perf.submission.submission_util
Submission.mode = %BenchmarkMode.GENERALIZATION
Submission.domain = %BenchmarkDomain.WEB_NAVIGATION
Submission.num_generalization_episodes = 2
Submission.generalization_tasks = {TASKS}
"""


def a2perf(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of six episodes of CartPole, each played twice, and one of two tasks."""
    top = tmp_path_factory.mktemp("recorded")
    few = ("Submission.num_inference_episodes = 6", "Submission.num_inference_steps = 20")
    for seed in (0, 1):
        given = flags(submission=EXAMPLES / "minimal", env_id="CartPole-v1", seed=seed, repeats=2, gin_bindings=few)
        done = a2perf("run", *given, "--root-dir", top / f"cart_{seed}")
        assert done.return_value == 0, done.output
    (top / "generalization.gin").write_text(GENERALIZATION)
    gin = top / "generalization.gin"
    given = flags(submission=EXAMPLES / "web_solver", gin_config=gin, perturbations="order", root_dir=top / "web")
    done = a2perf("run", *given)
    assert done.return_value == 0, done.output
    return top


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def edit_arrays(path: Path, change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]], *names: str) -> None:
    with np.load(path) as arrays:
        found = {name: change(values) if not names or name in names else values for name, values in arrays.items()}
    np.savez_compressed(path, allow_pickle=False, **found)


def best(rollouts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = max(rollouts["episodes"], key=lambda episode: episode["episode_return"])
    return found


def repeated_best(bundle: Path, manifest: Manifest) -> None:
    edit(bundle / "metrics/rollouts.json", lambda found: found.update(episodes=[best(found)] * 6))


def two_best(bundle: Path, manifest: Manifest) -> None:
    def keep(found: dict[str, Any]) -> None:
        found["episodes"] = sorted(found["episodes"], key=lambda one: one["episode_return"])[-2:]

    edit(bundle / "metrics/rollouts.json", keep)
    (bundle / "journal.jsonl").unlink()
    (bundle / "metrics/rollout_steps.npz").unlink()


def two_best_with_their_seeds(bundle: Path, manifest: Manifest) -> None:
    two_best(bundle, manifest)

    def count(found: dict[str, Any]) -> None:
        for place, one in enumerate(found["episodes"]):
            one.update(index=place, task_index=place)
        found["further"] = []
        manifest.seeds["episodes"] = [one["seed"] for one in found["episodes"]]
        manifest.repeats = 1

    edit(bundle / "metrics/rollouts.json", count)


def better_return(bundle: Path, manifest: Manifest) -> None:
    def raise_(found: dict[str, Any]) -> None:
        found["episodes"][0]["episode_return"] += 100.0

    edit(bundle / "metrics/rollouts.json", raise_)
    (bundle / "journal.jsonl").unlink()


def swapped_episodes(bundle: Path, manifest: Manifest) -> None:
    def swap(found: dict[str, Any]) -> None:
        found["episodes"][:2] = [
            {**found["episodes"][one], "seed": found["episodes"][other]["seed"]} for one, other in ((0, 1), (1, 0))
        ]

    edit(bundle / "metrics/rollouts.json", swap)


def another_journal(bundle: Path, manifest: Manifest) -> None:
    lines = (bundle / "journal.jsonl").read_text().splitlines(keepends=True)
    (bundle / "journal.jsonl").write_text("".join(lines[1:]))


def repeated_repeat(bundle: Path, manifest: Manifest) -> None:
    edit(bundle / "metrics/rollouts.json", lambda found: found.update(further=[found["further"][0]] * 6))


def another_task(bundle: Path, manifest: Manifest) -> None:
    edit(bundle / "metrics/rollouts.json", lambda found: found.update(task="Acrobot-v1"))


def second_task(bundle: Path, manifest: Manifest) -> None:
    (bundle / "metrics/tasks/easy").mkdir(parents=True)
    shutil.copy(bundle / "metrics/rollouts.json", bundle / "metrics/tasks/easy/rollouts.json")


def longer_latency(bundle: Path, manifest: Manifest) -> None:
    edit_arrays(bundle / "metrics/latency.npz", lambda values: np.r_[values, np.ones(1000, values.dtype)])


def shorter_steps(bundle: Path, manifest: Manifest) -> None:
    edit_arrays(bundle / "metrics/rollout_steps.npz", lambda values: values[:-5], "round_trip_ns", "cpu_ns")


def fewer_settings(bundle: Path, manifest: Manifest) -> None:
    manifest.settings["num_inference_episodes"] = 2


def rows_of_the_trace(bundle: Path, manifest: Manifest) -> None:
    path = bundle / "metrics/system_trace.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def cheaper(bundle: Path, manifest: Manifest) -> None:
    edit(bundle / "metrics/tracking.json", lambda found: found.update(cpu_seconds=1e-6))


def seeds_of_text(bundle: Path, manifest: Manifest) -> None:
    manifest.seeds["episodes"] = [["1"]] * 6


def endless_repeats(bundle: Path, manifest: Manifest) -> None:
    manifest.repeats = 10**18


def another_mode(bundle: Path, manifest: Manifest) -> None:
    manifest.mode = "command"


def dropped_task(bundle: Path, manifest: Manifest) -> None:
    shutil.rmtree(bundle / "metrics/tasks" / TASKS[0])


def dropped_task_and_seeds(bundle: Path, manifest: Manifest) -> None:
    dropped_task(bundle, manifest)
    del manifest.seeds["episodes_by_task"][TASKS[0]]
    manifest.tracking.pop(TASKS[0])
    manifest.env_kwargs["tasks"].remove(TASKS[0])


def dropped_perturbation(bundle: Path, manifest: Manifest) -> None:
    edit(bundle / "metrics/tasks" / TASKS[0] / "rollouts.json", lambda found: found.update(further=[]))


FORGERIES = {
    repeated_best: "holds episode",
    two_best: "asks for 12",
    two_best_with_their_seeds: "its settings 6",
    better_return: "not the sum of the rewards",
    swapped_episodes: "is not the one that",
    another_journal: "journal",
    repeated_repeat: "holds episode 6 in place of episode 7",
    another_task: "Acrobot-v1",
    second_task: "easy",
    longer_latency: "20 calls",
    shorter_steps: "numbers of steps",
    fewer_settings: "its settings 2",
    rows_of_the_trace: "samples",
    cheaper: "different costs",
    seeds_of_text: "Expected `int`",
    endless_repeats: "asks for 6000000000000000000",
    another_mode: "its folder is inference",
    dropped_task: "is missing",
    dropped_task_and_seeds: "the tasks are",
    dropped_perturbation: "asks for 4",
}


def hash_again(bundle: Path, forge: Callable[[Path, Manifest], None]) -> None:
    manifest = read_manifest(bundle)
    forge(bundle, manifest)
    record_files(bundle, manifest)
    write_manifest(bundle, manifest)


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_a_record_that_contradicts_itself_is_named_and_its_neighbour_is_counted(
    recorded: Path, tmp_path: Path, forge: Callable[[Path, Manifest], None], noted: Any
) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(recorded, runs)
    bundle = runs / ("web/generalization" if forge.__name__.startswith("dropped") else "cart_0/inference")
    hash_again(bundle, forge)

    checked = a2perf("validate", bundle)
    (line,) = [line for line in checked.output.splitlines() if line.startswith("  ")]
    assert checked.return_value == 1
    assert FORGERIES[forge] in line
    assert a2perf("validate", runs / "cart_1").return_value == 0

    results = {result.bundle.parent.name: result for result in read_runs(runs)}
    forged = results.pop(bundle.parent.name)
    assert forged.mean_return is forged.latency is forged.energy is None
    assert any(condition.startswith("not counted: ") for condition in forged.conditions)
    assert all(result.mean_return is not None for result in results.values())
    noted("a record that contradicts itself, hashed again", "named by validate; not counted")


def test_no_command_counts_the_best_episode_six_times(recorded: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for seed in (0, 1):
        shutil.copytree(recorded / f"cart_{seed}", runs / f"cart_{seed}")
    (honest,) = read_runs(runs / "cart_1")
    hash_again(runs / "cart_0" / "inference", repeated_best)

    (group,) = json.loads(a2perf("score", runs, "--json").stdout)["groups"]
    assert group["scores"]["returns"]["value"] == pytest.approx(honest.mean_return)
    assert group["scores"]["returns"]["n"] == 1
    assert "1 of 2 run(s) contradict themselves and are not counted" in group["conditions"]

    a2perf("report", runs, "-o", tmp_path / "report")
    written = json.loads((tmp_path / "report" / "report.json").read_text())
    rows = {run["run"]: run for run in written["runs"]}
    assert any("not counted" in text for text in rows["cart_0"]["conditions"])

    (board,) = json.loads(a2perf("leaderboard", runs, "-o", tmp_path / "board", "--json").stdout)["boards"]
    (row,) = board["rows"]
    assert "1 of 2 runs invalid: cart_0/inference: metrics/rollouts.json holds episode" in str(
        row["entry"]["not_ranked"]
    )

    words = ("reproduce", runs / "cart_0", "--submission", EXAMPLES / "minimal", "-o", tmp_path / "again", "--json")
    (verdict,) = json.loads(a2perf(*words).stdout)["verdicts"]
    assert verdict["verdict"] == "REFUSED"
