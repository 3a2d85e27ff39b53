"""Reads recorded runs of every layout into ``Run``. Damage of a run becomes a condition of that run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from a2perf.errors import UserError
from a2perf.plain_text import plain_text, terminal_line
from a2perf.records import Failure, TrainResults
from a2perf.runs.bundles import bundle_reading, layout
from a2perf.runs.bundles.bundle_reading import BundleReader
from a2perf.runs.bundles.layout import MODES
from a2perf.runs.bundles.submission_info import info_of
from a2perf.runs.foreign import foreign_layouts
from a2perf.runs.foreign.tables import table_of
from a2perf.runs.formats import RunFormat, run_formats
from a2perf.runs.run import BUNDLE, MediaFile, Run, RunDetails, RunFolder, RunIdentity
from a2perf.runs.stores.finding import find_runs
from a2perf.stranger_files import StrangerFileError

MAX_CONDITIONS, MAX_CONDITION_CHARACTERS = 1000, 2000
"""Limits on the conditions of a run, and on the characters of each: a damaged run must not fill a report."""


LOG_TAIL_BYTES = 8192
LOG_TAIL_LINES = 20


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


def read_details(run: Run) -> RunDetails:
    """Reads the details of a run; damage becomes conditions."""
    if run.folder.layout != BUNDLE:
        return RunDetails()
    reader = BundleReader(run.folder.files(), run.manifest)
    conditions: list[str] = []
    trace = None
    if reader.listed(layout.TRACE):
        trace = table_of(reader.files, layout.TRACE)
        conditions += [f"{layout.TRACE}: {words}" for words in trace.conditions]
    failures = {}
    for name in reader.below(layout.TASKS, (layout.OUTCOME_FILE,)):
        task = plain_text(name.removeprefix(f"{layout.TASKS}/").rpartition("/")[0])
        try:
            failure = reader.json_object(name).get("failure")
            if failure is not None:
                failures[task] = msgspec.convert(failure, Failure)
        except (OSError, ValueError, UserError) as error:
            words = error.message if isinstance(error, UserError) else str(error)
            conditions.append(f"{layout.TASKS}/{task}/{layout.OUTCOME_FILE} could not be read: {words}")
    return RunDetails(
        trace=trace if trace is not None and trace.rows else None,
        train=_train(reader),
        task_failures=failures,
        media=_media(run, reader, (".png", ".mp4")),
        final_states=_media(run, reader, ("",), without=(".png", ".mp4")),
        log_tail=_log_tail(reader),
        conditions=tuple(conditions),
    )


def _train(reader: BundleReader) -> TrainResults | None:
    """Returns the record of a training run; None for a broken one, which is already a condition of the run."""
    if not reader.listed(layout.TRAIN):
        return None
    try:
        return reader.read_record(layout.TRAIN, TrainResults)
    except (UserError, OSError, ValueError):
        return None


def _media(
    run: Run, reader: BundleReader, endings: tuple[str, ...], without: tuple[str, ...] = ()
) -> tuple[MediaFile, ...]:
    names = [name for name in reader.below(layout.MEDIA, endings) if not (without and name.endswith(without))]
    found = [(name, reader.files.status(name)) for name in names]
    return tuple(MediaFile(name, status.size, run.folder) for name, status in found if status is not None)


def _log_tail(reader: BundleReader) -> str:
    manifest = reader.manifest
    if manifest is None or manifest.failure is None or manifest.failure.log is None:
        return ""
    status = reader.listed(manifest.failure.log)
    if status is None:
        return ""
    try:
        with reader.files.open(status.path) as stream:
            stream.seek(max(0, status.size - LOG_TAIL_BYTES))
            text = stream.read(LOG_TAIL_BYTES).decode("utf-8", errors="replace")
    except (StrangerFileError, OSError):
        return ""
    return "\n".join(plain_text(text).splitlines()[-LOG_TAIL_LINES:])
