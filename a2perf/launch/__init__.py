"""Where runs execute: run specifications, launchers, a durable queue, and the conductor that drives a list of runs."""

from a2perf.launch.conductor import QUEUE_FILE, Conductor, ExperimentResult
from a2perf.launch.interface import LAUNCHERS, ExitStatus, Job, Launcher, get_launcher
from a2perf.launch.preparation import Restart
from a2perf.launch.queue import Queue
from a2perf.launch.queue_entry import AttemptOutcome, Lease, QueueEntry, State
from a2perf.launch.run_spec import Resources, RunCommand, RunSpec
from a2perf.launch.scheduler import EventKind, RunEvent, Summary, drive

__all__ = [
    "LAUNCHERS",
    "QUEUE_FILE",
    "AttemptOutcome",
    "Conductor",
    "EventKind",
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
    "Summary",
    "drive",
    "get_launcher",
]
