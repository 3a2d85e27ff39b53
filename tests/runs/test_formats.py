"""Formats of installed packages: found, read, scored and reported; a broken one affects only its own runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from a2perf.errors import UserError
from a2perf.metrics.scores import score_runs
from a2perf.runs import find_runs, formats, read_run, read_runs
from tests.installed_package import install

_MODULE = """
import json

import numpy as np

from a2perf.runs import Run, RunFormat, RunIdentity, Series


def matches(names):
    if "explode" in names:
        raise RuntimeError("cannot look")
    return "episodes.jsonl" in names


def read(folder):
    config = json.loads((folder.path / "config.json").read_text())
    rows = [json.loads(line) for line in folder.files().read("episodes.jsonl", 1 << 20).splitlines()]
    steps, returns = (np.array([row[name] for row in rows], float) for name in ("step", "return"))
    identity = RunIdentity(task=config["task"], algorithm=config["algorithm"], seed=config["seed"], mode="train")
    return Run(identity, curve=Series("return", "episodes.jsonl", steps, returns))


LAB = RunFormat("Lab trainer", matches, read)
TAKEN = RunFormat("CSV file", matches, read)
"""
_POINTS = """[a2perf.run_formats]
lab = format_of_a_package:LAB
taken = format_of_a_package:TAKEN
missing = format_of_a_package:NOWHERE
number = json:decoder
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    install(tmp_path / "package", monkeypatch, "format_of_a_package", _MODULE, _POINTS)
    formats.reload()
    yield
    formats.reload()


def recorded(folder: Path, seed: int, rows: int = 30) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"task": "Toy-v0", "algorithm": "ppo", "seed": seed}))
    lines = [json.dumps({"step": 10 * row, "return": row + seed}) for row in range(rows)]
    (folder / "episodes.jsonl").write_text("\n".join(lines))
    (folder / "progress.csv").write_text("step,return\n0,1\n")  # without the package these are training logs
    return folder


def test_runs_of_a_package_are_found_and_read(tmp_path: Path) -> None:
    for seed in range(3):
        recorded(tmp_path / "runs" / f"run_{seed}", seed)
    runs = read_runs([tmp_path / "runs"])
    assert [(run.folder.layout, run.identity.seed, run.mode) for run in runs] == [
        ("Lab trainer", seed, "train") for seed in range(3)
    ]
    assert runs[0].curve is not None
    assert runs[0].curve.values[-1] == 29
    assert [run.conditions for run in runs] == [[], [], []]


def test_runs_of_a_package_are_scored_and_read_again_when_the_package_changes(tmp_path: Path) -> None:
    for seed in range(3):
        recorded(tmp_path / "runs" / f"run_{seed}", seed)
    (group,) = score_runs([tmp_path / "runs"])["groups"]
    assert (group["task"], group["algorithm"], group["seeds"]) == ("Toy-v0", "ppo", [0, 1, 2])
    (found, *_) = find_runs([tmp_path / "runs"])
    before = formats.run_formats()["Lab trainer"].stamp()
    module = tmp_path / "package" / "format_of_a_package.py"
    module.write_text(_MODULE + "\n# changed\n")
    assert formats.run_formats()["Lab trainer"].stamp() != before
    assert found.layout == "Lab trainer"


def test_damage_becomes_a_condition(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "runs" / "ppo_1", 0)
    (folder / "episodes.jsonl").write_text("{")
    (found,) = find_runs([folder])
    run = read_run(found)
    assert run.conditions == [
        "could not be read by the format 'Lab trainer': JSONDecodeError: Expecting property name enclosed in double "
        "quotes: line 1 column 2 (char 1)"
    ]
    assert run.algorithm == "ppo"


def test_formats_that_cannot_be_used_are_listed(tmp_path: Path) -> None:
    assert "Lab trainer" in formats.run_formats()  # beside those of installed distributions
    wrong = formats.problems()
    assert wrong["taken"].endswith("the name 'CSV file' is taken")
    assert "AttributeError" in wrong["missing"]
    assert wrong["number"].endswith("is not a RunFormat")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="the run format missing could not be loaded"):
        find_runs([tmp_path / "empty"])


def test_a_format_that_fails_on_a_folder_is_named(tmp_path: Path) -> None:
    (recorded(tmp_path / "runs", 0) / "explode").touch()
    with pytest.raises(UserError, match="'Lab trainer' failed on a folder: RuntimeError: cannot look") as caught:
        find_runs([tmp_path / "runs"])
    assert "format_of_a_package" in (caught.value.hint or "")
