"""Weights & Biases: one run with configuration, history, summary and tags per recorded run.

Runs are written offline unless the caller asks otherwise: into files that ``wandb sync`` uploads later. Values are
float64, as recorded. Rows hold ``global_step``, the step of the recorded series. The run's identifier derives from the
hash of the record, so an export that is repeated gives the same run. Needs the package ``wandb``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from a2perf.errors import UserError
from a2perf.metrics.values import Profile
from a2perf.runs.reading import AnyRuns, read_runs
from a2perf_trackers.description import RunDescription
from a2perf_trackers.exporting import ExportedRun, export_each, imported, writable_folder

Mode = Literal["offline", "online"]
PROJECT = "a2perf"
STEP = "global_step"
"""Key of the step in each row of the history; charts use it as their x axis."""

_HINT = "check the folder, WANDB_MODE and, for online runs, `wandb login`"
_MODES: dict[str, Mode] = {"offline": "offline", "dryrun": "offline", "online": "online", "run": "online"}
"""Modes by name; the others are names of older versions."""
_MOST_TAG_CHARACTERS = 64
_DIGITS = 16
_COMPLETE = "a2perf-complete"
"""Empty file in the folder of an offline run that an export has completed."""


def log_runs(
    runs: AnyRuns,
    *,
    project: str | None = None,
    entity: str | None = None,
    folder: str | Path | None = None,
    mode: Mode | None = None,
    profile: Profile = "corrected",
    trace: bool = True,
) -> list[ExportedRun]:
    """Logs recorded runs to Weights & Biases.

    A run that the folder already holds offline is not written again; an online run is replaced by an equal one.

    Args:
        runs: a ``Result``, ``Runs``, a path, or an iterable of these.
        project: the project, by default ``"a2perf"``.
        entity: account or team; by default that of the login.
        folder: parent of the folder ``wandb`` with the files; by default ``WANDB_DIR`` or the working directory.
        mode: ``"offline"`` writes files for ``wandb sync``, ``"online"`` uploads; by default ``WANDB_MODE``, otherwise
            offline.
        profile: the formulas of the scores, ``"corrected"`` or ``"upstream"``.
        trace: include the samples of the trackers: power, memory and processor time.

    Returns:
        An entry per run, in the given order; ``run_id`` is the identifier in the project.

    Raises:
        MissingDependency: the package ``wandb`` is not installed.
        UserError: no run was found, the folder cannot be written, or W&B refused a run. Runs before it stay logged.

    Example:
        >>> import tempfile
        >>> from a2perf_trackers import wandb
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     len(wandb.log_runs("results/recorded/learning/minimal.zip", folder=folder))
        5
    """
    wandb = imported("wandb", "wandb", "the export to Weights & Biases needs", "wandb")
    found = read_runs(runs)
    top = writable_folder(folder or os.environ.get("WANDB_DIR") or ".")
    chosen = _mode(mode)

    def write(description: RunDescription) -> ExportedRun:
        run_id = f"a2perf-{description.digest[:_DIGITS]}"
        known = _complete(top, run_id) if chosen == "offline" else None
        place = known or _log(wandb, description, run_id, project=project, entity=entity, top=top, mode=chosen)
        return ExportedRun(description.run.key, description.name, run_id, place, known is None)

    return export_each(found, "Weights & Biases", write, hint=_HINT, profile=profile, trace=trace)


def _mode(given: Mode | None) -> Mode:
    chosen = given or os.environ.get("WANDB_MODE") or "offline"
    if chosen in _MODES:
        return _MODES[chosen]
    raise UserError(f"{chosen!r} is not a mode of an export to Weights & Biases", hint="use offline or online")


def _complete(top: Path, run_id: str) -> str | None:
    """Returns the folder of an offline run that an earlier export completed; removes those that one left incomplete."""
    found = None
    for folder in sorted(top.glob(f"wandb/offline-run-*-{run_id}")):
        if (folder / _COMPLETE).exists():
            found = str(folder)
        else:  # `wandb sync` would upload half a run under the name of the whole one
            shutil.rmtree(folder)
    return found


def _started(wandb: Any, top: Path, mode: str, **settings: Any) -> Any:
    """Starts a run that records only what it is given: no code, console, host, packages or hardware."""
    private = wandb.Settings(
        silent=True,
        console="off",
        host="",
        disable_code=True,
        disable_git=True,
        disable_job_creation=True,
        x_disable_machine_info=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_save_requirements=False,
    )
    settings["project"] = settings.get("project") or PROJECT
    # A live run of the caller, in the same process, continues.
    run = wandb.init(dir=str(top), mode=mode, reinit="create_new", settings=private, **settings)
    run.define_metric(STEP, hidden=True)
    run.define_metric("*", step_metric=STEP)
    return run


def _log(
    wandb: Any,
    description: RunDescription,
    run_id: str,
    *,
    project: str | None,
    entity: str | None,
    top: Path,
    mode: Mode,
) -> str:
    """Writes a run and returns its address, for an offline run its folder."""
    identity = description.run.identity
    tags = [identity.domain, identity.task, identity.algorithm, identity.mode]
    record = {name.removeprefix("a2perf."): value for name, value in description.tags.items()}
    run = _started(
        wandb,
        top,
        mode,
        project=project,
        entity=entity,
        id=run_id,
        name=description.name,
        group=description.group,
        job_type=identity.mode or None,
        tags=[tag[:_MOST_TAG_CHARACTERS] for tag in dict.fromkeys(tags) if tag],
        notes=description.summary(),
        config={
            **description.params,
            "a2perf": {**record, "units": description.units(), "provenance": description.provenance()},
        },
    )
    failed = description.run.state in ("failed", "interrupted")
    try:
        for row in _rows(description):
            run.log(row)
        run.summary.update(description.values())
    except BaseException:
        run.finish(exit_code=1)
        raise
    place = str(run.url) if mode == "online" else str(Path(run.dir).parent)
    run.finish(exit_code=int(failed))
    if mode == "offline":
        Path(place, _COMPLETE).touch()
    return place


def _rows(description: RunDescription) -> Iterator[dict[str, float]]:
    """Yields the rows of the history; values of one step at one time share a row."""
    for counts in dict.fromkeys(series.counts for series in description.series):
        rows: dict[tuple[float, int, int], dict[str, float]] = {}
        for series in description.series:
            if series.counts != counts:
                continue
            repeated: dict[tuple[float, int], int] = {}
            points = zip(series.times_s.tolist(), series.steps.tolist(), series.values.tolist(), strict=True)
            for moment, step, value in points:
                place = repeated[moment, step] = repeated.get((moment, step), -1) + 1
                row = rows.setdefault((moment, step, place), {STEP: step, "_timestamp": moment})
                row[series.name] = value
        yield from (rows[key] for key in sorted(rows))
