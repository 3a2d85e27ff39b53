"""Where runs execute: run specifications, launchers, a durable queue, and the conductor that drives a list of runs.

Public names are loaded on first use: a single run in the foreground needs no queue.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from a2perf.launch.conductor import QUEUE_FILE, Conductor
    from a2perf.launch.interface import LAUNCHERS, ExitStatus, Job, Launcher, get_launcher
    from a2perf.launch.preparation import Restart
    from a2perf.launch.queue import Queue
    from a2perf.launch.queue_entry import AttemptOutcome, Lease, QueueEntry, State
    from a2perf.launch.run_spec import Resources, RunCommand, RunSpec
    from a2perf.launch.scheduler import ExperimentResult, RunEvent, drive

_HOMES = {
    "conductor": ("QUEUE_FILE", "Conductor"),
    "interface": ("LAUNCHERS", "ExitStatus", "Job", "Launcher", "get_launcher"),
    "preparation": ("Restart",),
    "queue": ("Queue",),
    "queue_entry": ("AttemptOutcome", "Lease", "QueueEntry", "State"),
    "run_spec": ("Resources", "RunCommand", "RunSpec"),
    "scheduler": ("ExperimentResult", "RunEvent", "drive"),
}

__all__ = [
    "LAUNCHERS",
    "QUEUE_FILE",
    "AttemptOutcome",
    "Conductor",
    "ExitStatus",
    "ExperimentResult",
    "Job",
    "Launcher",
    "Lease",
    "Queue",
    "QueueEntry",
    "Resources",
    "Restart",
    "RunCommand",
    "RunEvent",
    "RunSpec",
    "State",
    "drive",
    "get_launcher",
]


def __getattr__(name: str) -> Any:
    """Loads a public name from its module on first use."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
