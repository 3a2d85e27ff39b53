"""Callbacks for PyTorch Lightning.

Example:
    >>> from a2perf.integrations.lightning import LightningTracker
    >>> trainer = lightning.pytorch.Trainer(callbacks=[LightningTracker(folder="runs/mine")])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from a2perf.integrations.missing_package import imported

if TYPE_CHECKING:
    from a2perf.integrations.lightning_callback import LightningTracker

__all__ = ["LightningTracker"]


def __getattr__(name: str) -> Any:
    """Imports the callback, and with it Lightning, on first use.

    Raises:
        MissingDependency: Lightning is not installed.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return imported("a2perf.integrations.lightning_callback", name, package="lightning", extra="lightning")
