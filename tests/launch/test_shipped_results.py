"""The shipped results are whole: every bundle is sound, every score follows from its episodes, nobody is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from a2perf.metrics import protocol as protocols
from a2perf.metrics.scores import score_runs
from a2perf.metrics.submitted import Submitted, submitted_of
from a2perf.records import Manifest, RolloutResults, RunState
from a2perf.runs.bundle import validate
from a2perf.storage import read_record, sha256_of

SHIPPED = Path(__file__).resolve().parents[2] / "results" / "recorded"
FOLDERS = sorted(path.parent for path in SHIPPED.glob("*/*/protocol.json"))
each_submission = pytest.mark.parametrize("folder", FOLDERS, ids=["-".join(path.parts[-2:]) for path in FOLDERS])
NO_MARK = "not recorded"


def test_every_folder_has_rivals_and_learning_has_curves() -> None:
    rivals: dict[str, set[str]] = {}
    for folder in FOLDERS:
        rivals.setdefault(folder.parent.name, set()).add(folder.name)
    assert set(rivals) == {"circuit_training", "web_navigation", "quadruped_locomotion", "learning", "small"}
    assert all(len(names) >= 2 for names in rivals.values())
    curves = list(SHIPPED.glob("learning/numpy_ars/synthetic_trot/seed_*/train/artifacts/progress.csv"))
    assert len(curves) == 5


def test_they_are_small() -> None:
    assert sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()) < 16_000_000


@each_submission
def test_bundles_are_sound_and_name_no_machine(folder: Path) -> None:
    record = read_record(folder / "protocol.json", Submitted)
    assert record.complete
    for run in record.runs:
        bundle = folder / run.path
        assert validate(bundle) == []
        manifest = read_record(bundle / "manifest.json", Manifest)
        assert manifest.state is RunState.FINISHED
        assert {(attempt.host, attempt.boot_id) for attempt in manifest.attempts} == {(NO_MARK, NO_MARK)}
        assert "hostname" not in manifest.host
        assert manifest.submission.path == f"examples/{folder.name.partition('-')[0]}"
        assert submitted_of(bundle) == record
    assert not [path for path in folder.rglob("*") if path.is_file() and b"/home/" in path.read_bytes()]


@each_submission
def test_scores_follow_from_episodes_and_stored_references(folder: Path) -> None:
    record = read_record(folder / "protocol.json", Submitted)
    protocol = protocols.load(record.protocol)
    assert record.protocol_sha256 == protocols.sha256(record.protocol)
    for run in record.runs:
        assert run.manifest_sha256 == sha256_of(folder / run.path / "manifest.json")
        if run.mode == "inference":
            results = read_record(folder / run.path / "metrics" / "rollouts.json", RolloutResults)
            mean = float(np.mean([episode.episode_return for episode in results.episodes]))
            assert run.mean_return == pytest.approx(mean, abs=1e-12)
            assert run.normalised == pytest.approx(float(protocol.task(run.task).normalise(mean)), abs=1e-12)
    assert record.rankable is not record.quick
    assert record.citation in (folder / "summary.md").read_text(encoding="utf-8")


def test_rivals_stand_where_they_should() -> None:
    def iqm(name: str) -> float:
        value = read_record(SHIPPED / name / "protocol.json", Submitted).overall.iqm
        assert value is not None
        return value

    for domain in ("circuit_training", "web_navigation", "quadruped_locomotion", "learning"):
        assert iqm(f"{domain}/minimal") == pytest.approx(0.0, abs=0.1)
    assert iqm("circuit_training/minimal") < iqm("circuit_training/greedy_placer")
    assert iqm("circuit_training/greedy_placer") < iqm("circuit_training/annealing_placer")
    assert iqm("web_navigation/web_solver") == pytest.approx(1.0, abs=0.01)
    assert iqm("quadruped_locomotion/motion_imitation") == pytest.approx(1.0, abs=0.1)
    assert iqm("learning/numpy_ars") > 0.2
    assert iqm("small/minimal") == pytest.approx(0.0, abs=0.1)
    assert iqm("small/motion_imitation") == pytest.approx(1.0, abs=0.1)
    assert iqm("small/greedy_placer") < iqm("small/annealing_placer")


def test_they_score_without_any_damage() -> None:
    document = score_runs([SHIPPED / "learning"], cached=False)
    assert {group["algorithm"] for group in document["groups"]} == {"minimal", "numpy_ars"}
    assert [run["conditions"] for run in document["runs"] if run["conditions"]] == []
