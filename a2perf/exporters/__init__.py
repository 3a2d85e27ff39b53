"""Recorded runs in the formats of other tools.

* ``mlflow``, ``wandb``, ``tensorboard``: ``log_runs`` logs recorded runs to a tracker; ``MlflowLogger``,
  ``WandbLogger`` and ``TensorBoardLogger`` log values while a training script runs.
* ``huggingface``: cards of models and datasets.

Every exporter takes what ``runs_of`` takes, and imports its package on first use. ``description`` states what a tracker
shows of a run, ``publishable`` which files of a bundle may leave the machine.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from a2perf.exporters.given_runs import HoldsRun, RunSource, runs_of

_MODULES = ("huggingface", "mlflow", "tensorboard", "wandb")

_REMOVED = {
    "attestation": "sign bundles with `a2perf sign` and check them with `a2perf verify`",
    "croissant": "a2perf.read_runs(FOLDER).to_pandas() and .episodes().to_pandas() are the tables of runs",
}
"""Replacements of removed modules."""

__all__ = ["HoldsRun", "RunSource", "runs_of"]


def __getattr__(name: str) -> ModuleType:
    """Imports an exporter on first use."""
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _REMOVED:
        raise AttributeError(f"{__name__}.{name} was removed: {_REMOVED[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
