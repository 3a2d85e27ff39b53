"""The export to Weights & Biases, read back from its offline files with their reader and with ours."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a2perf.cli import main
from a2perf.errors import UserError
from a2perf.runs.run import Run, RunIdentity
from a2perf_trackers import wandb
from packages.trackers.tests import wandb_file
from packages.trackers.tests.described_runs import (
    LEARNED,
    descriptions,
    difficult,
    of_several_modes,
    shipped,
)
from tests.waiting import until

installed = pytest.mark.group("wandb")


def log_runs(*given: Any, **settings: Any) -> list[str]:
    return [exported.run_id for exported in wandb.log_runs(*given, **settings)]


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("WANDB_DIR", raising=False)
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")  # no network in tests


def offline_file(folder: Path, run_id: str) -> Path:
    (path,) = folder.glob(f"wandb/offline-run-*-{run_id}/run-{run_id}.wandb")
    return path


def read(folder: Path, run_id: str) -> wandb_file.WandbFile:
    # W&B completes the file after it says that the run has ended
    until(lambda: wandb_file.read(offline_file(folder, run_id)).exit_code is not None)
    return wandb_file.read(offline_file(folder, run_id))


def assert_equal(folder: Path, runs: Sequence[Run], run_ids: Sequence[str]) -> int:
    """Compares every point of every series and every number bit by bit; returns how many."""
    compared = 0
    for described, run_id in zip(descriptions(runs), run_ids, strict=True):
        log = read(folder, run_id)
        columns = log.series()
        began = log.rows[0]["_timestamp"] if log.rows else 0.0
        for series in described.series:
            steps, values, seconds = columns[series.name]
            order = np.lexsort((series.steps, series.times_s))
            assert steps.tolist() == series.steps[order].tolist()
            np.testing.assert_array_equal(values, series.values[order])
            np.testing.assert_array_equal(seconds, series.times_s[order] - began)
            compared += values.size
        summary = log.summary
        for name, value in described.values().items():
            assert summary[name] == value, name
            compared += 1
    return compared


@installed
def test_every_point_and_number_reads_back_bit_for_bit(tmp_path: Path) -> None:
    runs = shipped()
    assert assert_equal(tmp_path, runs, log_runs(runs, folder=tmp_path)) > 500


@installed
def test_strange_names_and_values_read_back_equal(tmp_path: Path) -> None:
    run = difficult()
    (run_id,) = log_runs(run, folder=tmp_path)
    log = read(tmp_path, run_id)
    _, values, _ = log.series()["Metrics/AverageReturn"]
    assert run.curve is not None
    np.testing.assert_array_equal(values, run.curve.values)
    assert log.name == "pp/o 🤖 <b> täsk/1:* train"
    assert log.exit_code == 1  # the run failed
    several = of_several_modes()
    assert assert_equal(tmp_path, [several], log_runs(several, folder=tmp_path)) > 10


@installed
def test_configuration_tags_and_group_are_those_of_the_run_and_nothing_of_the_host(tmp_path: Path) -> None:
    run = shipped()[0]
    (run_id,) = log_runs(run, folder=tmp_path, project="agents")
    (described,) = descriptions([run])
    log = read(tmp_path, run_id)
    assert run_id == f"a2perf-{described.digest[:16]}"
    assert described.params.items() <= log.config.items()
    assert log.config["a2perf"]["units"] == described.units()
    assert log.config["a2perf"]["provenance"] == described.provenance()
    assert log.config["a2perf"]["content_sha256"] == described.content
    assert (log.project, log.name, log.exit_code, log.host) == ("agents", described.name, 0, "")
    assert log.tags == ["quadruped_locomotion", "synthetic_trot_v1", "numpy_ars", "train"]
    content = offline_file(tmp_path, run_id).read_bytes()
    assert described.group.encode() in content
    host = socket.gethostname().encode()
    # As a string of its length: two letters also stand in random ids.
    for word in (bytes([len(host)]) + host, os.getcwd().encode(), str(tmp_path).encode()):
        assert word not in content, word


@installed
def test_second_export_skips_and_an_unfinished_file_is_written_again(tmp_path: Path) -> None:
    runs = shipped()
    first = wandb.log_runs([*runs, runs[0]], folder=tmp_path)
    assert [exported.is_new for exported in first] == [True, True, True]
    assert first[0] == first[2]
    again = wandb.log_runs(runs, folder=tmp_path)
    assert [exported.is_new for exported in again] == [False, False]
    assert [exported.run_id for exported in again] == [exported.run_id for exported in first[:2]]
    path = offline_file(tmp_path, first[0].run_id)
    (path.parent / "a2perf-complete").unlink()  # a killed export
    path.parent.rename(path.parent.with_name(f"offline-run-20200101_000000-{first[0].run_id}"))
    assert [exported.is_new for exported in wandb.log_runs(runs, folder=tmp_path)] == [True, False]
    assert read(tmp_path, first[0].run_id).exit_code == 0  # one folder per run


@installed
def test_a_run_without_scores_is_logged(tmp_path: Path) -> None:
    (run_id,) = log_runs(Run(RunIdentity(algorithm="ppo", mode="train")), folder=tmp_path)
    log = read(tmp_path, run_id)
    assert (log.rows, log.config["algorithm"], log.exit_code) == ([], "ppo", 0)


@installed
def test_errors_name_the_place_and_a_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="cannot be created") as caught:
        log_runs(shipped(), folder="/proc/nowhere")
    assert caught.value.hint == "choose a folder that you may write to"
    with pytest.raises(UserError, match=r"Weights & Biases did not accept run .*project"):
        log_runs(shipped(), folder=tmp_path, project="a/b")
    monkeypatch.setenv("WANDB_MODE", "disabled")
    with pytest.raises(UserError, match="'disabled' is not a mode") as mode:
        log_runs(shipped(), folder=tmp_path)
    assert mode.value.hint == "use offline or online"


@installed
def test_command_exports_and_prints_the_next_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["export", "wandb", str(LEARNED), "-o", str(tmp_path), "--no-trace", *words])
        return int(ended.value.code or 0), capsys.readouterr().out

    expected = f"10 runs in Weights & Biases: 10 exported\nUpload: wandb sync {tmp_path}/wandb/offline-run-*\n"
    assert run() == (0, expected)
    status, out = run("--json")
    assert status == 0
    assert [entry["is_new"] for entry in json.loads(out)["runs"]] == [False] * 10
