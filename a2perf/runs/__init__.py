"""Recorded runs: how a run lies on disk, and what it is in memory.

``find_runs`` finds the runs of every known layout, ``read_run`` reads one into a ``Run``; damage becomes conditions of
that run. ``layout`` spells the file names of a bundle, ``files`` opens its files. Nothing here runs code of a
participant, scores anything or needs a domain.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from a2perf.runs.files import BundleFiles, files_of
    from a2perf.runs.finding import find_runs
    from a2perf.runs.reading import read_run, read_runs
    from a2perf.runs.run import Run, RunFolder, RunIdentity
    from a2perf.runs.tracking_record import TrackingReport

_HOMES = {
    "BundleFiles": "files",
    "Run": "run",
    "RunFolder": "run",
    "RunIdentity": "run",
    "TrackingReport": "tracking_record",
    "files_of": "files",
    "find_runs": "finding",
    "read_run": "reading",
    "read_runs": "reading",
}

__all__ = [
    "BundleFiles",
    "Run",
    "RunFolder",
    "RunIdentity",
    "TrackingReport",
    "files_of",
    "find_runs",
    "read_run",
    "read_runs",
]


def __getattr__(name: str) -> Any:
    """Loads a public name from its module on first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
