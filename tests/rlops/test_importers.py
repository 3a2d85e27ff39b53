"""Logs of other tools into the store: what is found, what it is called, and what becomes of damage."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import a2perf
from a2perf.errors import UserError
from a2perf.rlops.store import Store
from a2perf.runs.bundles.bundle import validate
from a2perf.runs.events.wandb_files import history_series
from a2perf.runs.reading import read_runs
from a2perf.runs.run import Run
from a2perf.runs.stores.importing import find_imports, import_run
from a2perf.runs.stores.store import logged_names, read_curve
from tests.commands import run_python
from tests.rlops.made_runs import METRIC, events

ROWS = [
    {
        METRIC: 0.5 * step,
        "losses.value": 1.0 / (step + 1),
        "global_step": 10 * step,
        "_step": step,
        "_timestamp": 1.7e9 + step,
        "_runtime": float(step),
    }
    for step in range(6)
]
CONFIG = {"env_id": "CartPole-v1", "seed": 3, "exp_name": "ppo", "learning_rate": 2.5e-4, "layers": [64, 64]}


def logged(folder: Path, points: Sequence[tuple[int, float]] = ((0, 1.0),)) -> Path:
    """Writes an event file into a folder, and returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "events.out.tfevents.17.h.1.0"
    log.write_bytes(events({METRIC: points}))
    return log


def brought(store: Path, *paths: Path, **options: object) -> list[Run]:
    store.mkdir(exist_ok=True)
    for item in find_imports(paths):
        import_run(store, item, **options)  # type: ignore[arg-type]
    return Store(store).runs()


def test_tensorboard_folders_are_named_by_their_trainers(tmp_path: Path) -> None:
    for seed in (1, 2):
        logged(tmp_path / "runs" / f"ALE_Pong-v5__dqn_atari__{seed}__1700000000", [(0, 1.0), (10, seed)])
    runs = brought(tmp_path / "store", tmp_path / "runs", tags=("old",))
    assert [(run.record.experiment, run.record.env_id, run.record.seed) for run in runs] == [
        ("dqn_atari", "ALE_Pong-v5", 1),
        ("dqn_atari", "ALE_Pong-v5", 2),
    ]
    assert all(
        run.record.source == "tensorboard" and run.record.tags == ["old"] and run.state == "finished" for run in runs
    )
    assert [run.execution.wall_s for run in runs] == [1.0, 1.0]
    assert points(runs[1])[1] == [1, 2]
    assert validate(runs[0].folder.path / "imported") == []


def test_importing_again_changes_nothing_and_a_log_that_has_grown_stays_one_run(tmp_path: Path) -> None:
    folder = tmp_path / "E-v0__ppo__1__17"
    logged(folder)
    first = import_run(tmp_path / "store", find_imports([folder])[0])
    again = import_run(tmp_path / "store", find_imports([folder])[0])
    assert (first.new, again.new, first.run_id) == (True, False, again.run_id)
    logged(folder, [(0, 1.0), (1, 2.0)])
    grown = import_run(tmp_path / "store", find_imports([folder])[0])
    assert (grown.new, grown.run_id) == (True, first.run_id)
    assert not import_run(tmp_path / "store", find_imports([folder])[0]).new
    (run,) = Store(tmp_path / "store").runs()
    assert points(run)[1] == [1, 2]
    logged(folder, [(0, 5.0), (1, 2.0)])  # another run
    assert import_run(tmp_path / "store", find_imports([folder])[0]).new
    assert len(Store(tmp_path / "store").runs()) == 2
    assert not [path for path in (tmp_path / "store").iterdir() if path.name.startswith(".importing")]


def test_import_that_was_killed_leaves_nothing_that_counts(tmp_path: Path) -> None:
    folder = tmp_path / "E-v0__ppo__1__17"
    logged(folder)
    code = (
        "import os, sys\nfrom pathlib import Path\nimport a2perf.runs.stores.importing as importers\n"
        "importers.record_files = lambda folder, manifest: os.kill(os.getpid(), 9)\n"
        "importers.import_run(Path(sys.argv[1]), importers.find_imports([Path(sys.argv[2])])[0])\n"
    )
    done = run_python(code, str(tmp_path / "store"), str(folder))
    assert done.returncode == -9
    assert Store(tmp_path / "store").runs() == []
    assert import_run(tmp_path / "store", find_imports([folder])[0]).new
    assert len(Store(tmp_path / "store").runs()) == 1
    assert not list((tmp_path / "store").glob(".importing*"))


