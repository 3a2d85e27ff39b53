"""Reads recorded runs of every layout into ``Run``. Damage of a run becomes a condition of that run."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, TypeAlias, Union, runtime_checkable

import msgspec

from a2perf.errors import ConfigError, UserError
from a2perf.plain_text import plain_text, terminal_line
from a2perf.records import Failure, TrainResults
from a2perf.runs import bundle_reading
from a2perf.runs.bundles import layout
from a2perf.runs.bundles.bundle_reader import BundleReader
from a2perf.runs.bundles.layout import MODES
from a2perf.runs.bundles.tables import table_of
from a2perf.runs.foreign import foreign_layouts
from a2perf.runs.formats import RunFormat, run_formats
from a2perf.runs.run import BUNDLE, IN_MEMORY, MediaFile, Run, RunDetails, RunFolder, RunIdentity
from a2perf.runs.stores.finding import find_runs, fingerprint_of, named_uniquely
from a2perf.runs.submission_info import info_of
from a2perf.stranger_files import StrangerFileError

MAX_CONDITIONS, MAX_CONDITION_CHARACTERS = 1000, 2000
"""Limits on the conditions of a run, and on the characters of each: a damaged run must not fill a report."""


@runtime_checkable
class HasRun(Protocol):
    """An object that stands for one run, such as ``a2perf.Result``."""

    @property
    def run(self) -> Run:
        """The run."""


AnyRuns: TypeAlias = Union[Run, HasRun, str, "os.PathLike[str]", Iterable[Any]]
"""What every command and function takes as runs; an iterable holds any of these."""
LOG_TAIL_BYTES = 8192
LOG_TAIL_LINES = 20
_MEDIA = (".png", ".mp4", layout.STATES)


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
        message = f"could not be read: the format {found.name!r} returned {type(run).__name__}, not a Run"
    except Exception as error:
        run, message = None, f"could not be read by the format {found.name!r}: {type(error).__name__}: {error}"
    if not isinstance(run, Run):
        return Run(foreign_layouts.identify(folder), folder, conditions=[message])
    run.folder = folder
    return run


def run_at(folder: RunFolder) -> Run:
    """Returns a run of which the identity, and then everything else, is read on first use, once."""
    run = object.__new__(Run)
    # an absolute path: a run that is read later must not depend on the working directory
    run.folder = dataclasses.replace(folder, path=Path(os.path.abspath(folder.path)))
    run.__dict__["read_part"] = _read_part
    return run


def _read_part(run: Run, name: str) -> None:
    if name == "identity":
        run.identity = identify(run.folder)
        return
    stamp = stamp_of(run.folder)  # before reading: a file that changes during it makes the stamp old
    vars(run).update({**vars(read_run(run.folder)), "stamp": stamp, **vars(run)})


def stamp_of(folder: RunFolder) -> str:
    """Returns the state of the files of a run; ``""`` if they are gone."""
    try:
        return fingerprint_of(folder)
    except OSError:
        return ""


def read_runs(given: AnyRuns) -> list[Run]:
    """Returns each run once: those in memory as they were given, then the others by root and mode, not yet read.

    Raises:
        UserError: a path does not exist, or holds no run.
        ConfigError: something else was given, or nothing.
    """
    parts: Any = [given] if isinstance(given, Run | HasRun | str | os.PathLike) else given
    if not isinstance(parts, Iterable):
        hint = "give a path, a Result, Runs, or a sequence of them"
        raise ConfigError(f"{type(given).__name__} is not a recorded run", hint=hint)
    in_memory: list[Run] = []
    known: dict[str, Run] = {}
    paths: list[Path] = []
    for part in parts:
        if isinstance(part, Run):
            in_memory.append(part)
        elif isinstance(part, str | os.PathLike):
            paths.append(Path(part).expanduser())
        else:
            for run in [part.run] if isinstance(part, HasRun) else read_runs(part):
                if run.folder.layout == IN_MEMORY.layout:
                    in_memory.append(run)
                else:
                    known.setdefault(run.folder.key, run)
    if not in_memory and not known and not paths:
        raise ConfigError("no runs were given", hint="give a bundle, or a folder that holds runs")
    order = {mode: place for place, mode in enumerate(MODES)}
    found = [folder for folder in (find_runs(paths) if paths else []) if folder.key not in known]
    folders = named_uniquely([*(run.folder for run in known.values()), *found])
    folders.sort(key=lambda folder: (folder.root, order.get(folder.path.name if folder.layout == BUNDLE else "", -1)))
    return [*in_memory, *(known.get(folder.key) or run_at(folder) for folder in folders)]


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
        train=reader.record(layout.TRAIN, TrainResults),  # a broken one is a condition of the run already
        task_failures=failures,
        media=_media(run, reader, _MEDIA),
        final_states=_media(run, reader, ("",), without=_MEDIA),
        log_tail=_log_tail(reader),
        conditions=tuple(conditions),
    )


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
