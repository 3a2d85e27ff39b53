"""What exporters take, what a tracker sees of a run, and what never leaves the machine."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import a2perf
from a2perf.errors import UserError
from a2perf.metrics.registry import score
from a2perf.metrics.runs_in_mode import scored_runs
from a2perf.runs.reading import read_runs
from a2perf.runs.run import Run, RunIdentity
from a2perf_trackers import runs_of
from a2perf_trackers.described_series import safe_name, unique_names
from a2perf_trackers.description import describe
from packages.trackers.tests.described_runs import (
    LEARNED,
    difficult,
    manifest,
    of_several_modes,
    shipped,
    without_package,
)
from tests.shipped_runs import unpacked

# --- what exporters take ----------------------------------------------------------------------------------------------


def test_runs_results_paths_and_iterables_of_them_give_the_same_runs() -> None:
    runs = read_runs([LEARNED])
    keys = [run.key for run in runs]
    results = a2perf.read_runs(LEARNED)
    for given in (runs, results, list(results), LEARNED, str(LEARNED), [LEARNED], iter(runs)):
        assert [run.key for run in runs_of(given)] == keys
    assert runs_of(runs[0]) == [runs[0]]
    assert [run.key for run in runs_of(results[0])] == keys[:1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "no runs"),
        (3, "int"),
        ([3.5], "float"),
        ("nowhere", "nowhere does not exist"),
    ],
)
def test_anything_else_is_refused_with_a_hint(given: object, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        runs_of(given)  # type: ignore[arg-type]
    assert caught.value.hint


def test_exporters_are_attributes_of_the_package_and_import_no_tracker() -> None:
    code = (
        "import sys, a2perf_trackers\n"
        "for name in ('mlflow', 'wandb', 'tensorboard'): assert callable(getattr(a2perf_trackers, name).log_runs)\n"
        "heavy = {'mlflow', 'wandb', 'tensorboard', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("package", "needed", "call"),
    [
        ("mlflow", "MLflow needs the package mlflow-skinny", "log_runs(RUNS, tracking_uri='mlruns')"),
        ("tensorboard", "TensorBoard needs the package tensorboard", "log_runs(RUNS, 'logs')"),
        ("wandb", "Weights & Biases needs the package wandb", "log_runs(RUNS)"),
    ],
)
def test_missing_package_names_its_extra(package: str, needed: str, call: str) -> None:
    assert without_package(package, call) == (
        f"the export to {needed}, which is not installed\n"
        f"  Hint: pip install -e 'packages/trackers[{package}]', in a checkout"
    )


# --- the description --------------------------------------------------------------------------------------------------


def test_numbers_are_the_scores_of_the_run_with_unit_and_provenance() -> None:
    for run in shipped():
        described = describe(run).numbers
        scores = score(scored_runs([run], run.mode))
        expected = {f"score/{name}": value for name, value in scores.items() if value.value is not None}
        assert set(expected) <= set(described)
        for name, value in expected.items():
            quantity = described[name].quantity
            assert (quantity.value, quantity.unit, quantity.provenance) == (value.value, value.unit, value.provenance)
    upstream = describe(shipped()[0], "upstream")
    assert upstream.params["profile"] == "upstream"
    assert upstream.digest != describe(shipped()[0]).digest


def test_series_hold_every_recorded_point_with_its_time() -> None:
    train, inference = shipped()
    assert train.curve is not None
    curve, *trace = describe(train).series
    assert curve.name == "Metrics/AverageReturn"
    assert curve.values.tobytes() == train.curve.values.tobytes()
    assert curve.steps.tolist() == train.curve.steps.astype(int).tolist()
    assert curve.times_s.tolist() == train.curve.times_s.tolist()  # type: ignore[union-attr]
    assert {"trace/cpu_power_w", "trace/rss_bytes"} <= {series.name for series in trace}
    assert {series.unit for series in trace if series.name.endswith("_w")} == {"W"}
    assert {series.provenance for series in trace if series.name.endswith("_w")} == {"estimated"}
    table = train.details.trace
    assert table is not None
    samples = {series.name: series for series in trace}["trace/cpu_power_w"]
    assert samples.values.tolist() == table.numbers("cpu_power_w").tolist()  # type: ignore[union-attr]
    assert np.all(np.diff(samples.times_s) >= 0)
    started = describe(train).started_s
    assert started is not None
    assert samples.times_s[0] >= started
    assert [series.counts for series in describe(train, trace=False).series] == ["environment step"]
    returns = next(series for series in describe(inference).series if series.name == "inference/episode_return")
    assert returns.values.tolist() == inference.returns["inference"]["synthetic_trot_v1"].tolist()


def test_names_are_safe_and_unique_in_every_tracker() -> None:
    assert safe_name("täsk/1:*") == "t_sk/1__"
    assert safe_name("../a//./b") == "_/a/_/_/b"
    assert unique_names(["a:b", "a*b", "a_b", "x" * 999]) == ["a_b", "a_b_2", "a_b_3", "x" * 200]
    described = describe(difficult())
    assert described.name == "pp/o 🤖 <b> täsk/1:* train"
    assert "\x1b" not in json.dumps([described.params, described.tags], ensure_ascii=False)
    assert described.series[0].steps.tolist() == [0, 10, 10, 20, 2**40, 2**40 + 1]
    assert described.params["arg.lr"] == 3e-4
    assert described.params["arg.is_big"] is True


def test_modes_and_tasks_of_one_run_have_separate_names() -> None:
    described = describe(of_several_modes())
    values = described.values()
    assert values["score/inference/returns"] == pytest.approx(0.7 / 3)
    assert values["score/generalization/a_b/returns"] == 1.5
    assert values["score/generalization/a_b/returns_2"] == 4.0
    assert values["score/generalization/returns/returns"] == 8.0
    read = {series.name: series.values.tolist() for series in described.series}
    assert read == {
        "inference/episode_return": [0.1, 0.2, 0.4],
        "generalization/a_b/episode_return": [1.0, 2.0],
        "generalization/a_b/episode_return_2": [3.0, 5.0],
        "generalization/returns/episode_return": [8.0],
    }


def test_one_record_has_one_digest_packed_or_not(tmp_path: Path) -> None:
    folder = unpacked("learning/numpy_ars", tmp_path)
    packed = {run.key: describe(run).digest for run in read_runs([LEARNED])}
    assert {run.key: describe(run).digest for run in read_runs([folder])} == packed
    assert len(set(packed.values())) == len(packed) == 10


def test_a_changed_record_has_another_digest(tmp_path: Path) -> None:
    folder = unpacked("learning/numpy_ars", tmp_path)
    before = {run.key: describe(run).digest for run in read_runs([folder])}
    changed = next(folder.rglob("train/metrics/train.json"))
    changed.write_text(re.sub(r'("wall_s": ?)\d', r"\g<1>9", changed.read_text(), count=1))
    runs = {run.key: run for run in read_runs([folder])}
    different = [key for key, run in runs.items() if describe(run).digest != before[key]]
    assert len(different) == 1
    assert runs[different[0]].changed
    assert describe(runs[different[0]]).tags["a2perf.changed"] == "yes"


def test_a_run_without_scores_is_described() -> None:
    described = describe(Run(RunIdentity(algorithm="ppo", mode="train")))
    assert (described.numbers, described.series, described.values()) == ({}, (), {})
    assert described.started_s is None
    assert described.summary().startswith("**ppo train**")


def test_summary_marks_estimates_and_escapes_names() -> None:
    summary = describe(shipped()[1]).summary()
    assert "| Energy | ≈ " in summary
    assert "| Peak memory (RSS) | 3" in summary
    strange = describe(difficult()).summary()
    assert "<b>" not in strange
    assert "<damage>" not in strange


# --- what stays on the machine ----------------------------------------------------------------------------------------

KEYED = {"scheme": 2, "keys": {"participant": "aa" * 32, "evaluation": "bb" * 32}, "episodes": [555666777]}


@pytest.mark.parametrize("seeds", [KEYED, {"scheme": 1, "evaluation": "file", "episodes": [555666777]}])
def test_no_seed_key_token_path_or_command_enters_a_description(seeds: dict[str, object]) -> None:
    run = replace(difficult(), manifest=manifest(seeds))
    described = describe(run)
    text = json.dumps([described.params, described.tags, described.summary()], default=str)
    for secret in ("aaaa", "bbbb", "555666777", "123454321", "hf_sesame", "xyzzy", "/home/ada", "hidden hills"):
        assert secret not in text, secret
    assert described.params["arg.hub_token"] == "not exported"
    assert describe(difficult()).params["env.terrain"] == "hidden hills"  # anybody knows the public task
