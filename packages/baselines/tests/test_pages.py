"""The code blocks of the pages are well-formed; those of the distribution's own page run, the others in slow tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs import documents

REPOSITORY = Path(__file__).resolve().parents[3]
FOLDER = REPOSITORY / "packages" / "baselines"
OWN = FOLDER / "README.md"
PAGES = sorted(FOLDER.glob("examples/*/README.md"))


def runs(page: Path) -> bool:
    return any(block.kind in ("sh", "python") and not block.not_executed for block in documents.blocks_of(page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_blocks_are_well_formed_and_name_existing_commands_and_options(page: Path) -> None:
    assert list(documents.check(page)) == []


@pytest.mark.parametrize(
    "page",
    [OWN, *(pytest.param(page, marks=[pytest.mark.slow, pytest.mark.timeout(900)]) for page in PAGES if runs(page))],
    ids=lambda page: page.parent.name,
)
def test_blocks_run(page: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in (Path("packages", "baselines", "examples"), Path("examples"), Path("results", "recorded")):
        shutil.copytree(REPOSITORY / folder, work / folder, ignore=ignored)
    assert documents.run(page, work, documents.installation(tmp_path)) >= 1


def test_every_module_imports_or_names_its_framework() -> None:
    """Only a module of a framework may need it, and names the command that installs it."""
    import importlib
    import pkgutil

    import a2perf_baselines
    from a2perf.errors import MissingDependency

    frameworks = ("learning.tf_agents.", "learning.sb3.", "learning.torch.", "quadruped_locomotion.")
    imported, failed = 0, []
    for module in pkgutil.walk_packages(a2perf_baselines.__path__, "a2perf_baselines."):
        try:
            importlib.import_module(module.name)
            imported += 1
        except MissingDependency as error:
            if not module.name.removeprefix("a2perf_baselines.").startswith(frameworks) or not error.hint:
                failed.append(f"{module.name}: {error}")
    assert failed == []
    assert imported >= 15
