"""Imports the module of a callback, which needs the tool that it is for."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from a2perf.errors import MissingDependency, install_hint


def imported(module: str, name: str, *, package: str, extra: str = "") -> Any:
    """Returns an attribute of a module that needs an optional package.

    Args:
        module: name of the module.
        name: name of the attribute.
        package: the optional package.
        extra: the extra that installs it; without one, pip gets the name of the package.

    Raises:
        MissingDependency: the package is not installed.
    """
    if importlib.util.find_spec(package) is None:
        raise MissingDependency(
            f"{module.removesuffix('_callback')} needs the package {package}, which is not installed",
            hint=install_hint(extra) if extra else f"pip install {package}",
        )
    return getattr(importlib.import_module(module), name)
