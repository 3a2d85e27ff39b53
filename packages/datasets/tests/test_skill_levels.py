"""Skill levels: the rules, what is said of an empty level, and the whole way from a training to a trained clone."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a2perf.errors import UserError
from a2perf.metrics import protocol
from a2perf.runs.dataset_notes import Energy
from a2perf.storage import write_json, write_record
from a2perf_datasets import open_dataset
from a2perf_datasets.checkpoints import find_checkpoints, find_trainings
from a2perf_datasets.skill_levels import CheckpointEvaluation, EvaluationRecord, bounds_by, cut
from tests.commands import run_a2perf
from tests.made_submissions import policy, write_submission
from tests.metrics import made_bundles


def evaluation(means: list[float], **fields: Any) -> EvaluationRecord:
    """Returns an evaluation of checkpoints with these mean returns."""
    checkpoints = [
        CheckpointEvaluation(
            training_name="trot/seed_0",
            training="t",
            path=f"step_{place}",
            root_dir="",
            participant_args={},
            checkpoint_number=place,
            mean=mean,
            std=0.0,
            min=mean,
            max=mean,
            median=mean + 1,
            count=2,
            rollout_returns=[mean, mean],
            total_training_energy=Energy(kwh=1.0, provenance="measured"),
            training_energy=Energy(kwh=0.1 * place, provenance="measured"),
        )
        for place, mean in enumerate(means)
    ]
    known = {
        "submission": "s",
        "submission_sha256": "",
        "domain": "quadruped_locomotion",
        "task": "synthetic_trot",
        "env_id": "QuadrupedLocomotion-SyntheticTrot-v0",
        "env_kwargs": {},
        "episodes": 2,
        "seed": 0,
    }
    return EvaluationRecord(**{**known, **fields}, evaluation_energy=Energy(), checkpoints=checkpoints)


def test_checkpoints_of_all_trainings_are_cut_together() -> None:
    one, other = [0.0, *[50.0] * 14], [100.0, *[50.0] * 14, 73.0]
    found = cut([evaluation(one), evaluation(other)])
    values = np.array(one + other)
    assert found.bounds.novice_max == pytest.approx(values.mean() - 2 * values.std(ddof=1))
    assert found.counts == {"novice": 1, "intermediate": 28, "expert": 1, "discarded": 1}
    assert [checkpoint.mean for checkpoint in found.of("expert")] == [100.0]
    assert [checkpoint.mean for checkpoint in found.checkpoints if checkpoint.level is None] == [73.0]
    assert found.remarks == []
    with pytest.raises(UserError, match="differ in env_kwargs"):
        cut([evaluation(one), evaluation(other, env_kwargs={"mode": "train"})])


def test_an_empty_level_is_refused_with_what_other_rules_would_give() -> None:
    found = cut([evaluation([10.0, 20.0, 220.0, 230.0])])
    assert found.counts["expert"] == 0
    assert any("no checkpoint is expert" in remark for remark in found.remarks)
    with pytest.raises(UserError) as raised:
        found.of("expert")
    assert "the returns are 10 to 230" in raised.value.message
    task = protocol.load("v1").task("synthetic_trot")
    low, high = task.reference("random").mean, task.reference("expert").mean
    bound = low + 0.9 * (high - low)
    assert f"`--thresholds references` gives 2 (at least {bound:.4g})" in str(raised.value.hint)
    assert "`--thresholds quantiles` gives 1" in str(raised.value.hint)
    by_references = cut([evaluation([10.0, 20.0, 220.0, 230.0])], rule="references")
    assert [checkpoint.mean for checkpoint in by_references.of("expert")] == [220.0, 230.0]
    assert [checkpoint.mean for checkpoint in by_references.of("novice")] == [10.0, 20.0]
    with pytest.raises(UserError, match="no checkpoint is intermediate by the rule 'references'"):
        by_references.of("intermediate")
    with pytest.raises(UserError, match="has no reference scores"):
        cut([evaluation([1.0, 2.0], task="own")], rule="references")
    with pytest.raises(UserError, match=r"cannot be assigned: not enough data \(n=1"):
        cut([evaluation([1.0])])


def test_published_bounds_of_the_skill_levels_have_this_form() -> None:
    # pace, earlier platform: novice <= 2.43, intermediate 8.34-20.15, expert >= 26.05
    middle, half = (8.34 + 20.15) / 2, (20.15 - 8.34) / 2
    two_checkpoints = [middle - half / math.sqrt(2), middle + half / math.sqrt(2)]  # of that mean and deviation
    bounds = bounds_by("sigma", two_checkpoints, "dog_pace", "")
    assert bounds.intermediate_max == pytest.approx(20.15)
    assert bounds.novice_max == pytest.approx(2.43, abs=0.02)
    assert bounds.expert_min == pytest.approx(26.05, abs=0.02)


def test_the_median_can_be_cut_instead() -> None:
    found = cut([evaluation([1.0, 2.0, 3.0])], measure="median")
    assert (found.bounds.intermediate_min, found.bounds.intermediate_max) == pytest.approx((2.0, 4.0))


TRAIN = """
import os, json, time
from pathlib import Path

