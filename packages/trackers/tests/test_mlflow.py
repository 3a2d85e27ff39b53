"""The export to MLflow, read back with MLflow's own client from a local store."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a2perf.cli import main
from a2perf.errors import UserError
from a2perf.runs.run import Run, RunIdentity
from a2perf_trackers import mlflow
from packages.trackers.tests.described_runs import (
    LEARNED,
    descriptions,
    difficult,
    manifest,
    of_several_modes,
    shipped,
)

pytest.importorskip("mlflow")
DATABASE = pytest.mark.skipif(
    importlib.util.find_spec("alembic") is None, reason="mlflow-skinny has no database: no alembic and sqlalchemy"
)


def log_runs(*given: Any, **settings: Any) -> list[str]:
    return [exported.run_id for exported in mlflow.log_runs(*given, **settings)]


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")  # no network in tests
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    yield
    assert "MLFLOW_ALLOW_FILE_STORE" not in os.environ


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "mlruns")


@pytest.fixture(params=["folder", pytest.param("database", marks=DATABASE)])
def each_uri(request: pytest.FixtureRequest, tmp_path: Path, uri: str) -> str:
    return uri if request.param == "folder" else f"sqlite:///{tmp_path}/mlflow.db"


def client(uri: str) -> Any:
    from mlflow.tracking import MlflowClient

    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    try:
        made = MlflowClient(tracking_uri=uri)
        made.search_experiments()  # opens the store
    finally:
        del os.environ["MLFLOW_ALLOW_FILE_STORE"]
    return made


def history(uri: str, run_id: str, name: str) -> list[Any]:
    return sorted(client(uri).get_metric_history(run_id, name), key=lambda point: (point.step, point.timestamp))


def assert_equal(uri: str, runs: Sequence[Run], run_ids: Sequence[str]) -> int:
    """Compares every point of every series and every number bit by bit; returns how many."""
    compared = 0
    is_database = uri.startswith("sqlite")
    for described, run_id in zip(descriptions(runs), run_ids, strict=True):
        for series in described.series:
            read = history(uri, run_id, series.name)
            order = np.lexsort((series.times_s, series.steps))
            assert [point.step for point in read] == series.steps[order].tolist()
            moments = np.rint(1000 * series.times_s[order]).astype(int)
            assert [point.timestamp for point in read] == moments.tolist()
            expected = np.nan_to_num(series.values, nan=math.nan) if is_database else series.values
            np.testing.assert_array_equal([point.value for point in read], expected[order])
            compared += len(read)
        for name, value in described.values().items():
            (point,) = history(uri, run_id, name)
            assert (point.value, point.step) == (value, 0), name
            compared += 1
    return compared


def test_every_point_and_number_reads_back_bit_for_bit(each_uri: str) -> None:
    runs = shipped()
    assert assert_equal(each_uri, runs, log_runs(runs, tracking_uri=each_uri)) > 500


def test_strange_names_and_values_read_back_equal(each_uri: str) -> None:
    run = difficult()
    (run_id,) = log_runs(run, tracking_uri=each_uri)
    assert assert_equal(each_uri, [run], [run_id]) >= 6
    several = of_several_modes()
    assert assert_equal(each_uri, [several], log_runs(several, tracking_uri=each_uri)) > 10
    assert client(each_uri).get_run(run_id).info.run_name == "pp/o 🤖 <b> täsk/1:* train"


def test_parameters_tags_times_and_state_are_those_of_the_run(uri: str) -> None:
    train = shipped()[0]
    good, bad = log_runs([train, difficult()], tracking_uri=uri)
    (described, failed) = descriptions([train, difficult()])
    read = client(uri).get_run(good)
    assert read.data.params == {name: str(value) for name, value in described.params.items()}
    assert read.info.status == "FINISHED"
    assert described.started_s is not None
    assert described.ended_s is not None
    assert (read.info.start_time, read.info.end_time) == (
        round(1000 * described.started_s),
        round(1000 * described.ended_s),
    )
    tags = read.data.tags
    assert tags["mlflow.note.content"] == described.summary()
    assert json.loads(tags["a2perf.units"])["score/energy_gross"] == "kWh"
    assert json.loads(tags["a2perf.provenance"])["score/energy_gross"] == "estimated"
    assert described.tags.items() <= tags.items()
    assert client(uri).get_run(bad).info.status == "FAILED"
    assert client(uri).get_run(bad).data.params == {name: str(value) for name, value in failed.params.items()}


def test_long_values_and_names_fit_the_limits_of_mlflow(each_uri: str) -> None:
    wide = manifest(None)
    wide.participant_args = {f"argument_{index}": "v" * 7000 for index in range(101)} | {"n" * 400: "1"}
    run = replace(difficult("a" * 600), manifest=wide, conditions=["long " * 300] * 30)
    (run_id,) = log_runs(run, tracking_uri=each_uri)
    params = client(each_uri).get_run(run_id).data.params
    assert len(params["arg.argument_100"]) == 6000
    assert params["arg.argument_100"].endswith("...")
    assert sum(name.startswith("arg.nnn") for name in params) == 1
    assert len(params) == len(descriptions([run])[0].params)


def test_second_export_skips_and_one_run_given_twice_is_logged_once(uri: str) -> None:
    first = mlflow.log_runs([LEARNED, LEARNED], tracking_uri=uri)
    assert len({exported.run_id for exported in first}) == 10
    again = mlflow.log_runs(LEARNED, tracking_uri=uri)
    assert [exported.run_id for exported in again] == [exported.run_id for exported in first[:10]]
    assert not any(exported.is_new for exported in again)
    other = mlflow.log_runs(LEARNED, tracking_uri=uri, experiment="other")
    assert all(exported.is_new for exported in other)
    experiment = client(uri).get_experiment_by_name("a2perf")
    assert len(client(uri).search_runs([experiment.experiment_id])) == 10


def test_a_run_that_an_interrupted_export_left_is_logged_again(uri: str) -> None:
    train = shipped()[0]
    (digest,) = [described.digest for described in descriptions([train])]
    (elsewhere,) = log_runs(difficult(), tracking_uri=uri)
    experiment_id = client(uri).get_run(elsewhere).info.experiment_id
    half = client(uri).create_run(experiment_id, tags={"a2perf.digest": digest}).info.run_id
    (run_id,) = log_runs(train, tracking_uri=uri)
    assert run_id != half
    assert client(uri).get_run(half).info.lifecycle_stage == "deleted"
    assert assert_equal(uri, [train], [run_id]) > 300


def test_a_killed_export_into_a_folder_does_not_block_the_next(uri: str) -> None:
    runs = shipped()
    (first,) = log_runs(runs[:1], tracking_uri=uri)
    experiment_id = client(uri).get_run(first).info.experiment_id
    (digest,) = [described.digest for described in descriptions(runs[1:])]
    half = client(uri).create_run(experiment_id, tags={"a2perf.digest": digest}).info.run_id
    empty = Path(uri, experiment_id, half, "metrics", "score", "returns")
    empty.parent.mkdir(parents=True)
    empty.touch()  # killed between the creation of the file and its first line: MLflow cannot list the runs any more
    with pytest.raises(ValueError, match="malformed"):
        client(uri).search_runs([experiment_id])
    exported = mlflow.log_runs(runs, tracking_uri=f"file://{uri}")
    assert [run.is_new for run in exported] == [False, True]
    assert exported[0].run_id == first
    assert len(client(uri).search_runs([experiment_id])) == 2
    assert assert_equal(uri, runs, [run.run_id for run in exported]) > 500


def test_a_run_without_scores_is_logged(uri: str) -> None:
    (run_id,) = log_runs(Run(RunIdentity(algorithm="ppo", mode="train")), tracking_uri=uri)
    assert client(uri).get_run(run_id).data.metrics == {}


@pytest.mark.parametrize(
    ("uri", "kind"),
    [("/proc/nowhere", UserError), ("http://127.0.0.1:9", UserError), ("nonsense://x", UserError)],
)
def test_a_store_that_cannot_be_used_is_a_user_error(uri: str, kind: type[UserError]) -> None:
    with pytest.raises(kind, match="MLflow did not accept the experiment 'a2perf'") as caught:
        log_runs(shipped(), tracking_uri=uri)
    assert caught.value.hint == "check the tracking URI and your rights there"
    assert len(str(caught.value)) < 600


_WITHOUT_ALEMBIC = """
import sys
sys.modules["alembic"] = None
from a2perf.errors import UserError
from a2perf_trackers.mlflow import log_runs
from packages.trackers.tests.described_runs import shipped
try:
    log_runs(shipped(), tracking_uri=sys.argv[1])
