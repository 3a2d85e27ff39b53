"""Recorded runs of every layout, read into one shape; damage is stated and costs only itself."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest

from a2perf.metrics.registry import score
from a2perf.metrics.runs_in_mode import ScoredRuns
from a2perf.records import RunState, SubmissionInfo, TaskView
from a2perf.runs import Run, find_runs, read_run
from a2perf.runs.bundles.tables import read_table
from a2perf.runs.seed_groups import differing, seed_key
from a2perf.runs.stores.finding import fingerprint_of
from a2perf.runs.submission_info import info_of
from a2perf.storage import write_json
from tests.commands import call_a2perf
from tests.metrics import event_bytes as made
from tests.metrics import made_bundles


def only(path: Path) -> Run:
    (run,) = find_runs([path])
    return read_run(run)


# --- bundles ----------------------------------------------------------------------------------------------------------


def test_the_name_of_an_algorithm_includes_its_language_models(tmp_path: Path):
    for number, models in enumerate(([], ["small"], ["small", "large"])):
        made_bundles.write_inference(tmp_path / str(number), 1, name="agent", models=models)
    found = [read_run(run) for run in find_runs([tmp_path])]
    assert [run.algorithm for run in found] == ["agent", "agent (small)", "agent (small, large)"]
    assert len({seed_key(run.identity, run.folder) for run in found}) == 3
    described = info_of(found[1].folder, SubmissionInfo(title="My agent"), "agent", ["small"])[0]
    assert described.title == "My agent (small)"


def test_a_view_of_a_task_is_compared_on_the_task_but_not_pooled_with_it(tmp_path: Path):
    text = {"task": "text_level_1", "env_kwargs": {"num_websites": 10, "observation": "text"}}
    view = TaskView(task="level_1", arguments={"observation": "text"})
    made_bundles.write_inference(tmp_path / "arrays", 1, task="level_1", env_kwargs={"num_websites": 10})
    made_bundles.write_inference(tmp_path / "text", 1, view=view, **text)
    found = [read_run(run) for run in find_runs([tmp_path])]
    keys = [seed_key(run.identity, run.folder) for run in found]
    assert differing(keys) == {"view": {"", "text"}}
    assert [list(run.returns["inference"]) for run in found] == [["level_1"], ["level_1"]]
    assert {(key.task, key.env_kwargs) for key in keys} == {("level_1", '{"num_websites": 10}')}


def test_symbolic_links_are_stated_and_not_followed(tmp_path: Path):
    secret = tmp_path / "elsewhere"
    secret.mkdir()
    (secret / "events.out.tfevents.1").write_bytes(made.curve(made_bundles.RETURN, [1e9] * 5))
    path = made_bundles.write_train(tmp_path / "runs" / "R", 1, events=False)
    (path / "artifacts" / "events.out.tfevents.1").symlink_to(secret / "events.out.tfevents.1")
    (path / "artifacts" / "more").symlink_to(secret)
    (path / "metrics" / "train_emissions.csv").unlink()
    (path / "metrics" / "train_emissions.csv").symlink_to(secret / "events.out.tfevents.1")
    run = only(tmp_path / "runs")
    assert run.curve is not None
    assert run.curve.values.max() < 100
    assert sum("symbolic link, not followed" in condition for condition in run.conditions) == 3


def test_attic_and_classic_files_beside_bundles_are_no_runs_of_their_own(tmp_path: Path):
    made_bundles.write_inference(tmp_path / "R", 1)
    made_bundles.write_train(tmp_path / "R", 1)
    made_bundles.write_inference(tmp_path / "old", 1)
    (tmp_path / "R" / "attic").mkdir()
    (tmp_path / "old" / "inference").rename(tmp_path / "R" / "attic" / "inference-20260102T030405.678901")
    (tmp_path / "R" / "metrics").mkdir()
    write_json(tmp_path / "R" / "metrics" / "inference_metrics_results.json", {})
    assert [run.label for run in find_runs([tmp_path])] == ["R/inference", "R/train"]


# --- the earlier platform ---------------------------------------------------------------------------------------------


def test_collectors_of_the_earlier_layout_are_joined(tmp_path: Path):
    made_bundles.write_earlier(tmp_path, 7, hosts=3)
    run = only(tmp_path)
    assert sorted(set(run.emissions["train"]["run_id"])) == ["a0", "a1", "a2", "learner"]
    assert len(run.emissions["train"]["duration"]) == 240
    assert run.curve is not None
    assert run.curve.values.tolist() == [1.0 + step for step in range(100)]


def test_stock_codecarbon_is_stated(tmp_path: Path):
    unit = made_bundles.write_earlier(tmp_path, 7)
    row = "2026-01-01T00:01:00,p,x,60.0,0.1,0.1,50.0,0.0,1.0,0.002,0.0,0.0,0.002,16.0,1.0\n"
    (unit / "metrics" / "train_emissions.csv").write_text(made_bundles.STOCK + "\n" + row)
    run = only(tmp_path)
    assert run.emissions["train"]["energy_consumed"].tolist() == [0.002]
    assert any("no column ram_process" in condition for condition in run.conditions)
    assert any("one row" in condition for condition in run.conditions)


def test_clock_that_runs_backwards_is_stated(tmp_path: Path):
    unit = made_bundles.write_earlier(tmp_path, 7)
    lines = (unit / "metrics" / "train_emissions.csv").read_text().splitlines()
    lines[10], lines[20] = lines[20], lines[10]
    (unit / "metrics" / "train_emissions.csv").write_text("\n".join(lines) + "\n")
    run = only(tmp_path)
    assert any("the clock runs backwards at" in condition for condition in run.conditions)
    assert len(run.emissions["train"]["duration"]) == 60


# --- trainers' logs and tables ----------------------------------------------------------------------------------------


def test_a_second_table_of_returns_in_a_bundle_is_named(tmp_path: Path):
    bundle = made_bundles.write_train(tmp_path / "agent", 1, events=False)
    (bundle / "artifacts" / "second").mkdir()
    (bundle / "artifacts" / "second" / "progress.csv").write_text("env_steps,mean_return\n0,100.0\n100,100.0\n")
    made_bundles.seal(bundle)
    assert (
        "artifacts/progress.csv counts, artifacts/second/progress.csv with the same column does not; log one training "
        "run to one file"
    ) in " ".join(call_a2perf("score", tmp_path, check=True).out.split())


def test_monitors_of_several_environments_are_one_curve_in_order_of_time(tmp_path: Path):
    (tmp_path / "0.monitor.csv").write_text('#{"t_start": 0.0, "env_id": "E"}\nr,l,t\n1.0,10,1.0\n3.0,10,3.0\n')
    (tmp_path / "1.monitor.csv").write_text('#{"t_start": 0.0, "env_id": "E"}\nr,l,t\n2.0,5,2.0\n')
    run = only(tmp_path)
    assert run.curve is not None
    assert run.curve.values.tolist() == [1.0, 2.0, 3.0]
    assert run.curve.steps.tolist() == [10.0, 15.0, 25.0]


def test_curves_know_when_their_values_were_logged(tmp_path: Path):
    (tmp_path / "A_1").mkdir()
    (tmp_path / "A_1" / "progress.csv").write_text(
        "rollout/ep_rew_mean,time/time_elapsed,time/total_timesteps\n1,2.5,100\n,3,150\n2,5.5,200\n"
    )
    curve = only(tmp_path).curve
    assert curve is not None
    assert curve.times_s is not None
    assert (curve.times_s.tolist(), curve.times_since) == ([2.5, 5.5], "start")


def test_a_step_is_known_when_its_last_writer_has_logged_it(tmp_path: Path):
    for name, values, late in (("a", [1.0, 3.0], 0.0), ("b", [3.0, 5.0], 7.0)):
        points = [(step, value, 1000.0 + step + late) for step, value in zip((10, 20), values, strict=True)]
        (tmp_path / f"events.out.tfevents.{name}").write_bytes(
            b"".join(
                made.record(made.event(step, made.simple("Metrics/AverageReturn", value), wall))
                for step, value, wall in points
            )
        )
    curve = only(tmp_path).curve
    assert curve is not None
    assert curve.times_s is not None
    assert (curve.values.tolist(), curve.times_s.tolist()) == ([2.0, 4.0], [1017.0, 1027.0])
    assert curve.times_since == "epoch"


def test_a_pipe_in_place_of_a_table_is_stated_and_not_waited_for(tmp_path: Path):
    made_bundles.write_train(tmp_path / "R", 1)
    (tmp_path / "R" / "train" / "metrics" / "train_emissions.csv").unlink()
    os.mkfifo(tmp_path / "R" / "train" / "metrics" / "train_emissions.csv")
    run = only(tmp_path)
    assert any("train_emissions.csv: not a regular file" in condition for condition in run.conditions)
    assert run.curve is not None


def test_killed_run_has_the_memory_and_time_of_its_trace(tmp_path: Path):
    made_bundles.write_inference(tmp_path / "R", 1, state=RunState.RUNNING)
    metrics = tmp_path / "R" / "inference" / "metrics"
    (metrics / "system_trace.csv").write_text(
        "timestamp,elapsed_s,rss_bytes,pss_bytes,cpu_seconds\na,0.5,100,,0.1\nb,1.5,300,,0.4\nc,2.0,200,,\n"
    )
    run = only(tmp_path)
    tracking = run.tracking
    assert (tracking.rss_peak_bytes, tracking.rss_mean_bytes, tracking.cpu_seconds) == (300.0, 200.0, 0.4)
    assert tracking.wall_s == 2.0
    assert math.isnan(tracking.energy.cpu.gross_kwh)
    scores = score(ScoredRuns([run], "inference"))
    assert scores["memory_rss_peak"].value == 300.0
    # what the trace does not say comes from the emissions table
    assert scores["energy_gross"].value == pytest.approx(40.0 * 20 / 3.6e6)
    assert any("no tracking report" in condition for condition in run.conditions)


def test_garbage_in_place_of_logs_is_stated(tmp_path: Path):
    (tmp_path / "events.out.tfevents.1").write_bytes(b"\x00garbage" * 20)
    (tmp_path / "progress.csv").write_bytes(b"\x00\xff\x00")
    run = only(tmp_path)
    assert run.curve is None
    assert any("events.out.tfevents.1: byte 0" in condition for condition in run.conditions)
    assert any("progress.csv: not a text file" in condition for condition in run.conditions)


def test_fingerprint_follows_the_files_but_not_the_scores(tmp_path: Path):
    path = made_bundles.write_inference(tmp_path / "R", 3)
    (run,) = find_runs([tmp_path])
    before = fingerprint_of(run)
    (tmp_path / "R" / "scores.json").write_text("{}")
    assert fingerprint_of(run) == before
    (path / "metrics" / "rollouts.json").write_text("{}")
    assert fingerprint_of(run) != before


# --- tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("step,return\n1,10\n2,20\n3,3", "cut off"),
        ("step,return,name\n1,10,a\n2,20,b\n3,3", "1 row(s) with a wrong number of cells left out"),
    ],
)
def test_a_last_row_that_was_cut_off_costs_only_itself(text: str, condition: str, tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text(text)
    table = read_table(path)
    assert table.columns["return"].tolist() == [10.0, 20.0]
    (found,) = table.conditions
    assert condition in found


def test_torn_rows_and_words_among_numbers_are_counted(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text("step,return,name\n1,10,a\n2,x,b\n3\n4,40,c\n5,50,d\n")
    table = read_table(path)
    assert table.columns["name"] == ["a", "b", "c", "d"]
    assert np.isnan(table.columns["return"]).tolist() == [False, True, False, False]
    assert len(table.conditions) == 2
