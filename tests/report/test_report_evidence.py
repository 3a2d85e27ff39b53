"""Runs are read as far as they can be read; what cannot is said, and nothing else is lost with it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest

from a2perf.records import Failure, FailureKind, RunState
from a2perf.report import write_report
from a2perf.report.run_numbers import Measure
from a2perf.report.run_numbers import find as find_quantity
from a2perf.report.run_numbers import measures as measures_of
from a2perf.report.run_sections import uncertainty_table
from a2perf.report.tables import Quantity
from a2perf.runs import Run, read_runs
from tests.report.recorded_runs import RunMaker


def _only(runs: RunMaker) -> Run:
    (run,) = read_runs([runs.top])
    return run


def measures(run: Run) -> list[Measure]:
    return measures_of(run, "corrected")


def find(found: list[Measure], key: str) -> Quantity:
    quantity = find_quantity(found, key)
    assert quantity is not None, key
    return quantity


def test_every_number_of_a_run_has_its_value_unit_and_provenance(inference_run: RunMaker) -> None:
    found = measures(_only(inference_run))
    score = find(found, "returns")
    assert (score.value, score.n) == (pytest.approx(104.8), 5)
    assert score.spread == pytest.approx(np.std([120.0, 122.0, 124.0, 118.0, 40.0], ddof=1))
    energy = find(found, "energy_gross")
    assert (energy.unit, energy.provenance, energy.method) == ("kWh", "estimated", "cpu=tdp_model:table")
    assert find(found, "energy_net").value == pytest.approx(0.8 * (energy.value or 0))
    latency = find(found, "latency_infer_once_median")
    assert latency.method is not None
    assert "infer_once only" in latency.method
    assert "participant process" in latency.method
    peak = find(found, "memory_pss_peak")
    assert (peak.value, peak.unit, peak.provenance) == (227 * 2**20, "bytes", "measured")
    assert all(measure.quantity.unit for measure in found if measure.key.startswith(("energy", "power", "latency")))


def test_roots_of_one_name_are_told_apart_by_their_folders(runs: RunMaker) -> None:
    runs.manifest("a/seed_1", "train")
    runs.manifest("b/seed_1", "inference")
    keys = [run.key for run in read_runs([runs.top / "a" / "seed_1", runs.top / "b" / "seed_1"])]
    assert keys == ["a/seed_1/train", "b/seed_1/inference"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "manifest.json could not be read"),
        (b'{"schema": 1}', "missing required field"),
        (b"\xff\xfe\x00", "manifest.json could not be read"),
        (None, "manifest.json is missing"),
    ],
)
def test_a_broken_manifest_leaves_the_measurements_readable(
    inference_run: RunMaker, content: bytes | None, words: str
) -> None:
    folder = inference_run.top / "gait" / "inference"
    (folder / "logs").mkdir()
    path = folder / "manifest.json"
    path.unlink() if content is None else path.write_bytes(content)
    run = _only(inference_run)
    assert run.state == "unreadable"
    assert words in " ".join(run.conditions)
    assert find(measures(run), "returns")


def test_energy_of_a_killed_run_comes_from_its_csv_each_attempt_counted_once(runs: RunMaker) -> None:
    runs.manifest("killed", "train", state=RunState.RUNNING)
    folder = runs.top / "killed" / "train" / "metrics"
    folder.mkdir()
    (folder / "train_emissions.csv").write_text(
        "run_id,energy_consumed,emissions,method,quality\n"
        "r1,0.1,0.01,rapl,measured\nr1,0.3,0.03,rapl,measured\nr2,0.2,0.02,rapl,measured\nr2,0.25,0.0"
    )
    run = _only(runs)
    energy = find(measures(run), "energy_gross")
    assert (energy.value, energy.provenance, energy.method) == (pytest.approx(0.5), "measured", "rapl")
    assert "1 row(s) with a wrong number of cells left out" in " ".join(run.conditions)


def test_tasks_of_a_generalization_run_are_reported_one_by_one(runs: RunMaker) -> None:
    runs.manifest("all", "generalization", env_id=None, task="all")
    runs.rollouts("all", [10.0, 20.0], mode="generalization", task="dog_pace")
    runs.rollouts("all", [30.0, 30.0], mode="generalization", task="dog_trot")
    failure = Failure(kind=FailureKind.TIMEOUT, where="infer_once (call 5)", message="no answer in 10 s")
    outcome = {"task": "dog_spin", "episodes": 0, "mean_return": None, "failure": msgspec.to_builtins(failure)}
    folder = runs.top / "all" / "generalization" / "metrics" / "tasks" / "dog_spin"
    folder.mkdir()
    (folder / "outcome.json").write_text(json.dumps(outcome))
    run = _only(runs)
    found = measures(run)
    by_task = {measure.task: measure.quantity.value for measure in found if measure.key == "returns"}
    assert by_task == {"dog_pace": 15.0, "dog_trot": 30.0}
    overall = find(found, "generalization")
    assert overall.value == 22.5
    assert run.details.task_failures["dog_spin"].kind is FailureKind.TIMEOUT


def test_pictures_are_taken_from_regular_files_only(inference_run: RunMaker, tmp_path: Path) -> None:
    media = inference_run.top / "gait" / "inference" / "media"
    (tmp_path / "secret.png").write_bytes(b"png")
    (media / "stolen.png").symlink_to(tmp_path / "secret.png")
    os.mkfifo(media / "pipe.png")
    assert [media.name for media in _only(inference_run).details.media] == ["media/episode_000.png"]


@pytest.mark.parametrize("states", ["[[1e300]]", "[[NaN]]", "[]", "{", "[[0.5], [0.5, 1]]", f"[{[0.1] * 19}, [1]]"])
def test_states_that_cannot_be_drawn_are_a_caption(inference_run: RunMaker, tmp_path: Path, states: str) -> None:
    (inference_run.top / "gait" / "inference" / "media" / "episode_001.states").write_text(states)
    page = write_report(read_runs([inference_run.top]), tmp_path / "out").page.read_text()
    assert "no picture of episode 001: " in page


def test_the_log_of_a_failure_is_taken_from_inside_the_bundle_alone(runs: RunMaker, tmp_path: Path) -> None:
    (tmp_path / "outside.log").write_text("secret")
    failure = Failure(kind=FailureKind.EXIT, where="train", message="m", log="../../../outside.log")
    runs.failed("a", failure)
    runs.failed("b", msgspec.structs.replace(failure, log="logs/participant.log"), log="\x1b[31mred\x1b[0m\a\nlast")
    first, second = read_runs([runs.top])
    assert first.details.log_tail == ""
    assert second.details.log_tail == "red\nlast"


def test_costs_of_a_generalization_run_are_summed_over_its_tasks(runs: RunMaker) -> None:
    runs.manifest("all", "generalization", env_id=None, task="all")
    runs.costs("all", "generalization")
    metrics = runs.top / "all" / "generalization" / "metrics"
    one = (metrics / "tracking.json").read_text()
    (metrics / "tracking.json").unlink()
    for task in ("dog_pace", "dog_trot"):
        (metrics / "tasks" / task).mkdir(parents=True)
        (metrics / "tasks" / task / "tracking.json").write_text(one)
    found = measures(_only(runs))
    gross = [measure for measure in found if measure.key == "energy_gross"]
    assert sorted(str(measure.task) for measure in gross) == ["None", "dog_pace", "dog_trot"]
    total, *parts = (measure.quantity.value for measure in gross)
    assert total == pytest.approx(sum(part or 0 for part in parts))
    assert gross[0].quantity.provenance == "estimated"
    peak = find(found, "memory_rss_peak")
    assert peak.value == 290 * 2**20


def test_contributions_to_the_uncertainty_of_energy_are_a_table(inference_run: RunMaker) -> None:
    run = _only(inference_run)
    table = uncertainty_table(run)
    assert table is not None
    gross = next(row for row in table.rows if row[0].text == "total, gross")  # type: ignore[union-attr]
    value, *causes = [cell for cell in gross[1:] if isinstance(cell, Quantity)]
    assert value.spread == pytest.approx(2 * sum((cause.value or 0.0) ** 2 for cause in causes) ** 0.5)
    assert [cause.value == 0 for cause in causes] == [True, False, True, False]
    energy = find(measures(run), "energy_gross")
    assert energy.spread == pytest.approx(value.spread)
    assert energy.spread_kind == "expanded uncertainty of the measurement, k = 2"