except UserError as error:
    print(error.message, error.hint, sep="\\n")
"""


def test_a_database_without_its_packages_names_them(tmp_path: Path, repository: Path) -> None:
    # in another process: MLflow keeps what it has imported
    command = [sys.executable, "-c", _WITHOUT_ALEMBIC, f"sqlite:///{tmp_path}/mlflow.db"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=repository)
    message, hint = done.stdout.splitlines()
    assert "needs the package alembic" in message
    assert hint == "pip install mlflow, or give a folder as the tracking URI"


def test_a_failure_in_the_middle_keeps_the_runs_before_it(tmp_path: Path) -> None:
    uri = str(tmp_path / "mlruns")
    runs = shipped()
    refused = replace(runs[1], identity=replace(runs[1].identity, algorithm="x" * 30))
    broken = replace(refused, curve=runs[0].curve)
    assert broken.curve is not None
    broken.curve = replace(broken.curve, name="score")  # a metric where the folder of the scores must be
    with pytest.raises(UserError, match=r"MLflow did not accept run .*1 run\(s\) before it were exported"):
        log_runs([runs[0], broken], tracking_uri=uri)
    experiment = client(uri).get_experiment_by_name("a2perf")
    (left,) = client(uri).search_runs([experiment.experiment_id])
    assert assert_equal(uri, runs[:1], [left.info.run_id]) > 300


def test_command_exports_and_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["export", "mlflow", *words])
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    uri = str(tmp_path / "mlruns")
    status, out, _ = run(str(LEARNED), "--tracking-uri", uri, "--no-trace")
    assert (status, out) == (0, f"10 runs in MLflow: 10 exported\nExperiment: a2perf, {uri}\n")
    status, out, _ = run(str(LEARNED), "--tracking-uri", uri, "--no-trace", "--json")
    entries = json.loads(out)["runs"]
    assert [entry["is_new"] for entry in entries] == [False] * 10
    assert client(uri).get_run(entries[0]["run_id"]).info.run_name == entries[0]["name"]
    assert not any(name.startswith("trace/") for name in client(uri).get_run(entries[0]["run_id"]).data.metrics)
    status, _, err = run(str(tmp_path / "nowhere"), "--tracking-uri", uri)
    assert status == 2
    assert err.splitlines()[1].startswith("  Hint: ")
