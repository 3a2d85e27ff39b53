"""Trackers sample the cost of a live participant process tree from the evaluator's process.

``Sampler`` runs one thread and one loop over the trackers and returns a tracking report; ``LatencyTimer`` times
calls; ``track_emissions_decorator`` makes codecarbon configurable through gin. Names are loaded on first use: a
participant process can import ``LatencyTimer`` with the standard library alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from a2perf.metrics.trackers.emissions import EmissionsSettings, resolve_settings, track_emissions_decorator
    from a2perf.metrics.trackers.host import HostDescription, describe_host
    from a2perf.metrics.trackers.latency import LatencyTimer
    from a2perf.metrics.trackers.sampler import Sampler

_HOMES = {
    "EmissionsSettings": "emissions",
    "HostDescription": "host",
    "LatencyTimer": "latency",
    "Sampler": "sampler",
    "describe_host": "host",
    "resolve_settings": "emissions",
    "track_emissions_decorator": "emissions",
}

__all__ = [
    "EmissionsSettings",
    "HostDescription",
    "LatencyTimer",
    "Sampler",
    "describe_host",
    "resolve_settings",
    "track_emissions_decorator",
]


def __getattr__(name: str) -> Any:
    """Loads a public name from its module on first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
