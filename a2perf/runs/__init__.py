"""Recorded runs: their layouts on disk and their representation in memory.

``find_runs`` finds the runs of every known layout; ``read_run`` reads one into a ``Run`` and turns damage into
conditions of that run. ``layout`` defines the file names of a bundle; ``files`` opens its files. This package does not
run code of a participant, scores nothing and needs no domain.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from a2perf.runs.bundles.files import BundleFiles as BundleFiles
    from a2perf.runs.bundles.files import files_of as files_of
    from a2perf.runs.formats import RunFormat as RunFormat
    from a2perf.runs.reading import read_run as read_run
    from a2perf.runs.reading import read_runs as read_runs
    from a2perf.runs.run import Run as Run
    from a2perf.runs.run import RunFolder as RunFolder
    from a2perf.runs.run import RunIdentity as RunIdentity
    from a2perf.runs.series import Series as Series
    from a2perf.runs.stores.finding import find_runs as find_runs
    from a2perf.runs.tracking_record import TrackingReport as TrackingReport

_HOMES = {
    "BundleFiles": "bundles.files",
    "Run": "run",
    "RunFolder": "run",
    "RunFormat": "formats",
    "RunIdentity": "run",
    "Series": "series",
    "TrackingReport": "tracking_record",
    "files_of": "bundles.files",
    "find_runs": "stores.finding",
    "read_run": "reading",
    "read_runs": "reading",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Loads a public name from its module on first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
