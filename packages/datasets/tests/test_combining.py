"""Combining: all episodes, costs that add up, and refusals by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from gymnasium import spaces

from a2perf.errors import UserError
from a2perf.runs.dataset_notes import Energy
from a2perf_datasets import OfflineDataset
from a2perf_datasets.combine import combine
from a2perf_datasets.inspection import describe
from a2perf_datasets.naming import DatasetId
from a2perf_datasets.records import PolicyRecord
from a2perf_datasets.validation import problems_of
from packages.datasets.tests.toys import Write


def _policy(kwh: float, training: str, checkpoint: str) -> PolicyRecord:
    return PolicyRecord(
        submission="learner",
        submission_sha256="a" * 64,
        training=training,
        checkpoint=checkpoint,
        training_energy=Energy(kwh=kwh, provenance="measured", method="rapl"),
    )


def test_episodes_and_costs_of_all_are_in_the_result(write: Write, tmp_path: Path) -> None:
    parts = [
        write("toys/a-v0", lengths=(3, 1), first_seed=10, policy=_policy(1.0, "t1", "step_1"), generation_kwh=0.5),
        write("toys/b-v0", lengths=(4,), first_seed=20, policy=_policy(3.0, "t1", "step_3"), generation_kwh=0.25),
        write("toys/c-v0", lengths=(2, 2), first_seed=30, policy=_policy(1.0, "t1", "step_1"), generation_kwh=0.25),
        write("toys/d-v0", lengths=(1,), first_seed=40, policy=_policy(2.0, "t2", "step_9"), generation_kwh=1.0),
    ]
    made = combine(parts, DatasetId.parse("toys/all-v0"), tmp_path / "datasets")
    record, data = made.record, OfflineDataset(made.folder / "data")
    assert problems_of(data) == []
    assert data.seeds.tolist() == [10, 11, 20, 30, 31, 40]
    assert data.lengths.tolist() == [3, 1, 4, 2, 2, 1]
    assert [(policy.checkpoint, policy.episodes) for policy in record.policies] == [
        ("step_1", 4),
        ("step_3", 1),
        ("step_9", 1),
    ]
    assert record.cost.training.kwh == pytest.approx(3.0 + 2.0)  # each training once, up to its latest checkpoint
    assert record.cost.generation.kwh == pytest.approx(2.0)
    assert record.cost.per_sample_kwh == pytest.approx(7.0 / 13)
    assert describe(data)["training_sample_cost_kwh"] == pytest.approx((1.0 + 3.0 + 2.0) / 3)
    assert [source.dataset_id for source in record.sources] == ["toys/a-v0", "toys/b-v0", "toys/c-v0", "toys/d-v0"]
    assert sum(source.steps for source in record.sources) == record.steps == 13
    with pytest.raises(UserError, match="the dataset toys/all-v0 already exists"):
        combine(parts, DatasetId.parse("toys/all-v0"), tmp_path / "datasets")


def test_other_environments_are_refused_by_name(write: Write, tmp_path: Path) -> None:
    one = write("toys/a-v0")
    other = write("toys/b-v0", env_id="Circles-v0", env_kwargs={"size": 3}, action=spaces.Discrete(12))
    with pytest.raises(UserError) as raised:
        combine([one, other], DatasetId.parse("toys/c-v0"), tmp_path / "datasets")
    assert "env_id is 'Boxes-v0' and 'Circles-v0'" in raised.value.message
    assert "env_kwargs is {} and {'size': 3}" in raised.value.message
    assert "action is MultiDiscrete([4 3]) in toys/a-v0 and Discrete(12) in toys/b-v0" in raised.value.message
    with pytest.raises(UserError, match="1 dataset cannot be combined"):
        combine([one], DatasetId.parse("toys/c-v0"), tmp_path / "datasets")
    (one.path / "a2perf.json").unlink()
    with pytest.raises(UserError, match="was not made by a2perf"):
        combine([OfflineDataset(one.path), one], DatasetId.parse("toys/c-v0"), tmp_path / "datasets")


def test_an_unknown_cost_stays_unknown(write: Write, tmp_path: Path) -> None:
    known, unknown = write("toys/a-v0"), write("toys/b-v0", policy=PolicyRecord(submission="found"))
    made = combine([known, unknown], DatasetId.parse("toys/c-v0"), tmp_path / "datasets")
    assert made.record.cost.training.kwh is None
    assert made.record.cost.per_sample_kwh is None
    assert (
        describe(OfflineDataset(made.folder / "data"))["training_sample_cost_kwh"] == 2.0
    )  # of the checkpoint whose energy is known
    assert made.record.cost.generation.kwh == pytest.approx(0.5)