def test_stable_baselines3_logs_become_one_run(tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "seed_4" / "PPO_2"
    folder.mkdir(parents=True)
    (folder / "progress.csv").write_text("time/total_timesteps,rollout/ep_rew_mean\n100,1.5\n200,2.5\n")
    (folder / "monitor.csv").write_text('#{"t_start": 1700000000.5, "env_id": "CartPole-v1"}\nr,l,t\n5.0,10,0.5\n')
    (run,) = brought(tmp_path / "store", tmp_path / "logs")
    assert (run.record.source, run.record.env_id, run.record.seed, run.record.experiment) == (
        "sb3",
        "CartPole-v1",
        4,
        "PPO_2",
    )
    assert run.execution.started_at == "2023-11-14T22:13:20.500+00:00"
    assert logged_names([run]) == {"l": 1, "r": 1, "rollout/ep_rew_mean": 1}


def test_csv_of_one_run_needs_to_be_told_its_environment(tmp_path: Path) -> None:
    path = tmp_path / "dqn_7.csv"
    path.write_text("step,return\n1,2\n2,3\n")
    with pytest.raises(UserError, match=r"the environment of .* is unknown") as caught:
        brought(tmp_path / "store", path)
    assert caught.value.hint == "add --env-id ENV"
    (run,) = brought(tmp_path / "store", path, env_id="Pong")
    assert (run.record.experiment, run.record.seed, run.record.env_id, run.record.source) == ("dqn", 7, "Pong", "csv")


def test_exported_history_line_by_line(tmp_path: Path) -> None:
    folder = tmp_path / "CartPole-v1__ppo__3__17"
    folder.mkdir()
    (folder / "history.jsonl").write_text("\n".join(json.dumps(row) for row in ROWS) + '\n{"cut": ')
    (folder / "config.json").write_text(json.dumps({"learning_rate": 0.1, "_wandb": {}}))
    (run,) = brought(tmp_path / "store", folder)
    assert (run.record.experiment, run.record.seed, run.record.config["learning_rate"]) == ("ppo", 3, 0.1)
    assert points(run, METRIC)[0] == points(run)[0] == list(range(0, 60, 10))


@pytest.mark.parametrize(
    ("path", "experiment", "env", "seed"),
    [
        ("CartPole-v1__ppo_jax__12__1700000000", "ppo_jax", "CartPole-v1", 12),
        ("a/PPO_3", "PPO", "", 3),
        ("ppo/seed_5", "ppo", "", 5),
        ("ppo_seed=5", "ppo", "", 5),
        ("plain", "plain", "", None),
    ],
)
def test_names_tell_what_a_run_is(tmp_path: Path, path: str, experiment: str, env: str, seed: int | None) -> None:
    logged(tmp_path / path)
    (item,) = find_imports([tmp_path / path])
    found = item.identity()
    assert (found.algorithm, found.task, found.seed) == (experiment, env, seed)


def test_nothing_to_import_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(UserError, match="no event files"):
        find_imports([tmp_path])
    with pytest.raises(UserError, match="does not exist"):
        find_imports([tmp_path / "nowhere"])
    with pytest.raises(UserError, match="did you mean 'tensorboard'"):
        find_imports([tmp_path], "tensorbord")
    folder = tmp_path / "E-v0__a__1"
    folder.mkdir()
    (folder / "progress.csv").write_text("name\nx\n")
    with pytest.raises(UserError, match="holds no numbers"):
        import_run(tmp_path / "store", find_imports([folder])[0])


# --- runs in pieces ---------------------------------------------------------------------------------------------------


def points(run: Run, metric: str | None = None) -> tuple[list[float], list[float]]:
    curve = read_curve(run, metric)
    assert curve is not None
    return curve.steps.tolist(), curve.values.tolist()


def history(folder: Path, rows: list[dict[str, object]], **config: object) -> Path:
    folder.mkdir()
    (folder / "history.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    (folder / "config.json").write_text(json.dumps({**CONFIG, **config}))
    return folder


def piece_of(steps: range, value: float, began: float) -> list[dict[str, object]]:
    return [
        {METRIC: value, "global_step": step, "_step": place, "_timestamp": began + place}
        for place, step in enumerate(steps)
    ]


def test_a_resumed_history_is_one_run_and_the_later_piece_wins(tmp_path: Path) -> None:
    pieces = [*piece_of(range(0, 50, 10), 1.0, 1.7e9), *piece_of(range(30, 80, 10), 2.0, 1.7e9 + 100)]
    (run,) = brought(tmp_path / "store", history(tmp_path / "run", pieces))
    assert points(run) == ([0, 10, 20, 30, 40, 50, 60, 70], [1, 1, 1, 2, 2, 2, 2, 2])
    assert run.execution.wall_s == 104.0


def test_a_step_that_is_logged_in_a_separate_call_is_the_axis(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = []
    for place in range(4):
        rows += [{"global_step": 100 * place, "_step": 2 * place}, {METRIC: float(place), "_step": 2 * place + 1}]
    (run,) = brought(tmp_path / "store", history(tmp_path / "run", rows))
    assert points(run) == ([0, 100, 200, 300], [0, 1, 2, 3])


def test_values_of_a_history_that_json_cannot_hold(tmp_path: Path) -> None:
    values = [1.0, "NaN", "-Infinity", 10**400, "text", [1], None]
    rows = [{"a": value, "_step": step} for step, value in enumerate(values)]
    steps, found, _ = history_series(rows)["a"]
    assert steps.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(found, [1.0, np.nan, -np.inf, np.nan])


def test_the_environment_of_a_nested_configuration(tmp_path: Path) -> None:
    folder = history(tmp_path / "run", ROWS[:2], env_id=None, env={"id": "Acrobot-v1", "frame_skip": 4})
    (run,) = brought(tmp_path / "store", folder)
    assert (run.record.env_id, run.identity.env_kwargs) == ("Acrobot-v1", '{"frame_skip": 4}')


def test_a_configuration_that_names_no_environment_is_said(tmp_path: Path) -> None:
    folder = history(tmp_path / "run", ROWS[:2], env_id=None, env={"size": 4})
    with pytest.raises(UserError, match=r"unknown \(its configuration describes the environment by size\)") as caught:
        brought(tmp_path / "store", folder)
    assert caught.value.hint == "add --env-id ENV"


def test_other_files_of_wandb_are_refused_with_the_way_to_a_history(tmp_path: Path) -> None:
    (tmp_path / "h.csv").write_text(f"_step,{METRIC}\n1,5\n")
    with pytest.raises(UserError, match=r"Weights & Biases( exported)?, which is not read") as caught:
        find_imports([tmp_path / "h.csv"])
    assert "history.jsonl" in str(caught.value.hint)


def test_the_folders_in_an_offline_run_are_no_runs(tmp_path: Path) -> None:
    files = tmp_path / "wandb" / "offline-run-20261120_1-abc" / "files"
    logged(files)  # a copy
    (files.parent / "run-abc.wandb").write_bytes(b":W&B")
    folder = tmp_path / "E-v0__ppo__1__17"
    logged(folder)
    for found in (find_imports([tmp_path]), [run.folder for run in read_runs(tmp_path)]):
        assert sorted(item.path for item in found) == [folder, files.parent]


def test_children_of_a_tensorboard_writer_belong_to_its_run(tmp_path: Path) -> None:
    run_folder = tmp_path / "tb" / "CartPole-v1__ppo__3__17"
    for name, series in {
        ".": {"loss": [(0, 9.0)], METRIC: [(0, 1.0), (1, 2.0)]},
        "loss_policy": {"loss": [(0, 0.5)]},
        "loss_value": {"loss": [(0, 0.25)]},
        "1700000000.1234567": {METRIC: [(0, 99.0)]},
        "1700000001.1234567": {},
    }.items():
        (run_folder / name).mkdir(parents=True, exist_ok=True)
        (run_folder / name / "events.out.tfevents.17.h.1.0").write_bytes(events(series))
    (run,) = brought(tmp_path / "store", tmp_path / "tb")
    assert (run.record.experiment, run.record.env_id, run.record.seed) == ("ppo", "CartPole-v1", 3)
    assert points(run) == ([0, 1], [1, 2])
    assert logged_names([run]) == {"loss": 1, "loss/policy": 1, "loss/value": 1, METRIC: 1}
    assert points(run, "loss/value") == ([0], [0.25])
    (read,) = a2perf.read_runs(tmp_path / "tb")
    assert (read.name, read.task, read.seed, read.curve.steps.tolist()) == ("ppo", "CartPole-v1", 3, [0, 1])


def test_runs_below_a_folder_with_event_files_stay_runs(tmp_path: Path) -> None:
    for name in (".", "PPO_1", "PPO_2"):
        logged(tmp_path / "CartPole-v1" / name)
    assert len(a2perf.read_runs(tmp_path)) == len(find_imports([tmp_path])) == 3


def test_monitor_files_of_a_run_are_one_run_also_when_they_are_named_one_by_one(tmp_path: Path) -> None:
    files = [tmp_path / f"{place}.monitor.csv" for place in (0, 1)]
    for place, file in enumerate(files):
        file.write_text(
            '#{"t_start": 17.0, "env_id": "CartPole-v1"}\nr,l,t\n'
            f"1.0,10,{1 + place}.0\n2.0,10,{3 + place}.0\n"
            f"3.0,10,{0.5 + place}\n"  # resumed: the clock began again
        )
    (run,) = brought(tmp_path / "store", *files, experiment="ppo")
    assert points(run) == ([10, 20, 30, 40, 50, 60], [1, 1, 2, 2, 3, 3])
    assert run.execution.wall_s == 5.5
    (read,) = a2perf.read_runs(*files)
    assert read.task == "CartPole-v1"
    assert read.curve.values.tolist() == [1, 1, 2, 2, 3, 3]


def test_tables_that_continue_each_other_are_one_run_and_repeats_are_not(tmp_path: Path) -> None:
    head = "env_id,exp_name,seed,step,return\n"
    for folder, starts in (("parts", (0, 20)), ("repeats", (0, 0))):
        (tmp_path / folder).mkdir()
        for place, start in enumerate(starts):
            rows = "".join(f"Pong,dqn,1,{step},{place}\n" for step in range(start, start + 40, 10))
            (tmp_path / folder / f"{place}.csv").write_text(head + rows)
    (run,) = brought(tmp_path / "store", tmp_path / "parts")
    assert points(run) == ([0, 10, 20, 30, 40, 50], [0, 0, 1, 1, 1, 1])
    assert len(find_imports([tmp_path / "repeats"])) == 2


def test_a_table_of_several_runs_is_not_read_as_one_curve(tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text("env_id,seed,step,return\nPong,1,0,1\nPong,2,0,2\n")
    runs = a2perf.read_runs(tmp_path / "all.csv")
    assert [(run.task, run.seed, run.curve.values.tolist()) for run in runs] == [("Pong", 1, [1.0]), ("Pong", 2, [2.0])]


@pytest.mark.parametrize("form", ["history", "events", "progress", "csv"])
def test_a_logged_nan_stays_one_in_every_format_and_an_empty_cell_is_absent(form: str, tmp_path: Path) -> None:
    values = [1.0, 2.0, float("nan"), float("nan")]
    folder = tmp_path / "CartPole-v1__ppo__3__17"
    if form == "history":
        rows = [{METRIC: "NaN" if value != value else value, "global_step": step} for step, value in enumerate(values)]
        history(folder, rows)
    elif form == "events":
        logged(folder, list(enumerate(values)))
    else:
        folder.mkdir()
        name, step = ("progress.csv", "time/total_timesteps") if form == "progress" else ("curve.csv", "step")
        lines = [f"{number},{value},0.5" for number, value in enumerate(values)]
        (folder / name).write_text(f"{step},{METRIC},loss\n" + "\n".join([*lines, "4,,0.5"]) + "\n")
    runs = brought(tmp_path / "store", folder, env_id="CartPole-v1", experiment="ppo", seed=3)
    found = points(runs[0])
    assert found[0] == [0, 1, 2, 3]
    np.testing.assert_array_equal(found[1], values)
