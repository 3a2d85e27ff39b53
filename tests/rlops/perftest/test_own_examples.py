"""The performance tests of a2perf's own examples, one for each domain, conducted as `perftest run` does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from a2perf.experiments.performance_test.configuration import find_tests, read_test
from tests.commands import run_a2perf

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
    done = run_a2perf(
        "perftest", "run", name, "--store", tmp_path, cwd=repository / "compatibility", timeout=3600, check=True
    )
    assert f"Performance test {name} successful!" in done.stdout
