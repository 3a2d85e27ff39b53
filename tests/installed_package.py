"""A package with entry points, installed for the time of a test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, code: str, entry_points: str) -> None:
    """Puts a distribution of one module on the path.

    Args:
        folder: receives the files.
        monkeypatch: removes the package again at the end of the test.
        module: name of the module; the distribution has dashes instead of underscores.
        code: text of the module.
        entry_points: text of ``entry_points.txt``.
    """
    info = folder / f"{module}-1.dist-info"
    info.mkdir(parents=True)
    (folder / f"{module}.py").write_text(code)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(entry_points)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, module, raising=False)
