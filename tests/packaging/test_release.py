"""``scripts/release.py`` in a small repository; slow tests build and release, also a clone of this one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "a2perf"
version = "1.0.0"
[tool.setuptools]
packages = ["a2perf"]
"""
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n* A thing.\n\n## [1.0.0] - 2026-11-20\n\nFirst.\n"


def git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def release(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "release.py"), *words, "--root", str(root)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    (folder / "a2perf").mkdir(parents=True)
    (folder / "a2perf" / "__init__.py").write_text("")
    shutil.copyfile(ROOT / "a2perf" / "_version.py", folder / "a2perf" / "_version.py")
    shutil.copyfile(ROOT / "CITATION.cff", folder / "CITATION.cff")
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "packages" / "serve").mkdir(parents=True)
    (folder / "packages" / "serve" / "pyproject.toml").write_text(
        '[project]\nname = "a2perf-serve"\nversion = "1.0.0"\n'
    )
    (folder / "CHANGELOG.md").write_text(CHANGELOG)
    (folder / ".gitignore").write_text("dist/\nbuild/\n*.egg-info/\n")
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "config", "user.name", "Ada")
    git(folder, "config", "user.email", "ada@example.org")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "Begin")
    return folder


@pytest.mark.slow
def test_a_release_is_built_committed_and_tagged(repo: Path) -> None:
    done = release(repo, "1.1.0", "--skip-tests")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "publish it with: git push origin main v1.1.0" in done.stdout
    assert sorted(path.name for path in (repo / "dist").iterdir()) == [
        "a2perf-1.1.0-py3-none-any.whl",
        "a2perf-1.1.0.tar.gz",
    ]
    assert git(repo, "tag") == "v1.1.0"
    assert git(repo, "log", "-1", "--format=%s") == "Release 1.1.0"
    changed = git(repo, "show", "--name-only", "--format=").splitlines()
    projects = ["packages/serve/pyproject.toml", "pyproject.toml"]
    assert changed == ["CHANGELOG.md", "CITATION.cff", "a2perf/_version.py", *projects]
    assert all('version = "1.1.0"' in (repo / project).read_text() for project in projects)
    assert git(repo, "status", "--porcelain") == ""
    assert '__version__ = "1.1.0"' in (repo / "a2perf" / "_version.py").read_text()
    date = git(repo, "show", "-s", "--format=%ad", "--date=format-local:%Y-%m-%d")
    assert f"## [Unreleased]\n\n## [1.1.0] - {date}\n\n### Added\n\n* A thing.\n" in (repo / "CHANGELOG.md").read_text()
    assert f"version: 1.1.0\ndate-released: {date}\n" in (repo / "CITATION.cff").read_text()
    again = release(repo, "1.2.0", "--skip-tests")
    assert again.returncode == 2
    assert "lists nothing under Unreleased" in again.stderr


def test_a_dry_run_changes_nothing(repo: Path) -> None:
    done = release(repo, "2.0.0rc1", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert '+__version__ = "2.0.0rc1"' in done.stdout
    assert "+## [2.0.0rc1] - " in done.stdout
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "tag") == ""
    assert not (repo / "dist").exists()


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("latest", "'latest' is not a version"),
        ("1.0.0", "1.0.0 does not come after the current version 1.0.0"),
    ],
)
def test_a_version_must_be_semantic_and_higher(repo: Path, version: str, message: str) -> None:
    done = release(repo, version, "--skip-tests")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Hint: give" in done.stderr


def test_a_release_needs_a_clean_tree_on_main_and_a_free_tag(repo: Path) -> None:
    (repo / "new.txt").write_text("x")
    assert "the working tree has changes:\n  ?? new.txt" in release(repo, "1.1.0", "--skip-tests").stderr
    (repo / "new.txt").unlink()
    git(repo, "tag", "v1.1.0")
    assert "the tag v1.1.0 exists" in release(repo, "1.1.0", "--skip-tests").stderr
    git(repo, "switch", "--quiet", "-c", "feature")
    assert "releases are made on main, not on feature" in release(repo, "1.2.0", "--skip-tests").stderr


def test_failed_tests_release_nothing(repo: Path) -> None:
    done = release(repo, "1.1.0")  # there is no Makefile
    assert done.returncode == 2
    assert "nothing was released" in done.stderr
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "tag") == ""


@pytest.mark.slow
def test_a_failed_build_restores_the_files(repo: Path) -> None:
    (repo / "pyproject.toml").write_text(PYPROJECT.replace("setuptools.build_meta", "no_such_backend"))
    git(repo, "commit", "--quiet", "-a", "-m", "Break the build")
    done = release(repo, "1.1.0", "--skip-tests")
    assert done.returncode == 2
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "tag") == ""


@pytest.mark.slow
def test_a_clone_of_this_repository_can_be_released(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(ROOT, "clone", "--quiet", "--depth", "1", "--branch", "main", f"file://{ROOT}", str(clone))
    git(clone, "config", "user.name", "Ada")
    git(clone, "config", "user.email", "ada@example.org")
    done = release(clone, "99.0.0", "--skip-tests")
    assert done.returncode == 0, done.stdout + done.stderr
    assert git(clone, "tag") == "v99.0.0"
    assert (clone / "dist" / "a2perf-99.0.0-py3-none-any.whl").stat().st_size > 500_000
