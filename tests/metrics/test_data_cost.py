"""Energy of the data behind a training run."""

from __future__ import annotations

from a2perf.metrics.registry import score
from a2perf.runs.dataset_notes import DatasetNote
from tests.metrics.made_runs import runs_of


def _notes(*checkpoints: list[float | None]) -> list[DatasetNote]:
    return [DatasetNote(dataset_id=str(at), checkpoint_kwh=kwhs) for at, kwhs in enumerate(checkpoints)]


def test_sample_cost_is_the_mean_over_a_data_sets_checkpoints() -> None:
    found = score(runs_of(datasets=[_notes([0.5, 1.5], [4.0, None])]))["training_sample_cost"]
    assert found.per_run == [1.0, 4.0]
    assert found.value == 2.5
    assert found.unit == "kWh"
    assert found.notes == ["1 checkpoint(s) without energy left out"]
    assert score(runs_of(datasets=[_notes([])]))["training_sample_cost"].condition == (
        "not enough data (n=0 checkpoints, needs 1)"
    )
