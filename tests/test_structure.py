"""The structure of the package: no import cycle, one meaning per class name, one place for the names of files."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from docs.building import import_graph

SHARED_CLASS_NAMES: dict[str, str] = {
    "Table": "a2perf.Table holds data; a2perf.report.tables.Table, the table of a page, belongs to report sections",
}
"""Class names that several modules may define, each with the reason."""


def test_no_module_imports_itself_through_others() -> None:
    assert import_graph.cycles(import_graph.imports()) == []


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}, [["a", "b", "c"]]),
        ({"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"c"}}, [["a", "b"], ["c", "d"]]),
    ],
)
def test_cycles_are_found(graph: dict[str, set[str]], found: list[list[str]]) -> None:
    assert import_graph.cycles({name: frozenset(others) for name, others in graph.items()}) == found


def test_late_imports_and_those_for_types_count() -> None:
    tree = ast.parse(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a2perf.b import B\n"
        "def late():\n    import a2perf.c\n"
    )
    known = dict.fromkeys(("a2perf", "a2perf.a", "a2perf.b", "a2perf.c"), tree)
    assert import_graph._imported(tree, known) == {"a2perf.b", "a2perf.c"}


def test_a_class_name_has_one_meaning() -> None:
    shared = import_graph.shared_class_names()
    assert set(shared) == set(SHARED_CLASS_NAMES), {
        name: shared.get(name) for name in {*shared} ^ {*SHARED_CLASS_NAMES}
    }
    assert len(SHARED_CLASS_NAMES) <= 15


def test_one_module_spells_the_file_names_of_a_bundle(repository: Path) -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in (repository / "a2perf").rglob("*.py")}
    spelled = [
        path.relative_to(repository).as_posix()
        for path, text in texts.items()
        if "manifest.json" in text
        and any(isinstance(node, ast.Constant) and node.value == "manifest.json" for node in ast.walk(ast.parse(text)))
    ]
    assert spelled == ["a2perf/runs/layout.py"]


def test_the_files_that_the_architecture_names_exist(repository: Path) -> None:
    text = (repository / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_/]+\.py)`", text)
    assert len(named) > 40
    assert [
        name for name in named if not ((repository / "a2perf" / name).exists() or (repository / name).exists())
    ] == []


def test_the_packages_of_the_architecture_are_the_layers_of_the_contract(repository: Path) -> None:
    text = (repository / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("## Packages\n")[2].partition("\n## ")[0]
    named = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    contracts = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (layers,) = [contract["layers"] for contract in contracts["contracts"] if contract["type"] == "layers"]
    of_contract = [name for layer in layers for name in re.findall(r"a2perf\.(\w+)", layer)]
    assert [name for row in named for name in re.findall(r"`(\w+)`", row)] == of_contract
