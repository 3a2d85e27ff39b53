"""Imports Stable-Baselines3 for the other modules of this package; import this module before it.

A missing framework raises ``MissingDependency`` with the command that installs it.
"""

from __future__ import annotations

from a2perf.errors import MissingDependency

try:
    import stable_baselines3
    import torch
except ModuleNotFoundError as error:
    raise MissingDependency(
        f"Stable-Baselines3 needs the package {error.name!r}, which is not installed",
        hint="pip install stable-baselines3",
    ) from error

__all__ = ["stable_baselines3", "torch"]
