"""a2perf inside other tools: ``sb3`` holds a training callback, imported with Stable-Baselines3 on first use."""

from __future__ import annotations

import importlib
from types import ModuleType

_MODULES = ("sb3",)
_RECIPES = "wrap the training run in `a2perf.track`; docs/how_to/track_a_training_loop.md has a callback of ten lines"
_PYTEST = "assert on the results of `a2perf.evaluate` in a test; docs/how_to/track_a_training_loop.md has an example"
_REMOVED = {"keras": _RECIPES, "lightning": _RECIPES, "pytest_plugin": _PYTEST}
"""Replacements of removed modules."""

__all__ = list(_MODULES)


def __getattr__(name: str) -> ModuleType:
    """Imports a module on first use."""
    if name in _REMOVED:
        raise AttributeError(f"{__name__}.{name} was removed: {_REMOVED[name]}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
