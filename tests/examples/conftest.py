"""The examples' folders are import roots for their own modules, as they are in the participant process.

They have modules of the same names (``train``, ``inference``), so each test imports its own copy.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_example_modules(repository: Path) -> Iterator[None]:
    """Forgets the modules of the examples before and after a test."""
    _forget(repository / "examples")
    yield
    _forget(repository / "examples")


def _forget(examples: Path) -> None:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is not None and examples in Path(file).parents:
            del sys.modules[name]


@pytest.fixture
def numpy_ars(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes the modules of ``examples/numpy_ars`` importable for one test."""
    folder = repository / "examples" / "numpy_ars"
    monkeypatch.syspath_prepend(str(folder))
    return folder
