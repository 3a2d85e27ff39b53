"""`make setup` with an interpreter that the pinned packages do not fit: one line at once, not a build of minutes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.commands import run_command

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make on PATH")
@pytest.mark.parametrize("answer", ["exit 1", "exit 127"])
def test_another_python_is_refused_before_anything_is_installed(tmp_path: Path, answer: str) -> None:
    for name in ("Makefile", "pyproject.toml", "setup.py", "requirements.lock"):
        shutil.copyfile(REPOSITORY / name, tmp_path / name)
    other = tmp_path / "python3.13"
    other.write_text(f"#!/bin/sh\n{answer}\n")
    other.chmod(0o755)
    # the suite itself may have been started by make, which hands its options and level on
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    done = run_command(["make", f"PYTHON={other}", ".venv/.installed"], tmp_path, env=environment)
    assert done.returncode == 2
    assert f"{other} is not CPython 3.11" in done.stdout
    assert len(done.stdout.splitlines()) == 1
    assert not (tmp_path / ".venv").exists()
