"""Where whole runs execute: launchers, a durable queue of runs, and the loop that keeps workers busy with it."""

from a2perf.launch.entry import Entry, Lease, Outcome, State
from a2perf.launch.interface import LAUNCHERS, Ended, Job, Launcher, Resources, RunCommand, get_launcher
from a2perf.launch.queue import Queue
from a2perf.launch.scheduler import Event, Happening, Summary, drive

__all__ = [
    "LAUNCHERS",
    "Ended",
    "Entry",
    "Event",
    "Happening",
    "Job",
    "Launcher",
    "Lease",
    "Outcome",
    "Queue",
    "Resources",
    "RunCommand",
    "State",
    "Summary",
    "drive",
    "get_launcher",
]
