"""The export to TensorBoard, read back with TensorBoard's own readers and with ours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a2perf.cli import main
from a2perf.errors import UserError
from a2perf.runs.reading import read_runs
from a2perf.runs.run import Run, RunIdentity
from a2perf_trackers import tensorboard
from a2perf_trackers.description import RunDescription
from a2perf_trackers.tensorboard import SUMMARY_TAG
from packages.trackers.tests.described_runs import (
    LEARNED,
    descriptions,
    difficult,
    of_several_modes,
    shipped,
)
from tests.event_logs import read_event_file

pytest.importorskip("tensorboard")


def log_runs(*given: Any, **settings: Any) -> list[str]:
    return [exported.run_id for exported in tensorboard.log_runs(*given, **settings)]


def trial_name(description: RunDescription) -> str:
    return f"{description.name} ({description.digest[:8]})"


def accumulated(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def hparams(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Returns the experiment and the sessions by group, as the dashboard's backend reads them."""
    from tensorboard import context
    from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
    from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
    from tensorboard.plugins.base_plugin import TBContext
    from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups

    multiplexer = EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(folder))
    multiplexer.Reload()
    provider = MultiplexerDataProvider(multiplexer, str(folder))
    backend = backend_context.Context(TBContext(logdir=str(folder), multiplexer=multiplexer, data_provider=provider))
    request = context.RequestContext()
    found = backend.experiment_from_metadata(request, "", True, backend.hparams_metadata(request, ""), [])
    statuses = [api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE, api_pb2.STATUS_RUNNING, api_pb2.STATUS_UNKNOWN]
    wanted = api_pb2.ListSessionGroupsRequest(start_index=0, slice_size=1000, allowed_statuses=statuses)
    listed = list_session_groups.Handler(request, backend, "", wanted).run()
    return found, {group.name: group for group in listed.session_groups}


def assert_equal(folder: Path, runs: Sequence[Run], names: Sequence[str]) -> int:
    """Compares every point of every series and every number, as float32; returns how many."""
    compared = 0
    for described, name in zip(descriptions(runs), names, strict=True):
        accumulator = accumulated(folder / name)
        ours = read_event_file(next((folder / name).glob("events*"))).scalars
        for series in described.series:
            read = accumulator.Scalars(series.name)
            assert [point.step for point in read] == series.steps.tolist()
            assert [point.wall_time for point in read] == series.times_s.tolist()
            with np.errstate(over="ignore"):
                np.testing.assert_array_equal([point.value for point in read], np.float32(series.values))
                np.testing.assert_array_equal(ours[series.name].values, np.float32(series.values))
            assert ours[series.name].wall_times.tolist() == series.times_s.tolist()
            compared += series.steps.size
        for number, value in described.values().items():
            (point,) = accumulator.Scalars(number)
            assert point.value == np.float32(value), number
            assert point.wall_time == (described.ended_s or described.started_s or 0.0)
            compared += 1
        text = accumulator.Tensors(SUMMARY_TAG)[0].tensor_proto.string_val[0].decode()
        assert text == described.summary()
    return compared


def test_every_point_and_number_reads_back_equal_as_float32(tmp_path: Path) -> None:
    runs = shipped()
    names = log_runs(runs, tmp_path)
    assert [name.partition("-")[0] for name in names] == [
        "numpy_ars/synthetic_trot_v1/train/seed_1",
        "numpy_ars/synthetic_trot_v1/inference/seed_1",
    ]
    assert assert_equal(tmp_path, runs, names) > 500


def test_strange_names_and_values_read_back_equal(tmp_path: Path) -> None:
    run = difficult("../../etc/pp*o 🤖")
    (name,) = log_runs(run, tmp_path)
    assert (tmp_path / name).resolve().is_relative_to(tmp_path.resolve())
    assert all(part not in ("..", "") and not part.startswith(".") for part in name.split("/"))
    assert assert_equal(tmp_path, [run], [name]) >= 6
    several = of_several_modes()
    assert assert_equal(tmp_path, [several], log_runs(several, tmp_path)) > 10


def test_our_reader_finds_the_exported_curve(tmp_path: Path) -> None:
    train = shipped()[0]
    (name,) = log_runs(train, tmp_path)
    (found,) = read_runs([tmp_path / name])
    assert found.curve is not None
    assert train.curve is not None
    assert found.curve.name == "Metrics/AverageReturn"
    assert found.curve.steps.tolist() == train.curve.steps.tolist()
    assert found.curve.values.tolist() == np.float32(train.curve.values).tolist()


