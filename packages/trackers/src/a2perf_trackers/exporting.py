"""What the exporters of all trackers share: one pass over runs, results, and errors of a tracker."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.errors import MissingDependency, UserError
from a2perf.metrics.values import Profile
from a2perf.plain_text import terminal_line
from a2perf.runs.run import Run
from a2perf_trackers.description import RunDescription, describe

_MOST_CHARACTERS = 300
"""Longest reason of a tracker that is shown; some trackers add the whole request."""


@dataclass(frozen=True)
class ExportedRun:
    """A run in a tracker.

    Attributes:
        run: key of the run, ``root/mode``.
        place: address or folder for people.
        is_new: False if the tracker already had it.
    """

    run: str
    name: str
    run_id: str
    place: str
    is_new: bool


def export_each(
    runs: Sequence[Run],
    tracker: str,
    write: Callable[[RunDescription], ExportedRun],
    *,
    hint: str,
    profile: Profile = "corrected",
    trace: bool = True,
) -> list[ExportedRun]:
    """Exports runs one after the other; a run that was given twice is exported once.

    Args:
        write: writes one run, or finds that the tracker already has it.

    Returns:
        One entry per run, in the given order.

    Raises:
        UserError: the tracker refused a run. Runs before it stay exported.
    """
    done: dict[str, ExportedRun] = {}
    exported: list[ExportedRun] = []
    for run in runs:
        description = describe(run, profile, trace=trace)
        if description.digest not in done:
            try:
                done[description.digest] = write(description)
            except UserError:
                raise
            except Exception as error:  # a tracker may raise anything; the record of the run is unharmed
                raise tracker_error(tracker, f"run {run.key}", error, hint, len(exported)) from error
        exported.append(done[description.digest])
    return exported


def tracker_error(tracker: str, what: str, error: Exception, hint: str, exported: int = 0) -> UserError:
    """Returns the error of a tracker that did not accept something."""
    reason = str(error)
    if isinstance(error, OSError) and error.strerror:
        reason = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    reason = terminal_line(reason.strip().partition("\n")[0], _MOST_CHARACTERS) or type(error).__name__
    before = f" ({exported} run(s) before it were exported; the same command continues)" if exported else ""
    return UserError(f"{tracker} did not accept {what}: {reason}{before}", hint=hint)


def imported(module: str, package: str, use: str, extra: str) -> Any:
    """Imports a module of a tracker's package.

    Args:
        use: for the message, ``"the export to MLflow needs"``.
        extra: extra of this distribution that installs the package.

    Raises:
        MissingDependency: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        hint = f"pip install -e 'packages/trackers[{extra}]', in a checkout"
        raise MissingDependency(f"{use} the package {package}, which is not installed", hint=hint) from error


def writable_folder(folder: str | Path) -> Path:
    """Returns a folder that files can be written to; creates it.

    Raises:
        UserError: it cannot be created or written.
    """
    place = Path(folder)
    hint = "choose a folder that you may write to"
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"the folder {place} cannot be created: {error.strerror}", hint=hint) from error
    if not os.access(place, os.W_OK | os.X_OK):
        raise UserError(f"the folder {place} cannot be written", hint=hint)
    return place
