"""The root of the repository holds what people expect there, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import run_command

EXPECTED = {
    # what the project is and how to join
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CITATION.cff",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    # the package and what belongs to it
    "a2perf",
    "docker",
    "docs",
    "examples",
    "templates",
    "tests",
    "third_party",
    # what comes as a distribution beside the core
    "packages",
    # measurements
    "perf",
    "results",
    # entry points with the names of other tools
    "compatibility",
    # building, checking and releasing
    "Makefile",
    "MANIFEST.in",
    "action.yml",
    "pyproject.toml",
    "requirements-lower.txt",
    "requirements.lock",
    "scripts",
    "setup.py",
    ".ci",
    ".devcontainer",
    ".dockerignore",
    ".github",
    ".gitignore",
    ".pre-commit-config.yaml",
}


@pytest.fixture
def tracked(repository: Path) -> list[str]:
    if not (repository / ".git").exists():
        pytest.skip("this is not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = run_command(command, repository, check=True).stdout.split("\0")
    return [name for name in names if name and (repository / name).exists()]


def test_the_root_holds_exactly_what_is_expected(tracked: list[str]) -> None:
    assert {name.partition("/")[0] for name in tracked} == EXPECTED


def test_no_file_is_large(repository: Path, tracked: list[str]) -> None:
    large = [name for name in tracked if (repository / name).stat().st_size > 3_000_000]
    assert large == []
