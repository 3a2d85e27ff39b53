"""Energy of the data: of experiments, of checkpoints and of datasets, and the skill levels."""

from __future__ import annotations

import math

import pytest

from a2perf.metrics.data_cost import checkpoint_energies, skill_levels
from a2perf.metrics.registry import score
from a2perf.runs.dataset_notes import DatasetNote
from tests.metrics.made_runs import runs_of


def _notes(*checkpoints: list[float | None]) -> list[DatasetNote]:
    return [DatasetNote(dataset_id=str(at), checkpoint_kwh=kwhs) for at, kwhs in enumerate(checkpoints)]


def test_a_checkpoint_costs_its_share_of_the_training() -> None:
    assert checkpoint_energies(2.0, [50, 100, 200]).tolist() == [0.5, 1.0, 2.0]
    assert checkpoint_energies(2.0, [0]).tolist() == [0.0]
    assert checkpoint_energies(2.0, []).size == 0


def test_sample_cost_is_the_mean_over_a_data_sets_checkpoints() -> None:
    found = score(runs_of(datasets=[_notes([0.5, 1.5], [4.0, None])]))["training_sample_cost"]
    assert found.per_run == [1.0, 4.0]
    assert found.value == 2.5
    assert found.unit == "kWh"
    assert found.notes == ["1 checkpoint(s) without energy left out"]
    assert score(runs_of(datasets=[_notes([])]))["training_sample_cost"].condition == (
        "not enough data (n=0 checkpoints, needs 1)"
    )


def test_published_bounds_of_the_skill_levels_have_this_form() -> None:
    # pace, earlier platform: novice <= 2.43, intermediate 8.34-20.15, expert >= 26.05
    middle, half = (8.34 + 20.15) / 2, (20.15 - 8.34) / 2
    two_checkpoints = [middle - half / math.sqrt(2), middle + half / math.sqrt(2)]  # of that mean and deviation
    bounds = skill_levels(two_checkpoints)
    assert bounds.intermediate_max == pytest.approx(20.15)
    assert bounds.novice_max == pytest.approx(2.43, abs=0.02)
    assert bounds.expert_min == pytest.approx(26.05, abs=0.02)
