"""Imports PyTorch for the other modules of this package; import this module before it.

A missing framework raises ``MissingDependency`` with the command that installs it.
"""

from __future__ import annotations

from a2perf.errors import MissingDependency

try:
    import torch
except ModuleNotFoundError as error:
    raise MissingDependency(
        f"a training run on PyTorch needs the package {error.name!r}, which is not installed", hint="pip install torch"
    ) from error

__all__ = ["torch"]
