"""TensorBoard: event files with scalars, HParams and a summary as text.

Scalars are float32, as TensorBoard stores them; wall times are float64. Each run is a folder below the log folder.
Needs the package ``tensorboard``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from a2perf.metrics.values import Profile
from a2perf.runs.bundles.run_record import folder_name
from a2perf.runs.events.event_writer import EventWriter
from a2perf.runs.reading import AnyRuns, read_runs
from a2perf_trackers.described_series import safe_name
from a2perf_trackers.description import RunDescription
from a2perf_trackers.exporting import ExportedRun, export_each, imported, writable_folder

SUMMARY_TAG = "a2perf/summary"
_HINT = "choose a folder that you may write to, with enough space"
_DIGITS = 8
_MOST_CHARACTERS = 100  # of a folder's name


def log_runs(
    runs: AnyRuns, folder: str | Path, *, profile: Profile = "corrected", trace: bool = True
) -> list[ExportedRun]:
    """Writes recorded runs as TensorBoard event files, with HParams.

    A run that the folder already holds is not written again.

    Args:
        runs: a ``Result``, ``Runs``, a path, or an iterable of these.
        folder: log folder of TensorBoard; created if it does not exist.
        profile: the formulas of the scores, ``"corrected"`` or ``"upstream"``.
        trace: include the samples of the trackers: power, memory and processor time.

    Returns:
        An entry per run, in the given order; ``run_id`` is the folder below ``folder``.

    Raises:
        MissingDependency: the package ``tensorboard`` is not installed.
        UserError: no run was found, or the folder cannot be written.

    Example:
        >>> import tempfile
        >>> from a2perf_trackers import tensorboard
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     exported = tensorboard.log_runs("results/recorded/learning/minimal.zip", folder)
        >>> exported[0].run_id.partition("-")[0]
        'minimal/synthetic_trot_v1/inference/seed_1'
    """
    hparams = imported("a2perf_trackers.hparams", "tensorboard", "the export to TensorBoard needs", "tensorboard")
    found = read_runs(runs)
    top = writable_folder(folder)

    def write(description: RunDescription) -> ExportedRun:
        return _write(description, top, hparams.session(description, SUMMARY_TAG))

    return export_each(found, "TensorBoard", write, hint=_HINT, profile=profile, trace=trace)


def _write(description: RunDescription, top: Path, session: Iterator[bytes]) -> ExportedRun:
    name = _run_name(description)
    folder = top / name
    is_new = not folder.exists()
    if is_new:
        # Written beside its place and then renamed: a folder under its own name is complete.
        unfinished = folder.with_name(f".{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        with EventWriter(unfinished) as writer:
            for event in session:
                writer.event(event)
            _scalars(writer, description)
        os.replace(unfinished, folder)
    return ExportedRun(description.run.key, description.name, name, str(folder), is_new)


def _scalars(writer: EventWriter, description: RunDescription) -> None:
    for series in description.series:
        points: Any = zip(series.values.tolist(), series.steps.tolist(), series.times_s.tolist(), strict=True)
        for value, step, moment in points:
            writer.scalar(series.name, value, step, moment)
    ended = description.ended_s or description.started_s or 0.0
    for name, value in description.values().items():
        writer.scalar(name, value, 0, ended)


def _run_name(description: RunDescription) -> str:
    """Returns the folder of a run; its end tells runs of one seed apart."""
    identity = description.run.identity
    seed = "run" if identity.seed is None else f"seed_{identity.seed}"
    parts = (identity.algorithm or "run", identity.task, identity.mode, f"{seed}-{description.digest[:_DIGITS]}")
    return "/".join(folder_name(safe_name(part).replace("/", "_"))[:_MOST_CHARACTERS] for part in parts if part)
