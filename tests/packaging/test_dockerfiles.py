"""Every domain has a Dockerfile, its context is complete, and it installs the right part of the lock.

Nothing is built here: that needs an engine and minutes. What can rot without one is checked.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from a2perf.domains import get_domain
from tests.commands import run_command
from tests.scripts import load_script

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
BUILT_IN = ("circuit_training", "quadruped_locomotion", "web_navigation")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_script(DOCKER / "pinned.py", monkeypatch)


_ENGINES = {"quadruped_locomotion": [pytest.mark.group("pybullet")]}


@pytest.mark.parametrize("name", [pytest.param(name, marks=_ENGINES.get(name, ())) for name in BUILT_IN[:2]])
def test_the_step_that_compiles_kernels_runs(name: str, tmp_path: Path) -> None:
    (words,) = re.findall(r"install\.sh --kernels (\S+)", (DOCKER / f"{name}.Dockerfile").read_text())
    done = run_command([sys.executable, str(DOCKER / "compile_kernels.py"), words], tmp_path, check=True)
    assert "no kernels" not in done.stdout


def test_the_file_of_buildx_has_every_domain() -> None:
    (listed,) = re.findall(r'variable "DOMAINS" \{ default = (\[.*\]) \}', (DOCKER / "docker-bake.hcl").read_text())
    assert sorted(json.loads(listed)) == sorted(BUILT_IN)


_LOCKED = [pytest.param(name, marks=pytest.mark.group("pybullet") if "quadruped" in name else ()) for name in BUILT_IN]


@pytest.mark.parametrize("name", _LOCKED)  # the lock is for 3.11: newer Pythons have another engine for the robot
def test_the_lock_has_every_package_of_an_image_and_no_test_tool(name: str, module: ModuleType) -> None:
    command = [sys.executable, str(DOCKER / "pinned.py"), str(ROOT), get_domain(name).extra]
    printed = run_command(command, check=True).stdout
    names = set(module.entries(printed))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"][get_domain(name).extra]]
    wanted = [each for each in wanted if module.applies(each)]
    assert {module.normalised(requirement) for requirement in wanted} <= names
    assert not names & {"pytest", "mypy", "ruff", "hypothesis", "mujoco"}
    assert all("--hash=sha256:" in block for block in module.entries(printed).values())
