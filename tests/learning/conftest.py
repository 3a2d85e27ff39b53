"""A training run in an environment without physics, in a separate folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


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
