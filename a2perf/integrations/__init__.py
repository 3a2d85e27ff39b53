"""a2perf inside other tools: training callbacks and the pytest plug-in. Each module needs the tool that it names.

``sb3``, ``lightning`` and ``keras`` hold callbacks. They are imported on first use, and so are the tools.
"""

from __future__ import annotations

import importlib
from types import ModuleType

_MODULES = ("keras", "lightning", "pytest_plugin", "sb3")

__all__ = list(_MODULES)


def __getattr__(name: str) -> ModuleType:
    """Imports a module on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
