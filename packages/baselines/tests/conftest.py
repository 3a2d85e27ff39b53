"""The folders of the examples are import roots for their own modules, as they are in the participant process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _own_example_modules(repository: Path) -> Iterator[None]:
    """Forgets the modules of the examples before and after a test: they have modules of the same names."""
    _forget(repository)
    yield
    _forget(repository)


def _forget(repository: Path) -> None:
    roots = (repository / "examples", repository / "packages" / "baselines" / "examples")
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is not None and any(root in Path(file).parents for root in roots):
            del sys.modules[name]


@pytest.fixture
def a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Path]:
    """Sets the variables of a run as the evaluator does, and returns its artifacts."""

    def variables(env_id: str = "QuadrupedLocomotion-SyntheticTrot-v0", seed: int = 0, **kwargs: Any) -> Path:
        folder = tmp_path / "artifacts"
        folder.mkdir(exist_ok=True)
        monkeypatch.setenv("A2PERF_ARTIFACTS", str(folder))
        monkeypatch.setenv("A2PERF_ENV_ID", env_id)
        monkeypatch.setenv("A2PERF_ENV_KWARGS", json.dumps(kwargs))
        monkeypatch.setenv("SEED", str(seed))
        return folder

    return variables
