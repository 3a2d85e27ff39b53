"""Weights & Biases: one run with configuration, history, summary and tags per recorded run.

Runs are written offline unless the caller asks otherwise: into files that ``wandb sync`` uploads later. Values are
float64, as recorded. Rows hold ``global_step``, the step of the recorded series. The run's identifier derives from the
hash of the record, so an export that is repeated gives the same run. Needs the package ``wandb``.
"""

from __future__ import annotations

import os
import shutil
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from a2perf.errors import MissingDependency, UserError
from a2perf.metrics.values import Profile
from a2perf_trackers.description import RunDescription
from a2perf_trackers.exporting import ExportedRun, export_each, install_line, tracker_error, writable_folder
from a2perf_trackers.given_runs import RunSource, runs_of
from a2perf_trackers.loggers import TrackerLogger

Mode = Literal["offline", "online"]
PROJECT = "a2perf"
STEP = "global_step"
"""Key of the step in each row of the history; charts use it as their x axis."""

_HINT = "check the folder, WANDB_MODE and, for online runs, `wandb login`"
_MODES: dict[str, Mode] = {"offline": "offline", "dryrun": "offline", "online": "online", "run": "online"}
"""Modes by name; the others are names of older versions."""
_MOST_TAG_CHARACTERS = 64
_DIGITS = 16
_MOST_WAIT_S = 60.0
_CHUNK = struct.Struct("<IHB")
_HEADER_BYTES, _BLOCK_BYTES = 7, 32 << 10
_WHOLE, _MIDDLE, _LAST = 1, 3, 4


def log_runs(
    runs: RunSource | Iterable[RunSource],
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
    _imported()
    found = runs_of(runs)
    top = writable_folder(folder or os.environ.get("WANDB_DIR") or ".")
    chosen = _mode(mode)

    def write(description: RunDescription) -> ExportedRun:
        run_id = f"a2perf-{description.digest[:_DIGITS]}"
        known = _complete(top, run_id) if chosen == "offline" else None
        place = known or _log(description, run_id, project=project, entity=entity, top=top, mode=chosen)
        return ExportedRun(description.run.key, description.name, run_id, place, known is None)

    return export_each(found, "Weights & Biases", write, hint=_HINT, profile=profile, trace=trace)


class WandbLogger(TrackerLogger):
    """Logs values of a running training to one run of Weights & Biases.

    Args:
        project: as for ``log_runs``.
        entity: as for ``log_runs``.
        folder: as for ``log_runs``.
        mode: as for ``log_runs``.
        params: configuration of the run.

    Raises:
        MissingDependency: the package ``wandb`` is not installed.
        UserError: the folder cannot be written, or W&B refused the run.

    Example:
        >>> import tempfile
        >>> from a2perf_trackers.wandb import WandbLogger
        >>> with tempfile.TemporaryDirectory() as folder, WandbLogger("ppo", folder=folder) as logger:
        ...     logger.log(100, {"train/return": 12.5})
    """

    tracker = "Weights & Biases"

    def __init__(
        self,
        name: str,
        *,
        project: str | None = None,
        entity: str | None = None,
        folder: str | Path | None = None,
        mode: Mode | None = None,
        params: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__()
        _imported()
        top = writable_folder(folder or os.environ.get("WANDB_DIR") or ".")
        chosen = _mode(mode)
        try:
            self._run = _started(top, chosen, project=project, entity=entity, name=name, config=dict(params or {}))
        except Exception as error:  # wandb raises errors of many kinds
            raise tracker_error("Weights & Biases", f"run {name}", error, _HINT) from error
        self.run_id = str(self._run.id)
        self._file = _offline_file(self._run, chosen)

    def _log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({STEP: step, **values})

    def _close(self) -> None:
        _finish(self._run, self._file)


def _imported() -> Any:
    try:
        import wandb
    except ImportError as error:
        raise MissingDependency(
            "the export to Weights & Biases needs the package wandb, which is not installed",
            hint=install_line("wandb"),
        ) from error
    return wandb


def _mode(given: Mode | None) -> Mode:
    chosen = given or os.environ.get("WANDB_MODE") or "offline"
    if chosen in _MODES:
        return _MODES[chosen]
    raise UserError(f"{chosen!r} is not a mode of an export to Weights & Biases", hint="use offline or online")


def _complete(top: Path, run_id: str) -> str | None:
    """Returns the folder of an offline run that an earlier export completed; removes those that one left incomplete."""
    found = None
    for path in sorted(top.glob(f"wandb/offline-run-*-{run_id}/run-{run_id}.wandb")):
        if _is_complete(path):
            found = str(path.parent)
        else:  # `wandb sync` would upload half a run under the name of the whole one
            shutil.rmtree(path.parent)
    return found


def _started(top: Path, mode: str, **settings: Any) -> Any:
    """Starts a run that records only what it is given: no code, console, host, packages or hardware."""
    wandb = _imported()
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
    description: RunDescription, run_id: str, *, project: str | None, entity: str | None, top: Path, mode: Mode
) -> str:
    """Writes a run and returns its address, for an offline run its folder."""
    identity = description.run.identity
    tags = [identity.domain, identity.task, identity.algorithm, identity.mode]
    record = {name.removeprefix("a2perf."): value for name, value in description.tags.items()}
    run = _started(
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
    file = _offline_file(run, mode)
    place = str(run.url) if file is None else str(file.parent)
    _finish(run, file, exit_code=int(failed))
    return place


def _offline_file(run: Any, mode: Mode) -> Path | None:
    """Returns the file of an offline run; None for an online run."""
    return None if mode == "online" else Path(run.dir).parent / f"run-{run.id}.wandb"


def _finish(run: Any, file: Path | None, exit_code: int = 0) -> None:
    """Ends a run, and waits until its file is complete: W&B writes the last records after ``finish`` returns.

    Raises:
        TimeoutError: the file is not complete after ``_MOST_WAIT_S``.
    """
    run.finish(exit_code=exit_code)
    if file is None:
        return
    deadline = time.monotonic() + _MOST_WAIT_S
    pause, size = 0.01, -1
    while time.monotonic() < deadline:
        before, size = size, file.stat().st_size
        # Reading a long log takes seconds, so it has to be at rest first.
        if size == before and _is_complete(file):
            return
        time.sleep(pause)
        pause = min(2 * pause, 0.5)
    raise TimeoutError(f"{file} is not complete after {_MOST_WAIT_S:.0f} s")


def _is_complete(file: Path) -> bool:
    """Returns whether the file of an offline run holds the record of its end."""
    from wandb.proto.wandb_internal_pb2 import Record

    return any(Record.FromString(record).HasField("exit") for record in _records(file.read_bytes()))


def _records(data: bytes) -> Iterator[bytes]:
    """Yields the complete records of a log of LevelDB: chunks of checksum, length, kind and payload in blocks."""
    position, parts = _HEADER_BYTES, b""
    while position + _CHUNK.size <= len(data):
        left = _BLOCK_BYTES - position % _BLOCK_BYTES
        _, length, kind = _CHUNK.unpack_from(data, position)
        if left < _CHUNK.size or kind == 0:  # a chunk does not begin where its header does not fit
            position += left
            continue
        position += _CHUNK.size + length
        if position > len(data):
            break
        parts = (parts if kind in (_MIDDLE, _LAST) else b"") + data[position - length : position]
        if kind in (_WHOLE, _LAST):
            yield parts


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
