"""``a2perf compare``: groups of any recorded runs, the result in the first line, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import a2perf
from tests.commands import call_a2perf
from tests.metrics import made_bundles
from tests.rlops.compare.made_experiment import EXPERIMENT, NEW, OLD, write_experiment


def monitors(top: Path, name: str, mean: float) -> Path:
    """Monitor files of Stable-Baselines3, five seeds of ten episodes."""
    for seed in range(5):
        folder = top / name / "CartPole-v1" / f"ppo_{seed}"
        folder.mkdir(parents=True)
        rows = "".join(f"{mean + seed},{10},{episode}\n" for episode in range(10))
        head = json.dumps({"t_start": 1.7e9, "env_id": "CartPole-v1"})
        (folder / "monitor.csv").write_text(f"#{head}\nr,l,t\n{rows}")
    return top / name


def test_paths_of_foreign_logs_are_groups_and_the_first_one_is_the_baseline(tmp_path: Path) -> None:
    first, second = monitors(tmp_path, "first", 100.0), monitors(tmp_path, "second", 50.0)
    status, out, _ = call_a2perf("compare", first, second)
    assert status == 0
    assert out.startswith(f"{second}: worse. Baseline: {first}; 10 runs on 1 environment.")
    assert "CartPole-v1  worse" in out
    status, out, _ = call_a2perf(
        "compare", first, second, "--baseline", second, "--gate", "0.1", "-o", tmp_path / "found"
    )
    assert (status, out.partition(",")[0]) == (0, f"{first}: better")
    assert json.loads((tmp_path / "found.json").read_text())["candidates"][0]["panels"][0]["sign"] == "better"
    assert call_a2perf("compare", first, second, "--gate", "0.1")[0] == 1


def test_tags_versions_and_keys_of_a_configuration_are_groups(tmp_path: Path) -> None:
    store = write_experiment(tmp_path / "runs")
    expected = a2perf.compare(store, baseline=OLD, candidate=NEW)
    by_tag = a2perf.compare(store, by="tag", baseline=OLD)
    assert by_tag.judgements == expected.judgements
    assert a2perf.compare(store).candidates == ("v1.0.0b2-9-g4605546",)
    status, out, _ = call_a2perf("compare", store, "--by", "seed", "--candidate", "2", "--baseline", "1")
    assert status == 0
    assert "not enough data" in out
    status, _, err = call_a2perf("compare", store, "--by", "sead")
    assert (status, "did you mean 'seed'" in err) == (2, True)
    status, _, err = call_a2perf("compare", store, "--by", "tag", "--baseline", "v9")
    assert (status, f"groups: {OLD}, {NEW}" in err or f"groups: {NEW}, {OLD}" in err) == (2, True)
    status, _, err = call_a2perf("compare", store / EXPERIMENT / "Hopper-v2" / "v1.0.0")
    assert (status, "9 runs are in one group" in err or "3 runs are in one group" in err) == (2, True)


def test_episodes_of_both_sides_are_paired(tmp_path: Path) -> None:
    for name, first in (("old", 1), ("new", 11)):  # the mean return is 10 plus the seed
        for seed in range(first, first + 3):
            made_bundles.write_inference(tmp_path / name / f"seed_{seed}", seed, task="dog_pace", name=name)
    status, out, _ = call_a2perf("compare", tmp_path, "--question", "episodes", "--baseline", "old")
    assert status == 0
    assert out.startswith("new: better. Baseline: old; 6 runs on 1 environment. Question: these policies")


def test_shared_episodes_are_the_question_where_seeds_are_too_few(tmp_path: Path) -> None:
    for name, count in (("old", 2), ("new", 3)):
        for seed in range(count):
            made_bundles.write_inference(tmp_path / name / f"seed_{seed}", seed, task="dog_pace", name=name)
    line = (tmp_path, "--baseline", "old")
    status, out, _ = call_a2perf("compare", *line)
    said = "Question: these policies (units: shared episodes, in pairs), since old has 2 of the 3 seeds"
    assert (status, said in out) == (0, True)
    assert (
        "Question: this algorithm (units: training seeds)." in call_a2perf("compare", *line, "--question", "seeds")[1]
    )


def test_groups_without_a_common_environment_are_refused_with_both_lists(tmp_path: Path) -> None:
    first, second = monitors(tmp_path, "first", 100.0), monitors(tmp_path, "second", 50.0)
    (second / "CartPole-v1").rename(second / "Acrobot-v1")
    for file in second.rglob("monitor.csv"):
        file.write_text(file.read_text().replace("CartPole", "Acrobot"))
    status, _, err = call_a2perf("compare", first, second)
    assert (status, f"({first}: CartPole-v1; {second}: Acrobot-v1)" in err) == (2, True)


def test_a_path_without_runs_is_refused_with_the_nearest_file(tmp_path: Path) -> None:
    status, _, err = call_a2perf("compare", tmp_path)
    assert (status, "nothing recorded in" in err, "looked for manifest.json" in err) == (2, True, True)
    (tmp_path / "results.csv").write_text("step,return\n")
    assert f"nearest is the table {tmp_path}/results.csv" in call_a2perf("compare", tmp_path)[2]
    (tmp_path / "progres.csv").write_text("step,return\n")
    assert f"nearest to progress.csv is {tmp_path}/progres.csv" in call_a2perf("compare", tmp_path)[2]
