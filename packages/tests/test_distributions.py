"""Rules for every distribution: the core's version, entry points that load, pages that name existing commands."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from a2perf._version import __version__
from a2perf.cli.extensible import BROUGHT_BY, SUMMARIES
from tests.docs import documents

PACKAGES = Path(__file__).resolve().parents[1]
NAMES = sorted(path.parent.name for path in PACKAGES.glob("*/pyproject.toml"))


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def project(name: str) -> dict[str, Any]:
    with (PACKAGES / name / "pyproject.toml").open("rb") as stream:
        found: dict[str, Any] = tomllib.load(stream)["project"]
    return found


def test_it_has_the_name_and_the_version_of_the_core(name: str) -> None:
    assert project(name)["name"] == f"a2perf-{name}"
    assert project(name)["version"] == __version__


def test_its_entry_points_load(name: str) -> None:
    points = metadata.distribution(f"a2perf-{name}").entry_points
    assert points
    for point in points:
        assert point.load() is not None


def test_the_core_knows_its_commands(name: str) -> None:
    points = metadata.distribution(f"a2perf-{name}").entry_points.select(group="a2perf.commands")
    assert {point.name for point in points} == {command for command, place in BROUGHT_BY.items() if place == name}


def test_the_help_of_the_core_has_the_summaries_of_its_commands(name: str) -> None:
    points = metadata.distribution(f"a2perf-{name}").entry_points.select(group="a2perf.commands")
    at_the_top = {point.name: point.load().get_short_help_str(200) for point in points if "." not in point.name}
    assert at_the_top == {command: SUMMARIES[command] for command in at_the_top}


def test_the_help_imports_no_distribution() -> None:
    code = (
        "import sys; from a2perf.cli import cli\n"
        "cli.main(['--help'], standalone_mode=False)\n"
        "print(sorted(name for name in sys.modules if name.startswith(('a2perf_', 'numpy', 'gymnasium'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(f"  {command} " in done.stdout for command in SUMMARIES)
    assert done.stdout.splitlines()[-1] == "[]"


def test_its_page_names_existing_commands_and_options(name: str) -> None:
    assert list(documents.check(PACKAGES / name / "README.md")) == []
