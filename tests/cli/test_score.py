"""``a2perf score``: the same bytes each time, nothing of a domain or a participant loaded, damage stated."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from a2perf.cli.results import score
from a2perf.metrics import scores
from a2perf.metrics.scores import score_runs
from a2perf.storage import write_json
from tests.commands import run_a2perf, run_python
from tests.metrics import made_bundles


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Four seeds of one agent, trained and evaluated."""
    folder = tmp_path / "runs"
    for seed in range(4):
        made_bundles.write_train(folder / f"seed_{seed}", seed)
        made_bundles.write_inference(folder / f"seed_{seed}", seed)
    return folder


def group(document: dict, mode: str) -> dict:
    (found,) = [entry for entry in document["groups"] if entry["mode"] == mode]
    return found


def test_scores_of_four_seeds(runs: Path):
    document = score_runs([runs])
    inference, train = group(document, "inference"), group(document, "train")
    assert inference["seeds"] == train["seeds"] == [0, 1, 2, 3]
    per_run = [
        np.mean([episode["episode_return"] for episode in json.loads(path.read_text())["episodes"]])
        for path in sorted(runs.glob("*/inference/metrics/rollouts.json"))
    ]
    assert inference["scores"]["returns"]["per_run"] == pytest.approx(per_run)
    assert inference["scores"]["success_rate"]["value"] == 100.0
    assert inference["scores"]["latency_infer_once_median"]["value"] == pytest.approx(1e-3, rel=0.02)
    assert train["scores"]["wall_clock"]["value"] == pytest.approx(61.5)
    assert train["scores"]["energy_gross"]["value"] == pytest.approx(50.0 * 60 / 3.6e6, rel=0.03)
    assert train["scores"]["IqrAcrossRuns"]["n"] == 4
    assert document["runs"][0]["conditions"] == []


def test_same_input_gives_the_same_bytes_cold_warm_uncached_and_elsewhere(runs: Path, tmp_path: Path):
    outputs = []
    for name in ("cold", "warm"):
        CliRunner().invoke(score, [str(runs), "-o", str(tmp_path / name)], catch_exceptions=False)
        outputs.append((tmp_path / name / "scores.json").read_bytes())
    write_json(tmp_path / "uncached.json", score_runs([runs], cached=False))
    outputs.append((tmp_path / "uncached.json").read_bytes())
    moved = tmp_path / "elsewhere" / "runs"
    moved.parent.mkdir()
    runs.rename(moved)
    for path in moved.rglob("*"):
        os.utime(path, (1, 1))
    write_json(tmp_path / "moved.json", score_runs([moved]))
    outputs.append((tmp_path / "moved.json").read_bytes())
    assert len(set(outputs)) == 1


def test_changed_run_is_scored_anew_and_the_others_come_from_the_cache(runs: Path, monkeypatch: pytest.MonkeyPatch):
    before = score_runs([runs])
    read: list[str] = []
    real = scores.read_run
    monkeypatch.setattr(scores, "read_run", lambda run: read.append(run.label) or real(run))
    assert score_runs([runs]) == before
    assert read == []
    path = runs / "seed_2" / "inference" / "metrics" / "rollouts.json"
    content = json.loads(path.read_text())
    content["episodes"] = content["episodes"][:5]
    write_json(path, content)
    after = score_runs([runs])
    assert read == [f"seed_{seed}/inference" for seed in range(4)]
    assert group(after, "train") == group(before, "train")
    assert group(after, "inference")["scores"]["returns"] != group(before, "inference")["scores"]["returns"]


def test_a_checkout_with_changed_code_scores_again(runs: Path, tmp_path: Path):
    code = shutil.copytree(Path(scores.__file__).parents[1], tmp_path / "code" / "a2perf")
    medians = []
    for change in ("", "\ncleaned = clean\ndef clean(steps, values):\n    return cleaned(steps, values + 1)\n"):
        with (code / "metrics" / "profiles" / "curves.py").open("a") as stream:
            stream.write(change)
        run_a2perf(
            "score",
            runs,
            "-o",
            tmp_path / "o",
            cwd=tmp_path,
            check=True,
            env={**os.environ, "PYTHONPATH": str(code.parent)},
        )
        document = json.loads((tmp_path / "o" / "scores.json").read_text())
        medians.append(group(document, "train")["scores"]["MedianPerfDuringTraining"]["value"])
    assert medians[1] == pytest.approx(medians[0] + 1)


def test_scoring_loads_no_domain_and_no_code_of_a_participant(runs: Path, tmp_path: Path):
    (runs / "seed_0" / "train.py").write_text("raise RuntimeError('must not run')\n")
    code = (
        "import sys\nfrom a2perf.cli import cli\n"
        f"cli.main(['score', {str(runs)!r}, '-o', {str(tmp_path / 'o')!r}], standalone_mode=False)\n"
        "bad = [n for n in sys.modules if n.split('.')[0] in ('pybullet', 'numba', 'selenium', 'gin', 'matplotlib',"
        " 'codecarbon', 'gymnasium', 'tensorflow', 'train') or n.endswith('.environment')]\n"
        "print('LOADED', sorted(bad))\n"
    )
    done = run_python(code, check=True)
    assert "LOADED []" in done.stdout


def test_earlier_folders_are_scored_in_all_three_modes(tmp_path: Path):
    for seed in range(3):
        made_bundles.write_earlier(tmp_path / "old", seed)
    document = score_runs([tmp_path / "old"], "upstream")
    assert [entry["mode"] for entry in document["groups"]] == ["train", "inference", "generalization"]
    generalization = group(document, "generalization")["scores"]["generalization"]
    assert generalization["value"] == pytest.approx(1.5 + 3.0)  # the earlier platform sums the tasks
    tasks = group(document, "generalization")["tasks"]
    assert {task: scores["returns"]["value"] for task, scores in tasks.items()} == {"dog_trot": 1.5, "dog_spin": 3.0}
    assert group(document, "inference")["scores"]["returns"]["n"] == 3


def test_scores_lie_beside_a_bundle_and_never_inside(runs: Path):
    from a2perf.runs.bundles.inventory import hash_files

    bundle = runs / "seed_0" / "inference"
    before = hash_files(bundle)
    outcome = CliRunner().invoke(score, [str(bundle)], catch_exceptions=False)
    assert outcome.exit_code == 0
    assert (runs / "seed_0" / "scores.json").is_file()
    assert hash_files(bundle) == before


def test_several_processes_give_the_same(runs: Path, monkeypatch: pytest.MonkeyPatch):
    from a2perf.metrics import scores

    expected = score_runs([runs], cached=False)
    monkeypatch.setattr(scores, "_RUNS_WORTH_A_PROCESS", 1)
    assert score_runs([runs], cached=False, processes=2) == expected


def test_unusable_cache_only_costs_time(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    expected = score_runs([runs])
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(tmp_path / "file"))
    assert score_runs([runs]) == expected
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "scores.sqlite").write_bytes(b"not a database" * 100)
    monkeypatch.setenv("A2PERF_CACHE_DIR", str(broken))
    assert score_runs([runs]) == expected
