"""Runs are read as far as they can be read; what cannot is said, and nothing else is lost with it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest

from a2perf.errors import UserError
from a2perf.records import Failure, FailureKind, RunState
from a2perf.report.columns import read_columns
from a2perf.report.experiment import Bundle, load_experiment, plain_text
from a2perf.report.measures import find, measures
from tests.report.recorded_runs import RunMaker


def _only(runs: RunMaker) -> Bundle:
    (bundle,) = load_experiment([runs.top]).bundles
    return bundle


def test_every_number_of_a_run_has_its_value_unit_and_provenance(inference_run: RunMaker) -> None:
    found = measures(_only(inference_run))
    score = find(found, "return")
    assert score is not None
    assert (score.value, score.n) == (pytest.approx(104.8), 5)
    assert score.spread == pytest.approx(np.std([120.0, 122.0, 124.0, 118.0, 40.0]))
    energy = find(found, "energy_gross")
    assert energy is not None
    assert (energy.unit, energy.provenance, energy.method) == ("kWh", "estimated", "cpu=tdp_model:table")
    latency = find(found, "latency_infer_once_median")
    assert latency is not None
    assert latency.method is not None
    assert "infer_once only" in latency.method
    assert "participant process" in latency.method
    peak = find(found, "memory_pss_peak")
    assert peak is not None
    assert (peak.value, peak.unit, peak.provenance) == (227 * 2**20, "bytes", "measured")
    assert all(measure.quantity.unit for measure in found if measure.key.startswith(("energy", "power", "latency")))


def test_net_energy_stands_beside_gross(inference_run: RunMaker) -> None:
    found = measures(_only(inference_run))
    gross, net = find(found, "energy_gross"), find(found, "energy_net")
    assert gross is not None
    assert net is not None
    assert net.value == pytest.approx(0.8 * (gross.value or 0))


def test_bundles_are_found_at_any_depth_and_named_by_their_path(runs: RunMaker) -> None:
    runs.manifest("a/seed_1", "inference")
    runs.manifest("a/seed_2", "train")
    runs.manifest("a/seed_2", "inference")
    runs.manifest("a/seed_2/attic/old", "inference")
    keys = [bundle.key for bundle in load_experiment([runs.top]).bundles]
    assert keys == ["seed_1/inference", "seed_2/train", "seed_2/inference"]
    again = load_experiment([runs.top / "a" / "seed_2" / "inference", runs.top]).bundles
    assert [bundle.key for bundle in again] == keys


def test_a_folder_without_runs_is_an_error_that_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run in") as caught:
        load_experiment([tmp_path])
    assert "manifest.json" in (caught.value.mend or "")
    with pytest.raises(UserError, match="is not a folder"):
        load_experiment([tmp_path / "nothing"])


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
    bundle = _only(inference_run)
    assert bundle.state == "unreadable"
    assert words in " ".join(bundle.problems)
    assert find(measures(bundle), "return") is not None


def test_a_newer_schema_is_said_and_not_guessed_at(inference_run: RunMaker) -> None:
    path = inference_run.top / "gait" / "inference" / "metrics" / "latency.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 99}))
    bundle = _only(inference_run)
    assert bundle.latency is None
    assert "schema 99" in " ".join(bundle.problems)
    assert bundle.rollouts


@pytest.mark.parametrize(
    "name",
    ["rollouts.json", "latency.json", "latency.npz", "tracking.json", "system_trace.csv", "inference_emissions.csv"],
)
def test_garbage_in_one_file_costs_that_file_alone(inference_run: RunMaker, name: str) -> None:
    whole = {measure.key for measure in measures(_only(inference_run))}
    (inference_run.top / "gait" / "inference" / "metrics" / name).write_bytes(b"\x00\xff{{{garbage\x80")
    bundle = _only(inference_run)
    assert [problem for problem in bundle.problems if problem.startswith(f"metrics/{name} could not be read")]
    lost = whole - {measure.key for measure in measures(bundle)}
    starts = {"rollouts.json": ("return", "episode"), "latency.json": ("latency",)}
    if name == "tracking.json":  # the emissions CSV still has the energy
        assert "energy_gross" not in lost
    else:
        assert all(key.startswith(starts.get(name, ())) for key in lost)


def test_a_killed_run_shows_the_episodes_of_its_journal(runs: RunMaker) -> None:
    runs.manifest("killed", "inference", state=RunState.RUNNING)
    runs.rollouts("killed", [90.0, 110.0])
    folder = runs.top / "killed" / "inference"
    record = json.loads((folder / "metrics" / "rollouts.json").read_text())
    (folder / "metrics" / "rollouts.json").unlink()
    lines = [json.dumps({"kind": "episode", "episode": episode}) for episode in record["episodes"]]
    (folder / "journal.jsonl").write_text("\n".join(lines) + '\n{"kind": "epi')
    bundle = _only(runs)
    assert bundle.state == "unfinished"
    score = find(measures(bundle), "return")
    assert score is not None
    assert (score.value, score.n) == (100.0, 2)
    assert "2 episode(s) are from the journal" in " ".join(bundle.problems)


def test_energy_of_a_killed_run_comes_from_its_csv_each_attempt_counted_once(runs: RunMaker) -> None:
    runs.manifest("killed", "train", state=RunState.RUNNING)
    folder = runs.top / "killed" / "train" / "metrics"
    folder.mkdir()
    (folder / "train_emissions.csv").write_text(
        "run_id,energy_consumed,emissions,method,quality\n"
        "r1,0.1,0.01,rapl,measured\nr1,0.3,0.03,rapl,measured\nr2,0.2,0.02,rapl,measured\nr2,0.25,0.0"
    )
    bundle = _only(runs)
    energy = find(measures(bundle), "energy_gross")
    assert energy is not None
    assert (energy.value, energy.provenance, energy.method) == (pytest.approx(0.5), "measured", "rapl")
    assert "1 row(s) with a wrong number of cells left out" in " ".join(bundle.problems)


def test_tasks_of_a_generalization_run_are_reported_one_by_one(runs: RunMaker) -> None:
    runs.manifest("all", "generalization", env_id=None, task="all")
    runs.rollouts("all", [10.0, 20.0], mode="generalization", task="dog_pace")
    runs.rollouts("all", [30.0, 30.0], mode="generalization", task="dog_trot")
    failure = Failure(kind=FailureKind.TIMEOUT, where="infer_once (call 5)", message="no answer in 10 s")
    outcome = {"task": "dog_spin", "episodes": 0, "mean_return": None, "failure": msgspec.to_builtins(failure)}
    folder = runs.top / "all" / "generalization" / "metrics" / "tasks" / "dog_spin"
    folder.mkdir()
    (folder / "outcome.json").write_text(json.dumps(outcome))
    bundle = _only(runs)
    found = measures(bundle)
    by_task = {measure.task: measure.quantity.value for measure in found if measure.key == "return"}
    assert by_task == {"dog_pace": 15.0, "dog_trot": 30.0}
    overall = find(found, "return_over_tasks")
    assert overall is not None
    assert (overall.value, overall.n) == (22.5, 2)
    assert bundle.task_failures["dog_spin"].kind is FailureKind.TIMEOUT


def test_curves_are_read_from_regular_files_only(runs: RunMaker, tmp_path: Path) -> None:
    runs.training("ars")
    logs = runs.top / "ars" / "train" / "artifacts" / "logs"
    secret = tmp_path / "progress.csv"
    secret.write_text("steps,return\n1,1\n2,2\n")
    (logs / "stolen").mkdir()
    (logs / "stolen" / "progress.csv").symlink_to(secret)
    (logs / "elsewhere").symlink_to(tmp_path)
    (logs / "pipe").mkdir()
    os.mkfifo(logs / "pipe" / "progress.csv")
    (curve,) = _only(runs).curves
    assert curve.name == "logs/progress.csv"
    assert (curve.step_name, curve.value_name) == ("env_steps", "mean_return")
    assert curve.steps[[0, -1]].tolist() == [4800.0, 288_000.0]


def test_the_log_of_a_failure_is_taken_from_inside_the_bundle_alone(runs: RunMaker, tmp_path: Path) -> None:
    (tmp_path / "outside.log").write_text("secret")
    failure = Failure(kind=FailureKind.EXIT, where="train", message="m", log="../../../outside.log")
    runs.failed("a", failure)
    runs.failed("b", msgspec.structs.replace(failure, log="logs/participant.log"), log="\x1b[31mred\x1b[0m\a\nlast")
    first, second = load_experiment([runs.top]).bundles
    assert first.log_tail == ""
    assert second.log_tail == "red\nlast"


def test_words_of_strangers_lose_what_could_move_or_hide_text() -> None:
    assert plain_text("a\x1b]0;title\x07b\u202ec\x00\r\nd\tü") == "abc\nd\tü"
    assert plain_text(os.fsdecode(b"caf\xe9")) == "caf?"


def test_columns_with_gaps_repeated_headers_and_words(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,word,rare\n1,,x,\n\na,b,word,rare\n2,oops,y,\n3,4,z,end\n")
    columns = read_columns(path)
    assert columns.numbers["a"].tolist() == [1, 2, 3]
    assert columns.word("rare") == "end"
    assert np.isnan(columns.numbers["b"]).tolist() == [True, True, False]
    assert columns.word("word") == "x, y, z"
    assert columns.problems == ("1 repeated header line(s) left out", "1 cell(s) of column b are no numbers")
    path.write_text("")
    with pytest.raises(ValueError, match="no header line"):
        read_columns(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="larger than"):
        read_columns(path, max_bytes=4)


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
    assert [measure.task for measure in gross] == [None, "dog_pace", "dog_trot"]
    total, *parts = (measure.quantity.value for measure in gross)
    assert total == pytest.approx(sum(part or 0 for part in parts))
    assert gross[0].quantity.provenance == "estimated"
    peak = find(found, "memory_rss_peak")
    assert peak is not None
    assert (peak.value, peak.method) == (290 * 2**20, "highest of the tasks")
