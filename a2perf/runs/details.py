"""Details of a bundle that are shown but not scored: the trace of samples, pictures, the end of a failed run's log."""

from __future__ import annotations

import msgspec

from a2perf.errors import UserError
from a2perf.plain_text import plain_text
from a2perf.records import Failure, TrainResults
from a2perf.runs import layout
from a2perf.runs.bundle_reading import BundleReader
from a2perf.runs.run import BUNDLE, MediaFile, Run, RunDetails
from a2perf.runs.tables import table_of
from a2perf.stranger_files import StrangerFileError

LOG_TAIL_BYTES = 8192
LOG_TAIL_LINES = 20


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
            failure = _failure_of(reader, name)
        except (OSError, ValueError, UserError) as error:
            words = error.message if isinstance(error, UserError) else str(error)
            conditions.append(f"{layout.TASKS}/{task}/{layout.OUTCOME_FILE} could not be read: {words}")
            continue
        if failure is not None:
            failures[task] = failure
    return RunDetails(
        trace=trace if trace is not None and trace.rows else None,
        train=_train(reader),
        task_failures=failures,
        media=_media(run, reader, (".png", ".mp4")),
        final_states=_media(run, reader, ("",), without=(".png", ".mp4")),
        log_tail=_log_tail(reader),
        conditions=tuple(conditions),
    )


def _failure_of(reader: BundleReader, name: str) -> Failure | None:
    failure = reader.json_object(name).get("failure")
    return None if failure is None else msgspec.convert(failure, Failure)


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
