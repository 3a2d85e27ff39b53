"""Recorded runs in the formats of other tools.

* ``mlflow``, ``wandb``, ``tensorboard``: ``log_runs`` logs recorded runs to a tracker.
* ``huggingface``: cards of models and datasets.
* ``sb3``: a callback for Stable-Baselines3 that evaluates the model during a training run.

Every exporter takes what ``runs_of`` takes, and imports its package on first use. ``description`` states what a tracker
shows of a run.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from a2perf.runs.reading import read_runs as runs_of

_MODULES = ("huggingface", "mlflow", "sb3", "tensorboard", "wandb")

__all__ = ["runs_of"]


def __getattr__(name: str) -> ModuleType:
    """Imports an exporter on first use."""
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
