"""Every domain has a Dockerfile, its context is complete, and it installs the right part of the lock.

Nothing is built here: that needs an engine and minutes. What can rot without one is checked.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from a2perf.domains import get_domain
from tests.scripts import load_script

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
BUILT_IN = ("circuit_training", "quadruped_locomotion", "web_navigation")
LOCK = """\
alpha==1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:ab
    # via project (pyproject.toml)
beta[socks]==2.0 \\
    --hash=sha256:bb
    # via
    #   alpha
    #   gamma
gamma==3.0 \\
    --hash=sha256:cc
    # via project (pyproject.toml)
Delta_Two==4.0 \\
    --hash=sha256:dd
    # via beta
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_script(DOCKER / "pinned.py", monkeypatch)


def test_a_requirement_brings_what_it_needs_and_nothing_else(module: ModuleType) -> None:
    assert [block.split("==")[0] for block in module.pinned(LOCK, ["alpha>=0.5"])] == [
        "alpha",
        "beta[socks]",
        "Delta_Two",
    ]
    (gamma_only,) = (block for block in module.pinned(LOCK, ["gamma"]) if block.startswith("gamma"))
    assert "--hash=sha256:cc" in gamma_only
    assert [block.split("==")[0] for block in module.pinned(LOCK, ["delta.two; python_version > '3'"])] == ["Delta_Two"]
    with pytest.raises(KeyError, match="epsilon"):
        module.pinned(LOCK, ["epsilon"])


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_lock_has_every_package_of_an_image_and_no_test_tool(name: str, module: ModuleType) -> None:
    command = [sys.executable, str(DOCKER / "pinned.py"), str(ROOT), get_domain(name).extra]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = set(module.entries(printed))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"][get_domain(name).extra]]
    wanted = [each for each in wanted if module.applies(each)]
    assert {module.normalised(requirement) for requirement in wanted} <= names
    assert not names & {"pytest", "mypy", "ruff", "hypothesis", "mujoco"}
    assert all("--hash=sha256:" in block for block in module.entries(printed).values())