def train(**kwargs):
    began = time.monotonic()
    for step in (10, 20, 30, 40):
        folder = Path(os.environ["A2PERF_ARTIFACTS"]) / "checkpoints" / f"step_{step}"
        folder.mkdir(parents=True)
        (folder / "policy.json").write_text(json.dumps({"part": step / 40}))
    while time.monotonic() - began < 1.0:
        sum(range(10000))
"""
INFERENCE = policy(
    top="import os, json\nfrom pathlib import Path",
    load='return json.loads((Path(os.environ["ROOT_DIR"]) / "policy.json").read_text())["part"]',
    infer='allowed = np.flatnonzero(observation["mask"])\nreturn int(allowed[int(policy * (len(allowed) - 1))])',
)
CLONE = """
import os, json
from pathlib import Path
from a2perf_datasets import open_dataset

def train(dataset, **kwargs):
    found = open_dataset(dataset).transitions(keys=["current_node"])
    (Path(os.environ["A2PERF_ARTIFACTS"]) / "seen.json").write_text(json.dumps(found.actions.tolist()))
"""


def _a2perf(*arguments: object) -> str:
    done = run_a2perf(*arguments, cwd=Path.cwd())
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_from_a_training_over_levels_to_a_clone_with_its_data_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gin = tmp_path / "train.gin"
    gin.write_text(
        "import a2perf.submission.submission_util\nSubmission.mode = 'train'\nSubmission.domain = 'circuit_training'\n"
    )
    learner = write_submission(tmp_path / "learner", INFERENCE, TRAIN)
    _a2perf(
        "run",
        "--submission",
        learner,
        "--gin-config",
        gin,
        "--root-dir",
        tmp_path / "learnt",
        "--task",
        "toy_macro_stdcell",
    )
    (training,) = find_trainings([tmp_path / "learnt"])
    checkpoints, remarks = find_checkpoints(training)
    assert [checkpoint.number for checkpoint in checkpoints] == [10, 20, 30, 40]
    assert remarks == []
    assert training.energy.kwh is not None
    assert [checkpoint.training_energy.kwh for checkpoint in checkpoints] == pytest.approx(
        [training.energy.kwh * share for share in (0.25, 0.5, 0.75, 1.0)]
    )
    levels_file = tmp_path / "levels.json"
    levels = json.loads(
        _a2perf(
            "datasets",
            "skill-levels",
            tmp_path / "learnt",
            "--episodes",
            2,
            "--thresholds",
            "quantiles",
            "-o",
            levels_file,
            "--json",
        )
    )
    assert levels["counts"]["expert"] == levels["counts"]["novice"] == 1
    stored = json.loads((tmp_path / "learnt" / "checkpoint_evaluation" / "evaluation.json").read_text())
    assert [entry["count"] for entry in stored["checkpoints"]] == [2] * 4
    assert all(entry["min"] == entry["mean"] == entry["max"] for entry in stored["checkpoints"])  # as the mask goes
    assert stored["env_kwargs"] == {"is_eval": False}
    best = max(stored["checkpoints"], key=lambda entry: entry["mean"])

    root = tmp_path / "datasets"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(root))
    _a2perf("datasets", "generate", "--skill-levels", levels_file, "--level", "expert", "--episodes", 5)
    data = open_dataset("circuit_training/toy_macro_stdcell/expert-v0", root)
    assert data.returns == pytest.approx([best["mean"]] * 5)
    assert data.record["skill_level"] == "expert"
    assert data.record["thresholds"]["rule"] == "quantiles"
    (played,) = data.record["policies"]
    assert played["checkpoint"] == best["path"]
    assert played["training_energy"]["kwh"] == pytest.approx(best["training_energy"]["kwh"])
    cost = data.record["cost"]
    assert cost["per_sample_kwh"] == pytest.approx(
        (cost["generation"]["kwh"] + played["training_energy"]["kwh"]) / data.step_count
    )

    clone = write_submission(tmp_path / "clone", INFERENCE, CLONE)
    _a2perf(
        "run",
        "--submission",
        clone,
        "--gin-config",
        gin,
        "--root-dir",
        tmp_path / "cloned",
        "--task",
        "toy_macro_stdcell",
        "--datasets-path",
        root,
        "--participant-args",
        "dataset=circuit_training/toy_macro_stdcell/expert-v0",
    )
    seen = json.loads((tmp_path / "cloned" / "train" / "artifacts" / "seen.json").read_text())
    assert seen == data.transitions().actions.tolist()
    scores = json.loads(_a2perf("score", tmp_path / "cloned", "--json"))["groups"][0]["scores"]
    assert scores["training_sample_cost"]["value"] == pytest.approx(played["training_energy"]["kwh"])
    assert scores["data_energy"]["value"] == pytest.approx(cost["per_sample_kwh"] * data.step_count)
    assert scores["data_energy"]["n"] == 1


def _trained(root: Path, *files: str) -> Path:
    """Leaves a finished training that took 2 kWh, with these files among its artifacts."""
    write_record(root / "train" / "manifest.json", made_bundles.manifest("train", 0))
    write_json(root / "train" / "metrics" / "tracking.json", {"energy": {"gross_kwh": 2.0, "quality": "measured"}})
    for name in ("policy.npz", *files):
        path = root / "train" / "artifacts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return root


@pytest.mark.parametrize(
    ("files", "arguments", "energies"),
    [
        (
            ["policies/checkpoints/policy_checkpoint_0000000500/x", "policies/checkpoints/policy_checkpoint_1000/x"],
            [{"checkpoint": "500"}, {"checkpoint": "1000"}],
            [1.0, 2.0],
        ),
        (["policies/checkpoints/policy_checkpoint_0000000000/x"], [{"checkpoint": "0"}], [2.0]),
        (
            ["checkpoints/ppo_20.zip", "checkpoints/ppo_5.zip"],
            [{"file": "checkpoints/ppo_5.zip"}, {"file": "checkpoints/ppo_20.zip"}],
            [0.5, 2.0],
        ),
        (["checkpoints/at_4/policy.npz", "checkpoints/at_8/policy.npz"], [{}, {}], [1.0, 2.0]),
        ([], [{}], [2.0]),
    ],
)
def test_checkpoints_are_found_with_their_share_of_the_energy(
    tmp_path: Path, files: list[str], arguments: list[dict[str, str]], energies: list[float]
) -> None:
    (training,) = find_trainings([_trained(tmp_path / "seed_0", *files)])
    found, remarks = find_checkpoints(training)
    assert [checkpoint.participant_args for checkpoint in found] == arguments
    assert [checkpoint.training_energy.kwh for checkpoint in found] == energies
    assert {checkpoint.training_energy.provenance for checkpoint in found} == {"measured"}
    assert bool(remarks) == (not files)
    folders = [Path(checkpoint.root_dir) for checkpoint in found if not checkpoint.participant_args]
    assert all((folder / "policy.npz").is_file() for folder in folders)


def test_checkpoints_are_found_by_a_pattern(tmp_path: Path) -> None:
    _trained(tmp_path / "runs" / "seed_0", "weights/at_3.npz", "weights/at_12.npz")
    _trained(tmp_path / "runs" / "seed_1")
    one, other = find_trainings([tmp_path / "runs", tmp_path / "runs" / "seed_1"])
    found, _ = find_checkpoints(one, "weights/*.npz", "weights")
    assert [checkpoint.participant_args for checkpoint in found] == [
        {"weights": "weights/at_3.npz"},
        {"weights": "weights/at_12.npz"},
    ]
    with pytest.raises(UserError, match=r"nothing in .* matches 'weights/\*\.npz'(?s:.*)these files: policy\.npz"):
        find_checkpoints(other, "weights/*.npz")
    with pytest.raises(UserError, match="contains no training run"):
        find_trainings([tmp_path / "runs" / "seed_0" / "train"])
