"""Imports the module of a callback, which needs the tool that it is for."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from a2perf.errors import MissingDependency


def imported(module: str, name: str, *, package: str, install: str) -> Any:
    """Returns an attribute of a module that needs an optional package.

    Args:
        module: name of the module.
        name: name of the attribute.
        package: the optional package.
        install: what pip installs, ``"'a2perf[sb3]'"``.

    Raises:
        MissingDependency: the package is not installed.
    """
    if importlib.util.find_spec(package) is None:
        raise MissingDependency(
            f"{module.removesuffix('_callback')} needs the package {package}, which is not installed",
            hint=f"pip install {install}",
        )
    return getattr(importlib.import_module(module), name)
