"""The public names of ``import a2perf``: listed once, documented, with examples that run."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pydoc
import shutil
from pathlib import Path
from typing import Any

import pytest

import a2perf
from docs.building import python_api
from tests.commands import run_python

FUNCTIONS = sorted(name for name in a2perf._HOMES if inspect.isfunction(getattr(a2perf, name)))
TYPES = sorted(set(a2perf._HOMES) - set(FUNCTIONS))
SLOW = {"evaluate", "submit", "write_leaderboard", "write_report"}


def typing_imports() -> dict[str, str]:
    """Returns the names that type checkers see, with their modules."""
    tree = ast.parse(Path(a2perf.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.asname or alias.name: str(node.module).removeprefix("a2perf.")
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
    }


def test_type_checkers_see_the_names_that_the_interpreter_finds() -> None:
    assert typing_imports() == a2perf._HOMES
    assert set(a2perf.__all__) == {"__version__", *a2perf._HOMES}
    assert set(dir(a2perf)) >= set(a2perf.__all__)
    for name in a2perf._HOMES:
        assert getattr(importlib.import_module(f"a2perf.{a2perf._HOMES[name]}"), name) is getattr(a2perf, name)


def test_help_names_every_function_with_its_arguments() -> None:
    text = pydoc.plain(pydoc.render_doc(a2perf))
    for name in FUNCTIONS:
        assert f"{name}(" in text
    assert "a2perf.evaluate(policy" in text


def test_a_misspelt_name_gets_a_suggestion() -> None:
    done = run_python("import a2perf; a2perf.evalute")
    assert "module 'a2perf' has no attribute 'evalute'. Did you mean: 'evaluate'?" in done.stderr


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_document_arguments_result_errors_and_an_example(name: str) -> None:
    function = getattr(a2perf, name)
    found = python_api.sections(function.__doc__ or "")
    assert {"Returns", "Raises", "Example"} <= set(found) or name == "track", found.keys()
    for parameter in inspect.signature(function).parameters:
        assert f"{parameter}:" in found["Args"] or f"{parameter} " in found["Args"], parameter


@pytest.mark.parametrize("name", TYPES)
def test_types_and_their_public_members_are_documented(name: str) -> None:
    kind = getattr(a2perf, name)
    assert python_api.sections(kind.__doc__ or "")[""]
    for member, value in vars(kind).items():
        if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            documented = value.__doc__ or next(
                (vars(base)[member].__doc__ for base in kind.__mro__[1:] if member in vars(base)), None
            )
            assert documented, f"{name}.{member}"


def test_the_page_groups_every_public_name() -> None:
    assert sorted(name for names in python_api.GROUPS.values() for name in names) == sorted(a2perf._HOMES)


# --- examples ---------------------------------------------------------------------------------------------------------


def _examples() -> list[Any]:
    return [
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name in sorted(a2perf._HOMES)
        if ">>>" in (getattr(a2perf, name).__doc__ or "")
    ]


@pytest.fixture
def work(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A folder with the examples, the shipped results, and some runs below ``runs``."""
    from a2perf.runs.packed.packed_archive import unpack

    for folder in ("results/recorded", "examples/minimal"):
        shutil.copytree(repository / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pyc*"))
    unpack(repository / "results" / "recorded" / "quadruped_locomotion" / "minimal.zip", tmp_path / "runs")
    (tmp_path / "runs" / "minimal" / "dog_pace" / "seed_1").rename(tmp_path / "runs/minimal/dog_pace/seed_0")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", _examples())
def test_examples_run_and_show_what_they_say(name: str, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Outputs are compared where the docstring has them."""
    import numpy as np

    text = inspect.cleandoc(getattr(a2perf, name).__doc__ or "")
    names: dict[str, Any] = {"a2perf": a2perf, "np": np, "Table": a2perf.Table}
    count = 0
    for example in doctest.DocTestParser().get_examples(text, name):
        if example.options.get(doctest.SKIP):
            continue
        count += 1
        capsys.readouterr()
        exec(compile(example.source, f"<example of {name}>", "single"), names)
        shown = capsys.readouterr().out
        if example.want:
            assert doctest.OutputChecker().check_output(
                example.want, shown, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            ), f"{example.source}shows {shown}"
    assert count or "+SKIP" in text
