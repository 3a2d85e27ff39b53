"""Conditions of runs: what is recorded of a command's Python, and what a comparison says when they differ."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from a2perf.rlops.compare.notices import differences
from a2perf.rlops.store import Store
from a2perf.runs.bundles.run_record import ExperimentRun
from a2perf.runs.conditions import packages_of
from a2perf.runs.run import Run
from tests.commands import run_a2perf
from tests.rlops.made_runs import METRIC, write_run, write_seeds


def executed(run: Run, **given: object) -> Run:
    return dataclasses.replace(run, execution=dataclasses.replace(run.execution, **given))  # type: ignore[arg-type]


@pytest.fixture
def plain_run(tmp_path: Path) -> Run:
    write_run(tmp_path / "runs", "ppo/E/v1/seed_1", env_id="E")
    (found,) = Store(tmp_path / "runs").runs()
    return executed(found, python="CPython 3.11.7", packages={"numpy": "2.0", "torch": "2.4"})


def test_packages_are_those_of_the_python_that_a_command_names(tmp_path: Path) -> None:
    own = packages_of([sys.executable, "train.py"])
    assert own["numpy"] == np.__version__
    site = tmp_path / "other" / "lib" / "python3.12" / "site-packages" / "torch-9.9.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: Torch\nVersion: 9.9\n")
    python = tmp_path / "other" / "bin" / "python3.12"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nexit 9\n")
    python.chmod(0o755)
    assert packages_of(["nice", str(python), "train.py"]) == {"torch": "9.9"}
    assert packages_of(["./train.sh"]) == packages_of(["/no/such/python3"]) == {}


def test_equal_or_unknown_conditions_are_not_mentioned(plain_run: Run) -> None:
    unknown = executed(plain_run, host="", started_at="", python="", packages={})
    assert differences([plain_run], [plain_run]) == []
    assert differences([plain_run], [unknown]) == differences([unknown], [plain_run]) == []
    tomorrow = executed(plain_run, started_at="2026-11-02T08:00:00.000+00:00")
    assert differences([plain_run, tomorrow], [plain_run]) == []


def test_each_condition_that_differs_is_named(plain_run: Run) -> None:
    other = executed(
        plain_run,
        host="node7",
        started_at="2026-11-20T08:00:00.000+00:00",
        python="CPython 3.12.1",
        packages={"numpy": "2.1", "torch": "2.4", "jax": "0.5"},
    )
    assert differences([other], [plain_run]) == [
        "hosts differ (node7 against elsewhere)",
        "no day has runs of both (2026-11-20 against 2026-11-01)",
        "Python differs (CPython 3.12.1 against CPython 3.11.7)",
        "packages differ (jax 0.5 against missing; numpy 2.1 against 2.0)",
    ]
    # the same two hosts on both sides are what interleaving gives
    assert differences([other, plain_run], [plain_run, other]) == []
    many = executed(plain_run, packages={f"p{at}": "1" for at in range(9)})
    assert differences([many], [plain_run])[-1].endswith("p3 1 against missing and 6 more)")


def test_comparison_and_record_carry_the_notice(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    for tag, numpy in (("new", "2.1"), ("old", "2.0")):
        curves = {seed: {METRIC: [(step, 100.0 + seed) for step in range(9)]} for seed in range(1, 4)}
        for path in write_seeds(store, tag, curves):
            record = msgspec.json.decode((path / "rlops.json").read_bytes(), type=ExperimentRun)
            record.packages = {"numpy": numpy}
            (path / "rlops.json").write_bytes(msgspec.json.encode(record))
    words = ["rlops", "--exp-name", "ppo", "--tags", "new", "old", "--store", store, "--no-figures", "--no-report"]
    done = run_a2perf(*words, cwd=tmp_path, check=True)
    expected = "new and old: packages differ (numpy 2.1 against 2.0). Scores cannot show what this changes"
    assert f"notice: {expected}" in done.stdout
    assert any(notice.startswith(expected) for notice in json.loads((tmp_path / "compare.json").read_text())["notices"])
