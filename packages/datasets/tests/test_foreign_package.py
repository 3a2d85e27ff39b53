"""A dataset of an environment of a package that only the command line names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import run_a2perf
from tests.domains.test_foreign_package import NAMES, TANKS
from tests.made_submissions import policy, write_submission


def test_a_dataset_keeps_the_package_of_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "tank_envs.py").write_text(TANKS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "sets"))
    entry = write_submission(tmp_path / "entry", policy(load="return 0"), tank_envs=TANKS)
    words = ("generate", "--submission", entry, "--task", NAMES[0], "--episodes", 2, "--sandbox", "process")
    done = run_a2perf("datasets", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 episodes, 10 steps" in done.stdout
