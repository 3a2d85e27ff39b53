"""Readers of foreign files stop at a bound of values: the worst file of each costs its reader at most 1 GB."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.commands import run_a2perf
from tests.metrics.made_bundles import seal
from tests.report.recorded_runs import RunMaker

MOST_BYTES = 1_000_000_000
HANGS_S = 600


def _history(folder: Path) -> None:
    (folder / "history.jsonl").write_text('{"a":1}\n' * 5_000_000)


def _nested_history(folder: Path) -> None:
    (folder / "history.jsonl").write_text('{"a":[' + "[]," * 8_000_000 + "[]]}\n")


def _narrow_table(folder: Path) -> None:
    (folder / "progress.csv").write_text("step,return\n" + "1,1\n" * 20_000_000)


def _table_of_texts(folder: Path) -> None:
    row = ",".join(f"x{column}" for column in range(9_000))
    (folder / "progress.csv").write_text(f"step,return,{row}\n" + f"1,2,{row}\n" * 1_000)


def _monitor(folder: Path) -> None:
    (folder / "0.monitor.csv").write_text('#{"t_start":1}\nr,l,t\n' + "1,1,1\n" * 10_000_000)


def _bundle(folder: Path) -> Path:
    maker = RunMaker(folder)
    maker.manifest("run", "inference")
    maker.rollouts("run", [1.0, 2.0])
    maker.latency("run")
    seal(folder / "run" / "inference")
    return folder / "run" / "inference" / "metrics"


def _many_episodes(folder: Path) -> None:
    metrics = _bundle(folder)
    record = json.loads((metrics / "rollouts.json").read_text())
    episode = json.dumps(record.pop("episodes")[0])
    (metrics / "rollouts.json").write_text(json.dumps(record)[:-1] + ',"episodes":[' + f"{episode}," * 500_000)


def _empty_lists(folder: Path) -> None:
    (_bundle(folder) / "tracking.json").write_text('{"a":[' + "[]," * 20_000_000 + "[]]}")
    seal(folder / "run" / "inference")


def _zeros(folder: Path) -> None:
    np.savez_compressed(_bundle(folder) / "latency.npz", infer_ns=np.zeros(60_000_000))


@pytest.mark.parametrize(
    ("write", "command"),
    [
        (_history, "rlops import"),
        (_nested_history, "rlops import"),
        (_narrow_table, "score"),
        (_table_of_texts, "score"),
        (_monitor, "score"),
        (_many_episodes, "score"),
        (_empty_lists, "score"),
        (_zeros, "score"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_the_worst_file_costs_its_reader_little(write: Callable[[Path], None], command: str, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    write(folder)
    more = {
        "rlops import": ["--store", str(tmp_path / "store"), "--env-id", "Env-v0", "--exp-name", "x"],
        "score": ["-o", str(tmp_path / "scores")],
    }
    done = run_a2perf(
        *command.split(),
        folder,
        *more[command],
        timeout=HANGS_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES)),
    )
    said = done.stdout + done.stderr
    assert done.returncode in (0, 2), said
    assert "Traceback" not in said
    assert "more than" in said or "larger than" in said, said
