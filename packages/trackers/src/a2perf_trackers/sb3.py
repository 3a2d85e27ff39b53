"""The callback for Stable-Baselines3.

Example:
    >>> from a2perf_trackers.sb3 import EvaluateCallback
    >>> model.learn(100_000, callback=EvaluateCallback("dog_pace", every_steps=10_000, episodes=5))
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from a2perf.errors import MissingDependency

if TYPE_CHECKING:
    from a2perf_trackers.sb3_callback import EvaluateCallback

__all__ = ["EvaluateCallback"]


def __getattr__(name: str) -> Any:
    """Imports the callback, and with it Stable-Baselines3, on first use.

    Raises:
        MissingDependency: Stable-Baselines3 is not installed.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if importlib.util.find_spec("stable_baselines3") is None:
        raise MissingDependency(
            f"{__name__} needs the package stable_baselines3, which is not installed",
            hint="pip install stable-baselines3",
        )
    from a2perf_trackers import sb3_callback

    return getattr(sb3_callback, name)
