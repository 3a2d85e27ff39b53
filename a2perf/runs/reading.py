"""Reading recorded runs of every layout into ``Run``. Whatever is wrong with a run becomes a condition of that run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from a2perf.plain_text import terminal_line
from a2perf.runs import bundle_reading, foreign_layouts
from a2perf.runs.details import read_details
from a2perf.runs.finding import find_runs
from a2perf.runs.layout import MODES
from a2perf.runs.run import BUNDLE, Run, RunFolder, RunIdentity

MAX_CONDITIONS, MAX_CONDITION_CHARACTERS = 1000, 2000
"""Of a run, and characters of each: a damaged run must not fill a report."""


def identify(folder: RunFolder) -> RunIdentity:
    """Returns what a run is a run of, from its manifest or its path alone."""
    return bundle_reading.identify(folder) if folder.layout == BUNDLE else foreign_layouts.identify(folder)


def read_run(folder: RunFolder) -> Run:
    """Reads a run; damage becomes conditions."""
    try:
        run = bundle_reading.read(folder) if folder.layout == BUNDLE else foreign_layouts.read(folder)
    except (OSError, ValueError) as error:
        # a file that changed or vanished while it was read; the other runs are not to suffer
        return Run(identify(folder), folder, conditions=[f"could not be read: {type(error).__name__}"])
    conditions = [*run.conditions, *(f"{link}: symbolic link, not followed" for link in folder.links)]
    shown = sorted(dict.fromkeys(terminal_line(words, MAX_CONDITION_CHARACTERS) for words in conditions))
    more = [f"{len(shown) - MAX_CONDITIONS} further conditions are not listed"] if len(shown) > MAX_CONDITIONS else []
    run.conditions = shown[:MAX_CONDITIONS] + more
    run.read_details = read_details
    return run


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Finds and reads every run at or below the given paths, ordered by root and then by mode.

    Raises:
        UserError: a path does not exist, or nothing recorded lies at any of them.
    """
    order = {mode: place for place, mode in enumerate(MODES)}
    runs = [read_run(folder) for folder in find_runs(paths)]
    return sorted(runs, key=lambda run: (run.root, order.get(run.mode, len(order))))
