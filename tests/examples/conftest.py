"""The examples' folders are import roots for their own modules, as they are in the participant process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def numpy_ars(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Makes the modules of ``examples/numpy_ars`` importable for one test."""
    folder = repository / "examples" / "numpy_ars"
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in ("event_writer", "linear_policy", "random_search", "train", "inference"):
        sys.modules.pop(name, None)
