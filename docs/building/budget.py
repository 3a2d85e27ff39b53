"""The size of the project, against the five ceilings in ``pyproject.toml``.

``tests/test_structure.py`` allows 1 % above a ceiling, so an ordinary change edits none of them.
``python -m docs.building.import_graph --budget`` prints this table, and the lines of each package of the platform.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from docs.building.import_graph import ORDER, ROOT, lines

ENGINES = ("web_navigation", "quadruped_locomotion", "circuit_training")
"""Folders of ``a2perf/domains`` that no module of the platform imports."""


def measured(root: Path = ROOT) -> dict[str, int]:
    """Returns every number that has a ceiling."""
    engines = sum(_lines(root / "a2perf" / "domains" / name) for name in ENGINES)
    return {
        "lines of the platform": _lines(root / "a2perf") - engines,
        "lines of engines": engines,
        "lines of distributions": sum(_lines(path) for path in (root / "packages").glob("*/src")),
        "lines of core tests": _lines(root / "tests"),
        "words of docs": sum(len(path.read_text(encoding="utf-8").split()) for path in (root / "docs").rglob("*.md")),
    }


def ceilings(root: Path = ROOT) -> dict[str, int]:
    """Returns the ceiling of each number."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    found: dict[str, int] = tomllib.loads(text)["tool"]["a2perf"]["ceilings"]
    return found


def table(root: Path = ROOT) -> str:
    """Returns one line per ceiling, and one per package of ``a2perf``, engines included."""
    allowed, of_packages = ceilings(root), lines(root)
    rows = [f"{'':24}{'now':>9}{'ceiling':>9}"]
    rows += [f"{name:24}{value:9,}{allowed[name]:9,}" for name, value in measured(root).items()]
    rows += [f"  {name:22}{of_packages[name]:9,}" for name in ORDER]
    return "\n".join(rows)


def _lines(folder: Path) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folder.rglob("*.py"))
