"""Reads recorded runs of every layout into ``Run``. Damage of a run becomes a condition of that run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from a2perf.plain_text import terminal_line
from a2perf.runs import bundle_reading, foreign_layouts
from a2perf.runs.details import read_details
from a2perf.runs.finding import find_runs
from a2perf.runs.formats import RunFormat, run_formats
from a2perf.runs.layout import MODES
from a2perf.runs.run import BUNDLE, Run, RunFolder, RunIdentity
from a2perf.runs.submission_info import info_of

MAX_CONDITIONS, MAX_CONDITION_CHARACTERS = 1000, 2000
"""Limits on the conditions of a run, and on the characters of each: a damaged run must not fill a report."""


def identify(folder: RunFolder) -> RunIdentity:
    """Returns the identity of a run, from its manifest or its path; a format of a package reads the run for it."""
    if folder.layout == BUNDLE:
        return bundle_reading.identify(folder)
    if folder.layout in run_formats():
        return _read_with_package(run_formats()[folder.layout], folder).identity
    return foreign_layouts.identify(folder)


def read_run(folder: RunFolder) -> Run:
    """Reads a run; damage becomes conditions."""
    if folder.layout in run_formats():
        run = _read_with_package(run_formats()[folder.layout], folder)
    else:
        try:
            run = bundle_reading.read(folder) if folder.layout == BUNDLE else foreign_layouts.read(folder)
        except (OSError, ValueError) as error:
            # a file changed or vanished while it was read; the other runs must still be read
            return Run(identify(folder), folder, conditions=[f"could not be read: {type(error).__name__}"])
    if run.manifest is None:
        run.info, unreadable = info_of(folder, None, run.identity.algorithm)
    else:
        submission = run.manifest.submission
        run.info, unreadable = info_of(folder, submission.info, submission.name, run.manifest.models)
    conditions = [*run.conditions, *unreadable, *(f"{link}: symbolic link, not followed" for link in folder.links)]
    shown = sorted(dict.fromkeys(terminal_line(text, MAX_CONDITION_CHARACTERS) for text in conditions))
    more = [f"{len(shown) - MAX_CONDITIONS} further conditions are not listed"] if len(shown) > MAX_CONDITIONS else []
    run.conditions = shown[:MAX_CONDITIONS] + more
    run.read_details = read_details
    return run


def _read_with_package(found: RunFormat, folder: RunFolder) -> Run:
    """Reads a run with the format of a package; whatever it raises becomes a condition."""
    try:
        run: object = found.read(folder)
    except Exception as error:
        message = f"could not be read by the format {found.name!r}: {type(error).__name__}: {error}"
        return Run(foreign_layouts.identify(folder), folder, conditions=[message])
    if not isinstance(run, Run):
        message = f"could not be read: the format {found.name!r} returned {type(run).__name__}, not a Run"
        return Run(foreign_layouts.identify(folder), folder, conditions=[message])
    run.folder = folder
    return run


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Finds and reads all runs in and below the given paths, ordered by root and then by mode.

    Raises:
        UserError: a path does not exist, or there is no run.
    """
    order = {mode: place for place, mode in enumerate(MODES)}
    runs = [read_run(folder) for folder in find_runs(paths)]
    return sorted(runs, key=lambda run: (run.root, order.get(run.mode, len(order))))
