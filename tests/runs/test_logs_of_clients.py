"""Logs that real clients wrote (``tests/recorded/logs``): every command reads the same runs, and names damage."""

from __future__ import annotations

import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import a2perf
from a2perf.errors import UserError
from a2perf.rlops.store import Store
from a2perf.runs.events.wandb_files import wandb_run
from a2perf.runs.stores.importing import find_imports, import_run
from a2perf.runs.stores.store import read_curve
from tests.commands import call_a2perf
from tests.recorded.logs.record import HERE, STEPS, returned

FORMATS = {
    "wandb": "wandb",
    "mlflow": "mlflow",
    "evaluations": "sb3",
    "monitor": "sb3",
    "progress": "sb3",
    "tensorboard": "tensorboard",
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_command_reads_the_runs_of_a_client(name: str, tmp_path: Path) -> None:
    logs = HERE / name
    steps = STEPS[1:] if name == "evaluations" else STEPS
    runs = a2perf.read_runs(logs)
    assert sorted((run.name, run.task, run.seed) for run in runs) == [
        (algorithm, "CartPole-v1", seed) for algorithm in ("dqn", "ppo") for seed in range(3)
    ]
    for run in runs:
        first = 100.0 if run.name == "ppo" else 50.0
        assert run.curve.steps.tolist() == list(range(1, 11) if name == "monitor" else steps)
        assert run.curve.values.tolist() == [returned(first, run.seed, step) for step in steps]
        assert run.conditions == ()
    status, out, err = call_a2perf("compare", logs / "dqn", logs / "ppo")
    assert (status, err) == (0, "")
    assert out.startswith(f"{logs / 'ppo'}: better. Baseline: {logs / 'dqn'}; 6 runs on 1 environment.")
    assert call_a2perf("score", logs, "-o", tmp_path / "scores")[::2] == (0, "")
    status, out, err = call_a2perf("report", logs, "-o", tmp_path / "report")
    assert (status, err) == (0, "")
    assert re.match(
        r"CartPole-v1: ppo 10[78]\.[05] ± 3\.0 \(final return \[10\d\.\d, 11\d\.\d\]\)\. ppo against dqn: better ", out
    )
    page = (tmp_path / "report" / "index.html").read_text()
    assert not [words for words in ("confinement", "no hashes", ">Worst 5 %<", "not evaluated") if words in page]
    store = tmp_path / "store"
    store.mkdir()
    for item in find_imports([logs]):
        assert import_run(store, item).conditions == ()
    imported = Store(store).runs()
    assert {run.record.source for run in imported} == {FORMATS[name]}
    curve = read_curve(next(run for run in imported if (run.record.experiment, run.record.seed) == ("ppo", 2)), None)
    assert curve is not None
    assert curve.values.tolist() == [returned(100.0, 2, step) for step in steps]


def test_configuration_of_a_wandb_run_tells_groups_apart() -> None:
    status, out, _ = call_a2perf("compare", HERE / "wandb", "--by", "exp_name")
    assert (status, out.partition(";")[0]) == (0, "ppo: better. Baseline: dqn")


def test_wandb_run_that_mirrors_a_folder_of_events_counts_once(tmp_path: Path) -> None:
    run = next((HERE / "wandb" / "ppo").iterdir())
    shutil.copytree(run, tmp_path / "wandb" / run.name)
    name = a2perf.read_runs(run)[0].seed
    folder = tmp_path / "runs" / f"CartPole-v1__ppo__{name}__17"
    folder.mkdir(parents=True)
    (folder / "progress.csv").write_text("step,return\n1,2\n2,3\n")
    (found,) = a2perf.read_runs(tmp_path)
    assert found.curve.values.tolist() == [2, 3]


def test_wandb_file_that_was_cut_off_or_damaged_is_read_up_to_there(tmp_path: Path) -> None:
    (file,) = next((HERE / "wandb" / "dqn").iterdir()).glob("*.wandb")
    data = file.read_bytes()
    whole = wandb_run(data)
    counts = [len(wandb_run(data[:end]).rows) for end in range(7, len(data), 97)]
    assert counts == sorted(counts)
    assert (counts[0], whole.problems, len(whole.rows)) == (0, [], len(STEPS))
    rng = np.random.default_rng(0)
    for _ in range(300):  # no damage raises anything but an error of the user's
        broken = bytearray(data)
        for place in rng.integers(7, len(data), 5):
            broken[place] = rng.integers(256)
        wandb_run(bytes(broken))
    with pytest.raises(UserError, match="not a file of Weights & Biases"):
        wandb_run(b"PK\x03\x04")


def test_metric_of_mlflow_that_grows_is_read_again(tmp_path: Path) -> None:
    run = next((HERE / "mlflow" / "ppo").glob("*/*/meta.yaml")).parent
    shutil.copytree(run, tmp_path / "CartPole-v1" / "run")
    assert len(a2perf.read_runs(tmp_path)[0].curve.values) == len(STEPS)
    metrics = tmp_path / "CartPole-v1" / "run" / "metrics" / "rollout"
    with (metrics / "ep_rew_mean").open("a") as stream:
        stream.write("1795975364396 40.0 1000\n17959")
    (metrics / "broken").write_text("a b c\n")
    (found,) = a2perf.read_runs(tmp_path)
    assert (found.curve.values[-1], len(found.curve.values)) == (40.0, len(STEPS) + 1)
    assert found.conditions == ("meta.yaml: the metric rollout/broken holds lines that are not numbers; left out",)


def test_damaged_evaluations_are_named_in_one_line(tmp_path: Path) -> None:
    data = next((HERE / "evaluations").rglob("*.npz")).read_bytes()
    file = tmp_path / "CartPole-v1" / "evaluations.npz"
    file.parent.mkdir()
    pickled = io.BytesIO()
    np.savez(pickled, timesteps=np.arange(2), results=np.array([{}, {}], object))
    for content in (data[:100], data[: len(data) // 2], b"", pickled.getvalue()):
        file.write_bytes(content)
        (run,) = a2perf.read_runs(tmp_path)
        assert run.curve is None
        assert run.conditions[0] == "evaluations.npz: not evaluations of Stable-Baselines3"


def test_export_of_the_site_of_wandb_holds_a_run_per_name(tmp_path: Path) -> None:
    names = [f"CartPole-v1__{name}__{seed}__17" for name in ("ppo", "dqn") for seed in range(3)]
    heads = [f"{name} - charts/episodic_return{bound}" for name in names for bound in ("", "__MIN", "__MAX")]
    rows = []
    for step in STEPS:  # each run logged in rows of its own, as on the site
        for place, name in enumerate(names):
            value = returned(100.0 if "ppo" in name else 50.0, place % 3, step)
            cells = [""] * len(heads)
            cells[3 * place : 3 * place + 3] = [str(value)] * 3
            rows.append(",".join(f'"{cell}"' for cell in (str(step), *cells)))
    file = tmp_path / "export.csv"
    file.write_text("\n".join([",".join(f'"{head}"' for head in ("Step", *heads)), *rows, ""]))
    status, out, err = call_a2perf("compare", file, "--baseline", "dqn")
    assert (status, err, out.partition(";")[0]) == (0, "", "ppo: better. Baseline: dqn")
    runs = a2perf.read_runs(file)
    assert [(run.name, run.task, run.seed, len(run.curve.values)) for run in runs if run.name == "ppo"] == [
        ("ppo", "CartPole-v1", seed, len(STEPS)) for seed in range(3)
    ]
    assert {group["algorithm"] for group in a2perf.score(file).document["groups"]} == {"ppo", "dqn"}
    assert call_a2perf("report", file, "-o", tmp_path / "report.html")[0] == 0
    assert {item.identity().seed for item in find_imports([file])} == {0, 1, 2}


@pytest.mark.parametrize(("content", "words"), [(b"PK", "not a file of"), (None, "exceeds the limit")])
def test_hostile_wandb_file_names_itself_in_one_line(content: bytes | None, words: str, tmp_path: Path) -> None:
    file = tmp_path / "run-1.wandb"
    file.write_bytes(content or b":W&B")
    if content is None:
        with file.open("r+b") as stream:
            stream.truncate(1 << 40)
    (run,) = a2perf.read_runs(file)
    assert run.curve is None
    assert [line for line in run.conditions if words in line and line.startswith("run-1.wandb: ")]


def test_a_monitor_file_of_two_writers_is_one_session_in_the_order_of_its_rows(tmp_path: Path) -> None:
    rows = "".join(f"{n},2,{n + clock}\n" for n in range(20) for clock in (0.0, 50.0))
    (tmp_path / "monitor.csv").write_text('#{"t_start": 1.0, "env_id": "CartPole-v1"}\nr,l,t\n' + rows)
    (run,) = a2perf.read_runs(tmp_path)
    assert run.conditions == ()
    assert run.curve is not None
    assert run.curve.values.tolist() == [n for n in range(20) for _ in range(2)]
    assert run.curve.steps.tolist() == list(range(2, 82, 2))


def test_logs_of_cleanrl_without_returns_name_the_reason(tmp_path: Path) -> None:
    rows = [{"_step": step, "charts/SPS": 100.0} for step in range(3)]
    (tmp_path / "history.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (run,) = a2perf.read_runs(tmp_path)
    assert "CleanRL's scripts log none with Gymnasium 1" in run.conditions[-1]