def test_hparams_dashboard_reads_every_parameter_and_score(tmp_path: Path) -> None:
    runs = [*shipped(), replace(difficult(), curve=None)]  # TensorBoard's sessions have steps of 32 bits
    log_runs(runs[:1], tmp_path)
    log_runs(runs[1:], tmp_path)
    experiment, groups = hparams(tmp_path)
    described = {trial_name(description): description for description in descriptions(runs)}
    assert set(groups) == set(described)
    assert {info.name for info in experiment.hparam_infos} == {
        name for description in described.values() for name in description.params
    }
    statuses = []
    for name, description in described.items():
        group = groups[name]
        read = {name: getattr(value, value.WhichOneof("kind")) for name, value in group.hparams.items()}
        assert read == description.params
        values = {metric.name.tag: metric.value for metric in group.metric_values}
        for name, measure in description.numbers.items():
            assert values[name] == np.float32(measure.quantity.value)
        (session,) = group.sessions
        assert session.start_time_secs == (description.started_s or 0.0)
        statuses.append(session.status)
    assert statuses == [1, 1, 2]  # success, success, failure
    infos = {info.name: info for info in experiment.hparam_infos}
    assert {value.string_value for value in infos["mode"].domain_discrete.values} == {"inference", "train"}


def test_second_export_writes_nothing_and_one_run_given_twice_is_written_once(tmp_path: Path) -> None:
    first = tensorboard.log_runs(2 * read_runs([LEARNED]), tmp_path)
    assert len(first) == 20
    assert len({exported.run_id for exported in first}) == 10
    assert all(exported.is_new for exported in first)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("events*") if path.parent != tmp_path}
    again = tensorboard.log_runs(LEARNED, tmp_path)
    assert not any(exported.is_new for exported in again)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("events*") if path.parent != tmp_path} == files
    assert hparams(tmp_path)[1].keys() == {
        trial_name(description) for description in descriptions(read_runs([LEARNED]))
    }


def test_an_interrupted_export_is_completed(tmp_path: Path) -> None:
    (name,) = log_runs(shipped()[:1], tmp_path / "whole")
    left = (tmp_path / "logs" / name).with_name(f".{Path(name).name}.unfinished")
    left.mkdir(parents=True)
    (left / "events.out.tfevents.1.1.a2perf").write_bytes(b"half")
    assert log_runs(shipped()[:1], tmp_path / "logs") == [name]
    assert not left.exists()
    assert assert_equal(tmp_path / "logs", shipped()[:1], [name]) > 300


def test_a_run_without_scores_is_exported(tmp_path: Path) -> None:
    (name,) = log_runs(Run(RunIdentity(algorithm="ppo", mode="train")), tmp_path)
    assert accumulated(tmp_path / name).Tags()["scalars"] == []
    assert len(hparams(tmp_path)[1]) == 1


def test_errors_name_the_place_and_a_fix(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be created") as caught:
        log_runs(shipped(), "/proc/nowhere")
    assert caught.value.hint == "choose a folder that you may write to"
    (tmp_path / "pp").write_text("a file where the folder of the second run must be")
    runs = [shipped()[0], Run(RunIdentity(algorithm="pp", mode="train"))]
    with pytest.raises(UserError, match=r"TensorBoard did not accept run .*1 run\(s\) before it were exported"):
        log_runs(runs, tmp_path)
    assert len(hparams(tmp_path)[1]) == 1  # the run before the failure is complete


def test_command_exports_and_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["export", "tensorboard", *words])
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    logs = tmp_path / "logs"
    status, out, _ = run(str(LEARNED), "-o", str(logs))
    assert (status, out.splitlines()[0]) == (0, "10 runs in TensorBoard: 10 exported")
    assert out.splitlines()[1] == f"Show: tensorboard --logdir {logs}"
    status, out, _ = run(str(LEARNED), "-o", str(logs), "--json")
    document = json.loads(out)
    assert status == 0
    assert document["tracker"] == "TensorBoard"
    assert [entry["is_new"] for entry in document["runs"]] == [False] * 10
    assert {entry["run_id"] for entry in document["runs"]} == {
        str(path.parent.relative_to(logs)) for path in logs.rglob("events*") if path.parent != logs
    }
    (tmp_path / "empty").mkdir()
    status, _, err = run(str(tmp_path / "empty"), "-o", str(logs))
    assert status == 2
    assert "nothing recorded" in err
    assert "Hint: " in err
