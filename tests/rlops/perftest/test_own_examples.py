"""The performance tests of a2perf's own examples, one for each domain, conducted as `perftest run` does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from a2perf.experiments.performance_test.configuration import find_tests, read_test

OWN = ("CircuitTraining/annealing_placer-test", "WebNavigation/web_solver-test", "QuadrupedLocomotion/numpy_ars-test")


@pytest.mark.parametrize("name", OWN)
def test_they_can_be_read_from_any_folder(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.chdir(tmp_path)
    for place in (repository / "compatibility", shutil.copytree(repository / "compatibility", tmp_path / "copy")):
        conf = place / "conf" / "performance"
        (path,) = find_tests([name], conf=conf)
        test = read_test(path, conf=conf)
        assert test.notices == ()
        assert test.submission is not None
        assert (test.submission / "inference.py").is_file()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", OWN)
def test_they_pass(repository: Path, tmp_path: Path, name: str):
    passes(repository, tmp_path, name)


def passes(repository: Path, tmp_path: Path, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "a2perf", "perftest", "run", name, "--store", str(tmp_path)],
        cwd=repository / "compatibility", env=dict(os.environ), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Performance test {name} successful!" in done.stdout
