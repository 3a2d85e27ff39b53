"""Which modules travel with a policy: the caller's own, never those of an installed package."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from a2perf.api import live_policy_pickle


@pytest.mark.parametrize(
    ("folder", "travels"),
    [("project", True), ("elsewhere/lib/python3.11/site-packages", False), ("usr/lib/python3/dist-packages", False)],
)
def test_only_modules_outside_of_the_packages_of_any_python_travel(
    tmp_path: Path, monkeypatch, folder: str, travels: bool
) -> None:
    """A .pth file and `venv --system-site-packages` bring packages of another Python."""
    name = f"own_or_installed_{folder.count('/')}"
    place = tmp_path / folder
    place.mkdir(parents=True)
    (place / f"{name}.py").write_text("def act(observation):\n    return 0\n")
    monkeypatch.syspath_prepend(place)
    module = importlib.import_module(name)
    try:
        assert (module in live_policy_pickle._own_modules()) is travels
        assert (b"observation" in live_policy_pickle.pickled(module.act)) is travels  # the code names its argument
    finally:
        del sys.modules[name]
