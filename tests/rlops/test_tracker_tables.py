"""CSV files that a tracker exports, and runs that openrlbenchmark keeps, as those tools write them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from a2perf.errors import UserError
from a2perf.rlops.store import Store
from a2perf.runs.foreign_logs import find_imports
from a2perf.runs.importers import import_run
from a2perf.runs.stored_run import StoredRun
from tests.rlops.made_runs import METRIC

NAME = "CartPole-v1__ppo__3__17"
HISTORY = (
    f",{METRIC},losses/value,global_step,_step,_timestamp,_runtime,note\n"
    "0,10.0,,100,0,1700000000.0,1.0,a\n1,,0.5,150,1,1700000001.0,2.0,b\n2,30.0,0.25,200,2,1700000002.0,3.0,\n"
)


def brought(store: Path, *paths: Path, **options: object) -> list[StoredRun]:
    store.mkdir(exist_ok=True)
    for item in find_imports(paths):
        import_run(store, item, **options)  # type: ignore[arg-type]
    return Store(store).runs()


def points(store: Path, run: StoredRun, metric: str = METRIC) -> tuple[list[float], list[float]]:
    curve = Store(store).curve(run, metric)
    assert curve is not None
    return curve.steps.tolist(), curve.values.tolist()


def test_the_history_of_a_run_is_imported_over_its_own_steps(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.csv").write_text(HISTORY)
    (run,) = brought(tmp_path / "store", tmp_path / f"{NAME}.csv")
    assert (run.experiment, run.env_id, run.seed, run.source) == ("ppo", "CartPole-v1", 3, "wandb")
    assert points(tmp_path / "store", run) == ([100, 200], [10, 30])
    assert points(tmp_path / "store", run, "losses/value") == ([150, 200], [0.5, 0.25])


@pytest.mark.parametrize("axis", ["_step", "global_step"])
def test_a_history_with_one_axis(tmp_path: Path, axis: str) -> None:
    (tmp_path / "h.csv").write_text(f"{axis},{METRIC}\n1,5\n2,6\n")
    (run,) = brought(tmp_path / "store", tmp_path, experiment="ppo", env_id="E-v0", seed=1)
    assert points(tmp_path / "store", run) == ([1, 2], [5, 6])


@pytest.mark.parametrize("axis", ["Step", "global_step", "_step"])
def test_a_chart_holds_a_run_in_each_column(tmp_path: Path, axis: str) -> None:
    other = NAME.replace("__3__", "__4__")
    (tmp_path / "wandb_export.csv").write_text(
        f'"{axis}","{NAME} - {METRIC}","{NAME} - {METRIC}__MIN","{NAME} - {METRIC}__MAX","{other} - {METRIC}"\n'
        '"10","1.5","1.5","1.5",""\n"20","2.5","2.5","2.5","7"\n'
    )
    first, second = sorted(brought(tmp_path / "store", tmp_path), key=lambda run: run.seed or 0)
    assert (first.experiment, first.env_id, first.seed, second.seed) == ("ppo", "CartPole-v1", 3, 4)
    assert points(tmp_path / "store", first) == ([10, 20], [1.5, 2.5])
    assert points(tmp_path / "store", second) == ([20], [7])
    assert set(Store(tmp_path / "store").metric_names([first])) == {METRIC}


def test_a_chart_over_time_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "chart.csv").write_text(f'"Relative Time (Process)","{NAME} - {METRIC}"\n"1","2"\n')
    with pytest.raises(UserError, match="the axis of this chart is 'Relative Time"):
        find_imports([tmp_path])


@pytest.mark.parametrize("is_legacy", [False, True])
def test_a_run_that_openrlbenchmark_keeps(tmp_path: Path, is_legacy: bool) -> None:
    folder = tmp_path / "dataset" / "openrlbenchmark" / "cleanrl" / "1a2b3c"
    folder.mkdir(parents=True)
    (folder / "run_df.csv").write_text(HISTORY)
    config = {"env_id": "CartPole-v1", "exp_name": "ppo", "seed": 3, "learning_rate": 2.5e-4}
    record = {
        "id": "1a2b3c", "name": "whatever", "state": "finished", "url": "", "project": "cleanrl",
        "tags": ["v1", "pr-3"], "entity": "openrlbenchmark", "config": config, "path": [],
        "user": {"username": "ada", "name": "Ada"},
    }  # fmt: skip
    if is_legacy:
        record = {"_attrs": {**record, "config": json.dumps({key: {"value": value} for key, value in config.items()})}}
    (folder / "run.json").write_text(json.dumps(record))
    (folder.parent / "offline.sqlite").write_bytes(b"SQLite format 3\0")
    (run,) = brought(tmp_path / "store", tmp_path / "dataset")
    assert (run.experiment, run.env_id, run.seed, run.user) == ("ppo", "CartPole-v1", 3, "ada")
    assert run.tags == {"v1", "pr-3"}
    assert run.config["learning_rate"] == 2.5e-4
    assert points(tmp_path / "store", run) == ([100, 200], [10, 30])
    assert not import_run(tmp_path / "store", find_imports([tmp_path / "dataset"])[0]).new


@pytest.mark.parametrize("content", ["[1]", "{", '{"config": [], "tags": {"a": 1}, "user": 3}', "[" * 100_000])
def test_a_damaged_record_is_no_traceback(tmp_path: Path, content: str) -> None:
    folder = tmp_path / "e" / "p" / NAME
    folder.mkdir(parents=True)
    (folder / "run_df.csv").write_text(HISTORY)
    (folder / "run.json").write_text(content)
    done = subprocess.run(
        [sys.executable, "-m", "a2perf", "rlops-import", str(tmp_path / "e"), "--store", str(tmp_path / "store")],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 2)
    assert ("run.json cannot be read" in done.stderr) == (done.returncode == 2)
