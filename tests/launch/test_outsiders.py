"""An experiment below a path that its authors do not have.

Two launches into one root, and an interrupt in the middle, are in test_experiment.
"""

from __future__ import annotations

from pathlib import Path

from a2perf.runs.bundles.bundle import validate
from tests.commands import run_a2perf
from tests.launch.entries import Stage

_ODD = "Übung mit Leerzeichen & $HOME 'ä' [x]"


def test_a_path_with_spaces_umlauts_and_signs_of_the_shell(tmp_path: Path) -> None:
    (tmp_path / _ODD).mkdir()
    stage = Stage(tmp_path / _ODD, ("--gin_config", "training.gin", "--gin_config", "inference.gin"))
    status, output = stage.run()
    assert status == 0, output
    bundles = list(stage.bundles().values())
    assert len(bundles) == 2
    assert [problem for bundle in bundles for problem in validate(bundle)] == []
    report = tmp_path / _ODD / "report ü"
    run_a2perf("report", stage.root, "-o", report, cwd=stage.folder, check=True)
    assert list(report.rglob("*.html"))
