"""Offline datasets: recorded episodes of policies in Minari's layout, with the energy that they took.

``open_dataset`` reads one. Generating, combining and validating are commands of ``a2perf datasets``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from a2perf_datasets.reader import OfflineDataset, open_dataset
    from a2perf_datasets.transitions import Batch, DatasetEpisode, Transitions

__all__ = ["Batch", "DatasetEpisode", "OfflineDataset", "Transitions", "open_dataset"]


def __getattr__(name: str) -> Any:
    """Imports a public name on first use: `a2perf validate` imports this package for recorded runs too."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "reader" if name in ("OfflineDataset", "open_dataset") else "transitions"
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
