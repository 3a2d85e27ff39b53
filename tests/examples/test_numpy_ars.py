"""Augmented random search: it learns, it resumes, it logs what TensorBoard reads, and workers do not change it."""

from __future__ import annotations

import csv
import importlib
from pathlib import Path

import numpy as np
import pytest

from tests.event_logs import read_event_file

TROT = "QuadrupedLocomotion-SyntheticTrot-v0"
TINY = {"workers": "1", "directions": "2", "top": "1", "horizon": "4"}


@pytest.fixture
def train(numpy_ars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs the example's ``train`` into a folder below ``tmp_path`` and returns that folder."""
    monkeypatch.setenv("A2PERF_ENV_ID", TROT)
    monkeypatch.setenv("A2PERF_ENV_KWARGS", '{"mode": "train"}')
    monkeypatch.setenv("SEED", "3")

    def run(folder: str, **arguments: str) -> Path:
        artifacts = tmp_path / folder
        artifacts.mkdir(exist_ok=True)
        monkeypatch.setenv("A2PERF_ARTIFACTS", str(artifacts))
        importlib.import_module("train").train(**arguments)
        return artifacts

    return run


def _curve(artifacts: Path, column: str = "training_return") -> list[float]:
    with (artifacts / "progress.csv").open() as stream:
        return [float(row[column]) for row in csv.DictReader(stream) if row[column]]


@pytest.mark.slow
def test_it_learns_the_synthetic_trot(train) -> None:
    curve = _curve(train("run", iterations="14", horizon="40", inputs="91:103", diagonal="1", time_budget_s="inf"))
    assert len(curve) == 14
    # 1.15 to 1.19 for two seeds; another processor gives other digits and soon another search
    assert np.mean(curve[-3:]) > 1.05 * np.mean(curve[:3])


def test_neither_workers_nor_a_restart_change_the_result(train) -> None:
    straight = train("straight", iterations="3", **TINY)
    for iterations in ("1", "3"):
        resumed = train("resumed", iterations=iterations, **{**TINY, "workers": "2"})
    with np.load(straight / "checkpoint.npz") as one, np.load(resumed / "checkpoint.npz") as two:
        assert one["counters"].tolist() == two["counters"].tolist()
        np.testing.assert_array_equal(one["weights"], two["weights"])
    assert _curve(straight) == _curve(resumed)


def test_checkpoint_of_another_seed_is_refused(train, monkeypatch) -> None:
    train("run", iterations="1", **TINY)
    monkeypatch.setenv("SEED", "4")
    with pytest.raises(ValueError, match="another seed or environment"):
        train("run", iterations="2", **TINY)


def test_a_budget_that_is_used_up_at_once_still_leaves_a_policy(train, monkeypatch) -> None:
    artifacts = train("run", time_budget_s="0.001", **TINY)
    assert _curve(artifacts) == []
    monkeypatch.setenv("ROOT_DIR", str(artifacts))
    inference = importlib.import_module("inference")
    policy = inference.load_policy(None)
    action = inference.infer_once(policy, inference.preprocess_observation(np.zeros(160, dtype=np.float32)))
    assert action.dtype == np.float32
    np.testing.assert_array_equal(action, np.zeros(12))


def test_unknown_argument_is_refused_with_the_known_ones(train) -> None:
    with pytest.raises(ValueError, match=r"unknown arguments \['stepsize'\]; known are .*'step_size'"):
        train("run", stepsize="1")


def test_event_file_holds_the_curve_of_the_csv(train) -> None:
    artifacts = train("run", iterations="2", **TINY)
    (path,) = (artifacts / "train").glob("events.out.tfevents.*")
    found = read_event_file(path)
    assert found.problems == []
    for tag, column, count in (
        ("Metrics/AverageReturn", "average_return", 1),
        ("Training/AverageReturn", "training_return", 2),
    ):
        assert len(found.scalars[tag].values) == count
        assert found.scalars[tag].values == pytest.approx(_curve(artifacts, column), rel=1e-5)


def test_the_clock_of_the_curve_goes_on_after_a_restart(train) -> None:
    for iterations in ("1", "2"):
        artifacts = train("run", iterations=iterations, evaluate_every="1", **TINY)
    first, second = _curve(artifacts, "elapsed_s")
    assert 0 < first < second
    assert len(_curve(artifacts, "average_return")) == 2


def test_moments_merged_in_parts_are_those_of_the_whole(numpy_ars) -> None:
    moments = importlib.import_module("linear_policy").RunningMoments
    data = np.random.default_rng(0).normal(3.0, [1.0, 5.0, 0.0], size=(50, 3))
    whole, parts = moments.empty(3), moments.empty(3)
    for row in data:
        whole.add(row)
    for piece in np.split(data, [7, 30]):
        part = moments.empty(3)
        for row in piece:
            part.add(row)
        parts.merge(part)
    np.testing.assert_allclose(parts.mean, data.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(parts.deviation(0.1), [*data.std(axis=0)[:2], 0.1], rtol=1e-12)
    np.testing.assert_allclose(whole.deviation(0.1), parts.deviation(0.1), rtol=1e-12)


def test_inputs_are_read_as_ranges_and_single_entries(numpy_ars) -> None:
    settings = importlib.import_module("random_search").SearchSettings
    assert settings(inputs="0:3+7+9:11").input_indices(12).tolist() == [0, 1, 2, 7, 9, 10]
    assert settings().input_indices(4).tolist() == [0, 1, 2, 3]
