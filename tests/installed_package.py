"""A package with entry points, installed for the time of a test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest


def write_package(
    folder: Path, module: str, code: str, entry_points: str, *, name: str = "", version: str = "1"
) -> None:
    """Writes a distribution of one module into a folder, as an installer does.

    Args:
        folder: receives the files.
        module: name of the module.
        code: text of the module.
        entry_points: text of ``entry_points.txt``.
        name: name of the distribution; by default the module's, with dashes instead of underscores.
    """
    name = name or module.replace("_", "-")
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (folder / f"{module}.py").write_text(code)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(entry_points)


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, code: str, entry_points: str) -> None:
    """Puts a distribution of one module on the path until the end of the test; see ``write_package``."""
    write_package(folder, module, code, entry_points)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, module, raising=False)


def environment_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, code: str) -> Iterator[None]:
    """Puts a module that registers environments on the path, also of child processes, for the time of a test."""
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / f"{module}.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, module, raising=False)
    before = dict(gymnasium.registry)
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)
