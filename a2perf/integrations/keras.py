"""Callbacks for Keras.

Example:
    >>> from a2perf.integrations.keras import KerasTracker
    >>> model.fit(x, y, epochs=10, callbacks=[KerasTracker(folder="runs/mine")])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from a2perf.integrations.missing_package import imported

if TYPE_CHECKING:
    from a2perf.integrations.keras_callback import KerasTracker

__all__ = ["KerasTracker"]


def __getattr__(name: str) -> Any:
    """Imports the callback, and with it Keras, on first use.

    Raises:
        MissingDependency: Keras is not installed.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return imported("a2perf.integrations.keras_callback", name, package="keras")
