"""An interpreter that looks like another system to a2perf: each file of tests names the module that changes it."""

from __future__ import annotations

import site
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import run_command

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def host_python(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The interpreter of a virtual environment of which every process imports the simulation first."""
    folder = tmp_path_factory.mktemp("host")
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    # editable distributions are found through .pth files, which a path alone does not read
    added = [f"import site; site.addsitedir({folder!r})" for folder in site.getsitepackages()]
    lines = [*added, str(REPOSITORY), f"import {request.module.SIMULATION}"]
    (packages / "simulation.pth").write_text("\n".join(lines) + "\n")
    for module in Path(__file__).parent.glob("*.py"):
        if not module.name.startswith(("test_", "conftest")):
            (packages / module.name).write_text(module.read_text())
    return folder / "bin" / "python"


@pytest.fixture
def a2perf(host_python: Path, tmp_path: Path) -> Callable[..., str]:
    """Runs a command there and returns what it printed."""

    def run(*words: object, status: int = 0) -> str:
        ended = run_command([str(host_python), "-m", "a2perf", *map(str, words)], tmp_path, errors="replace")
        assert ended.returncode == status, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    return run
